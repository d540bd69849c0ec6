/* machine.c - what the machine leaves for one process: control groups (v1 and v2), available memory, and the
 * limits of the process. Everything is read from files below a root, so that a test can have its own machine;
 * what is absent or makes no sense limits nothing. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/versioned.h"

enum {
    FILE_BYTES = 16384, /* of the files looked at; what is beyond is not read */
    PATH_BYTES = 4096,
    DEEPEST = 64 /* control groups, one in another */
};

typedef struct machine {
    const char *root;
    neap_machine_memory_info info;
    uint64_t least;
} machine;

/* Reads a whole small file as text; false: it is not there. */
static bool read_text(const machine *m, const char *path, char text[FILE_BYTES])
{
    char full[PATH_BYTES];
    const int n = snprintf(full, sizeof full, "%s%s", m->root, path);
    if (n < 0 || (size_t)n >= sizeof full)
        return false;
    const int fd = open(full, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return false;
    size_t length = 0;
    ssize_t got = 1;
    while (got > 0 && length < FILE_BYTES - 1) {
        got = read(fd, text + length, FILE_BYTES - 1 - length);
        length += got > 0 ? (size_t)got : 0;
    }
    close(fd);
    text[length] = 0;
    return length > 0;
}

/* A number at the start of `text`, up to white space or the end; false for anything else ("max"). */
static bool parse_number(const char *text, uint64_t *out)
{
    uint64_t value = 0;
    const char *at = text + strspn(text, " \t");
    if (*at < '0' || *at > '9')
        return false;
    for (; *at >= '0' && *at <= '9'; at++)
        if (__builtin_mul_overflow(value, (uint64_t)10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*at - '0'), &value))
            return false;
    if (*at && !strchr(" \t\r\n", *at))
        return false;
    *out = value;
    return true;
}

/* The number behind `key` at the start of a line. */
static bool find_number(const char *text, const char *key, uint64_t *out)
{
    const size_t n = strlen(key);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, key, n) == 0 && (line[n] == ' ' || line[n] == '\t'))
            return parse_number(line + n, out);
        if (!*line)
            break;
    }
    return false;
}

/* One limit, and what is used of it. */
static void consider(machine *m, neap_machine_limit what, uint64_t limit, uint64_t used)
{
    const uint64_t left = limit > used ? limit - used : 0;
    if (limit >= (uint64_t)1 << 62 || left >= m->least)
        return; /* that is how "none" is written in places */
    m->least = left;
    m->info.binding = what;
    m->info.limit = limit;
    m->info.used = used;
}

/* ---- control groups ------------------------------------------------------------------------- */

/* How a hierarchy is mounted and what its files are called. */
typedef struct hierarchy {
    const char *mount, *limit, *anonymous;
} hierarchy;

