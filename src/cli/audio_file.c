/* audio_file.c - see audio_file.h. */
#include "cli/audio_file.h"

#include <fcntl.h>
#include <inttypes.h>
#include <samplerate.h>
#include <sndfile.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <neap/audio.h>

#include "cli/wav_chunks.h"

enum { CHUNK = 4096, CHANNELS_MAX = 64, RATE_MIN = 1000, RATE_MAX = 768000 };

struct cli_audio {
    const char *path;
    SNDFILE *file;
    SF_INFO info;
    SRC_STATE *resampler; /* NULL: the file has 16 kHz */
    int64_t frames;       /* read so far */
    bool ended;           /* the file has no more; the resampler may have */
    int64_t first, count; /* what is left in `mono` */
    float mono[CHUNK];
    float *interleaved; /* [CHUNK, channels]; NULL for one channel */
};

/* ---- opening ------------------------------------------------------------------------------ */

static int check_info(const cli_audio *a)
{
    if (a->info.channels < 1 || a->info.channels > CHANNELS_MAX)
        return cli_failed("%s: %d channels, expected 1 to %d", a->path, a->info.channels,
                          CHANNELS_MAX);
    if (a->info.samplerate < RATE_MIN || a->info.samplerate > RATE_MAX)
        return cli_failed("%s: a sample rate of %d Hz, expected %d to %d", a->path,
                          a->info.samplerate, RATE_MIN, RATE_MAX);
    if (a->info.frames == 0)
        return cli_failed("%s: no sound in it: the header says 0 samples", a->path);
    return CLI_DONE;
}

static int check_chunks(const char *path, bool input)
{
    char id[5];
    const int file = input ? STDIN_FILENO : open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    const char *why = file < 0 ? NULL : cli_wav_refused(file, id);
    if (file >= 0 && !input)
        close(file);
    return why ? cli_failed("%s: a WAV file with a chunk '%s', which is not read: %s", path, id, why)
               : CLI_DONE;
}

static int open_file(cli_audio *a)
{
    struct stat s;
    const bool input = !strcmp(a->path, "-");
    if (!input && stat(a->path, &s) == 0 && S_ISDIR(s.st_mode))
        return cli_failed("%s: a folder, expected a file with sound", a->path);
    if (check_chunks(a->path, input) != CLI_DONE)
        return CLI_FAILED;
    a->file = input ? sf_open_fd(STDIN_FILENO, SFM_READ, &a->info, SF_FALSE)
                    : sf_open(a->path, SFM_READ, &a->info);
    if (!a->file) {
        char why[256];
        snprintf(why, sizeof why, "%s", sf_strerror(NULL));
        why[strcspn(why, "\r\n")] = '\0';
        return cli_failed("%s: cannot be read as sound (WAV, FLAC, Ogg, MP3 ...): %s", a->path,
                          why);
    }
    return check_info(a);
}

static int open_resampler(cli_audio *a)
{
    int error = 0;
    if (a->info.samplerate == NEAP_AUDIO_RATE)
        return CLI_DONE;
    a->resampler = src_new(SRC_SINC_MEDIUM_QUALITY, 1, &error);
    return a->resampler ? CLI_DONE
                        : cli_failed("%s: no resampler: %s", a->path, src_strerror(error));
}

cli_audio *cli_audio_open(const char *path)
{
    cli_audio *a = calloc(1, sizeof *a);
    if (!a) {
        cli_failed("%s: out of memory", path);
        return NULL;
    }
    a->path = path;
    int status = open_file(a);
    if (status == CLI_DONE && a->info.channels > 1) {
        a->interleaved = malloc((size_t)a->info.channels * sizeof(float[CHUNK]));
        if (!a->interleaved)
            status = cli_failed("%s: out of memory", path);
    }
    if (status == CLI_DONE)
        status = open_resampler(a);
    if (status == CLI_DONE)
        return a;
    cli_audio_close(a);
    return NULL;
}

void cli_audio_close(cli_audio *a)
{
    if (!a)
        return;
    if (a->resampler)
        src_delete(a->resampler);
    if (a->file)
        sf_close(a->file);
    free(a->interleaved);
    free(a);
}

/* ---- reading ------------------------------------------------------------------------------ */

/* The file's next chunk to a->mono: the mean of the channels. */
static bool refill(cli_audio *a)
{
    const int channels = a->info.channels;
    float *target = a->interleaved ? a->interleaved : a->mono;
    a->first = 0;
    a->count = sf_readf_float(a->file, target, CHUNK);
    if (a->count < 0)
        a->count = 0;
    a->frames += a->count;
    if (sf_error(a->file) != SF_ERR_NO_ERROR) {
        cli_failed("%s: damaged after %.1f s: %s", a->path,
                   (double)a->frames / a->info.samplerate, sf_strerror(a->file));
        return false;
    }
    a->ended = a->count == 0;
    for (int64_t i = 0; a->interleaved && i < a->count; i++) {
        double sum = 0;
        for (int c = 0; c < channels; c++)
            sum += (double)a->interleaved[i * channels + c];
        a->mono[i] = (float)(sum / channels);
    }
    return true;
}

/* What is there of the file's own samples, as they are or resampled. -1: an error, said. */
static int64_t convert(cli_audio *a, float *out, int64_t count)
{
    if (!a->resampler) {
        const int64_t n = count < a->count ? count : a->count;
        memcpy(out, a->mono + a->first, (size_t)n * sizeof *out);
        a->first += n;
        a->count -= n;
        return n;
    }
    SRC_DATA data = {.data_in = a->mono + a->first,
                     .data_out = out,
                     .input_frames = (long)a->count,
                     .output_frames = (long)count,
                     .end_of_input = a->ended,
                     .src_ratio = (double)NEAP_AUDIO_RATE / a->info.samplerate};
    const int error = src_process(a->resampler, &data);
    if (error) {
        cli_failed("%s: resampling: %s", a->path, src_strerror(error));
        return -1;
    }
    a->first += data.input_frames_used;
    a->count -= data.input_frames_used;
    return data.output_frames_gen;
}

int64_t cli_audio_read(cli_audio *a, float *out, int64_t count)
{
    int64_t made = 0;
    while (made < count) {
        if (a->count == 0 && !a->ended && !refill(a))
            return -1;
        const int64_t n = convert(a, out + made, count - made);
        if (n < 0)
            return -1;
        made += n;
        if (n == 0 && a->ended)
            break;
    }
    return made;
}
