/* replay.c - the main of a fuzz target without a fuzzer: feeds every file of the folders that are
 * named, and each once more cut short at sixteen places, so that ordinary and sanitized builds
 * repeat what the fuzzer found. Inputs lie in memory of exactly their size: a read past the end
 * is seen by the address sanitizer. A folder that is absent counts as an empty one. */
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { CUTS = 16, INPUT_BYTES = 1 << 26, PATH_BYTES = 4096 };

static void feed(const uint8_t *bytes, size_t size)
{
    uint8_t *copy = malloc(size ? size : 1);
    if (!copy) {
        fprintf(stderr, "replay: no memory for %zu bytes\n", size);
        exit(1);
    }
    if (size)
        memcpy(copy, bytes, size);
    LLVMFuzzerTestOneInput(copy, size);
    free(copy);
}

static void feed_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    uint8_t *bytes = malloc(INPUT_BYTES);
    if (!f || !bytes) {
        fprintf(stderr, "replay: %s: %s\n", path, strerror(errno));
        exit(1);
    }
    size_t size = fread(bytes, 1, INPUT_BYTES, f);
    fclose(f);
    fprintf(stderr, "replay: %s, %zu bytes\n", path, size); /* a crash is named by the last line */
    feed(bytes, size);
    for (size_t cut = 0; cut < CUTS; cut++)
        feed(bytes, size * cut / CUTS);
    free(bytes);
}

static int feed_folder(const char *folder)
{
    DIR *dir = opendir(folder);
    int fed = 0;
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        char path[PATH_BYTES];
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        feed_file(path);
        fed++;
    }
    if (dir)
        closedir(dir);
    return fed;
}

int main(int argc, char **argv)
{
    int fed = 0;
    feed((const uint8_t *)"", 0);
    for (int i = 1; i < argc; i++)
        fed += feed_folder(argv[i]);
    printf("replay: %d inputs\n", fed);
    return 0;
}