static const hierarchy first_version = {"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "total_rss"};
static const hierarchy second_version = {"/sys/fs/cgroup", "memory.max", "anon"};
static const hierarchy hybrid = {"/sys/fs/cgroup/unified", "memory.max", "anon"};

static void consider_group(machine *m, const hierarchy *h, const char *group)
{
    char path[PATH_BYTES], text[FILE_BYTES];
    uint64_t limit, used = 0;
    int n = snprintf(path, sizeof path, "%s%s/%s", h->mount, group, h->limit);
    if (n < 0 || (size_t)n >= sizeof path || !read_text(m, path, text) || !parse_number(text, &limit))
        return;
    n = snprintf(path, sizeof path, "%s%s/memory.stat", h->mount, group);
    if (n > 0 && (size_t)n < sizeof path && read_text(m, path, text))
        find_number(text, h->anonymous, &used);
    consider(m, NEAP_MACHINE_CGROUP, limit, used);
}

/* The group and all that it is in, up to the mount; in a container the mount is often the group itself. */
static void consider_chain(machine *m, const hierarchy *h, char *group)
{
    for (int depth = 0; depth < DEEPEST; depth++) {
        size_t n = strlen(group);
        while (n > 0 && group[n - 1] == '/')
            group[--n] = 0;
        consider_group(m, h, group);
        char *slash = strrchr(group, '/');
        if (!slash)
            return;
        *slash = 0;
    }
}

/* Is `name` one of the names between commas? */
static bool lists(const char *names, size_t length, const char *name)
{
    const size_t n = strlen(name);
    for (const char *at = names, *end = names + length; at + n <= end; at++)
        if (strncmp(at, name, n) == 0 && (at == names || at[-1] == ',') && (at + n == end || at[n] == ','))
            return true;
    return false;
}

/* Lines "number:controllers:path"; the second version's have no controllers. */
static void consider_groups(machine *m)
{
    char text[FILE_BYTES];
    if (!read_text(m, "/proc/self/cgroup", text))
        return;
    char *next = NULL;
    for (char *line = strtok_r(text, "\n", &next); line; line = strtok_r(NULL, "\n", &next)) {
        const char *names = strchr(line, ':');
        char *path = names ? strchr(names + 1, ':') : NULL;
        if (!path || path[1] != '/' || strstr(path, "/../") || strlen(path) > PATH_BYTES / 2)
            continue;
        char group[PATH_BYTES];
        if (path == names + 1) {
            snprintf(group, sizeof group, "%s", path + 1);
            consider_chain(m, &second_version, group);
            snprintf(group, sizeof group, "%s", path + 1);
            consider_chain(m, &hybrid, group);
        } else if (lists(names + 1, (size_t)(path - names - 1), "memory")) {
            snprintf(group, sizeof group, "%s", path + 1);
            consider_chain(m, &first_version, group);
        }
    }
}

/* ---- the machine and the process ------------------------------------------------------------ */

static void consider_available(machine *m)
{
    char text[FILE_BYTES];
    uint64_t kib;
    if (read_text(m, "/proc/meminfo", text) && find_number(text, "MemAvailable:", &kib) &&
        kib < UINT64_MAX / 1024)
        consider(m, NEAP_MACHINE_AVAILABLE, kib * 1024, 0);
}

/* Pages of the process: all, and those of data and stack. */
static void pages_of(const machine *m, uint64_t *all, uint64_t *data)
{
    char text[FILE_BYTES];
    const char *at = text;
    uint64_t field[6] = {0};
    if (read_text(m, "/proc/self/statm", text))
        for (int i = 0; i < 6 && parse_number(at, &field[i]); i++)
            at += strspn(at, " ") + strcspn(at + strspn(at, " "), " \n");
    *all = field[0];
    *data = field[5];
}

/* The soft limits of the process. What it has mapped counts, files included: what is mapped later must come
 * out of the rest. */
static void consider_process(machine *m)
{
    char text[FILE_BYTES];
    uint64_t limit, all, data, page = (uint64_t)sysconf(_SC_PAGESIZE);
    if (!read_text(m, "/proc/self/limits", text))
        return;
    pages_of(m, &all, &data);
    if (find_number(text, "Max address space", &limit))
        consider(m, NEAP_MACHINE_ADDRESS_SPACE, limit, all < UINT64_MAX / page ? all * page : 0);
    if (find_number(text, "Max data size", &limit))
        consider(m, NEAP_MACHINE_DATA, limit, data < UINT64_MAX / page ? data * page : 0);
}

/* ---- the least ------------------------------------------------------------------------------ */

/* A sixteenth, for what is not on the ledger and for the rest of the machine: 16 MiB to 1 GiB, but never
 * more than half. */
static uint64_t reserve_of(uint64_t bytes)
{
    uint64_t reserve = bytes / 16;
    reserve = reserve < (16u << 20) ? 16u << 20 : reserve;
    reserve = reserve > (1u << 30) ? 1u << 30 : reserve;
    return reserve < bytes / 2 ? reserve : bytes / 2;
}

void neap_machine_memory(const char *root, neap_machine_memory_info *info)
{
    machine m = {.root = root ? root : "", .least = UINT64_MAX};
    consider_available(&m);
    consider_groups(&m);
    consider_process(&m);
    if (m.info.binding != NEAP_MACHINE_NONE) {
        m.info.reserve = reserve_of(m.least);
        m.info.budget = m.least - m.info.reserve;
        m.info.budget += m.info.budget == 0; /* 0 says that nothing limits */
    }
    np_tell(info, &m.info, sizeof m.info);
}

const char *neap_machine_limit_name(neap_machine_limit limit)
{
    static const char *const names[] = {"nothing", "the memory that is available", "the limit of a control group",
                                        "the limit of address space (ulimit -v)",
                                        "the limit of data (ulimit -d)"};
    return (unsigned)limit < sizeof names / sizeof names[0] ? names[limit] : "(unknown)";
}
