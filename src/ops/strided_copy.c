/* strided_copy.c - copies elements of any size between strided places.
 *
 * Dimensions are reordered so that the one nearest in the target comes last and, when the source is
 * laid out another way, the one nearest there second to last: those two are walked in square
 * blocks, so a transposing copy reads and writes whole cache lines. */
#include <string.h>

#include "ops/support.h"

enum { BLOCK = 32, PARALLEL_BYTES = 128 * 1024, GRAIN = 64, FILL_BYTES = 4096, LONG = 1 << 19 };

static int64_t magnitude(int64_t v)
{
    return v < 0 ? -v : v;
}

/* The dimension of smallest stride but not 0, except `other`; -1 if there is none. */
static int nearest(const np_copy *c, const int64_t *strides, int other)
{
    int best = -1;
    for (int d = c->rank - 1; d >= 0; d--)
        if (d != other && strides[d] != 0 &&
            (best < 0 || magnitude(strides[d]) < magnitude(strides[best])))
            best = d;
    return best;
}

static void move_dimension(np_copy *c, int from, int to)
{
    for (int64_t *list[3] = {c->shape, c->to, c->from}, i = 0; i < 3; i++) {
        int64_t kept = list[i][from];
        memmove(list[i] + from, list[i] + from + 1, (size_t)(to - from) * sizeof kept);
        list[i][to] = kept;
    }
}

np_copy np_copy_make(int64_t size, int rank, const int64_t *shape, const int64_t *to_strides,
                     const int64_t *from_strides)
{
    np_copy c = {.size = size, .empty = np_size(rank, shape) == 0};
    int64_t strides[2][NEAP_MAX_RANK];
    if (rank > 0) { /* of rank 0 they may be NULL */
        memcpy(c.shape, shape, (size_t)rank * sizeof *shape);
        memcpy(strides[0], to_strides, (size_t)rank * sizeof *shape);
        memcpy(strides[1], from_strides, (size_t)rank * sizeof *shape);
    }
    if (c.empty)
        return c;
    c.rank = np_collapse(rank, c.shape, 2, strides);
    if (c.rank == 0) { /* one element: a row of one */
        c.rank = 1;
        c.shape[0] = 1;
        strides[0][0] = strides[1][0] = 1;
    }
    for (int d = 0; d < c.rank; d++) {
        c.to[d] = strides[0][d] * size;
        c.from[d] = strides[1][d] * size;
    }
    int last = nearest(&c, c.to, -1);
    if (last >= 0)
        move_dimension(&c, last, c.rank - 1);
    last = c.rank - 1;
    int second = nearest(&c, c.from, last);
    if (second >= 0 && c.from[last] != 0 && magnitude(c.from[second]) < magnitude(c.from[last])) {
        move_dimension(&c, second, last - 1);
        c.planes = true;
    }
    return c;
}

#define MOVE_AS(type)                                                                              \
    for (int64_t i = 0; i < n; i++)                                                                \
    *(type *)(to + i * to_step) = *(const type *)(from + i * from_step)

/* One element n times: what is there already, again and again. */
static void fill_row(int64_t size, uint8_t *to, const uint8_t *from, int64_t n)
{
    memcpy(to, from, (size_t)size);
    for (int64_t done = size, more; done < n * size; done += more) {
        more = done < FILL_BYTES ? done : FILL_BYTES;
        more = more < n * size - done ? more : n * size - done;
        memcpy(to + done, to, (size_t)more);
    }
}

static void copy_row(int64_t size, uint8_t *to, int64_t to_step, const uint8_t *from,
                     int64_t from_step, int64_t n)
{
    if (to_step == size && from_step == size) {
        memcpy(to, from, (size_t)(n * size));
        return;
    }
    if (to_step == size && from_step == 0) {
        fill_row(size, to, from, n);
        return;
    }
    switch (size) {
    case 1: MOVE_AS(uint8_t); break;
    case 2: MOVE_AS(uint16_t); break;
    case 4: MOVE_AS(uint32_t); break;
    default: MOVE_AS(uint64_t); break;
    }
}

/* The same in pieces, between which the rest may prove unwanted. */
static void copy_long_row(int64_t size, uint8_t *to, int64_t to_step, const uint8_t *from,
                          int64_t from_step, int64_t n)
{
    for (int64_t i = 0; i < n && !np_stop_in_row(i); i += LONG)
        copy_row(size, to + i * to_step, to_step, from + i * from_step, from_step, n - i < LONG ? n - i : LONG);
}

/* shape[r] x shape[r + 1] elements in blocks of 32 x 32. */
static void copy_plane(const np_copy *c, uint8_t *to, const uint8_t *from)
{
    int r = c->rank - 2;
    int64_t rows = c->shape[r], n = c->shape[r + 1];
    for (int64_t j = 0; j < rows && !np_stop(); j += BLOCK) {
        int64_t j_end = j + BLOCK < rows ? j + BLOCK : rows;
        for (int64_t i = 0; i < n; i += BLOCK) {
            int64_t width = i + BLOCK < n ? BLOCK : n - i;
            for (int64_t k = j; k < j_end; k++)
                copy_row(c->size, to + k * c->to[r] + i * c->to[r + 1], c->to[r + 1],
                         from + k * c->from[r] + i * c->from[r + 1], c->from[r + 1], width);
        }
    }
}

void np_copy_one(const np_copy *c, void *to, const void *from)
{
    if (c->empty)
        return;
    int last = c->rank - 1, outer = c->planes ? c->rank - 2 : last;
    int64_t index[NEAP_MAX_RANK] = {0}, offset[2] = {0, 0}, count = np_size(outer, c->shape);
    int64_t strides[2][NEAP_MAX_RANK];
    memcpy(strides[0], c->to, sizeof strides[0]);
    memcpy(strides[1], c->from, sizeof strides[1]);
    for (int64_t u = 0; u < count && !np_stop_at(u + 1); u++) {
        uint8_t *t = (uint8_t *)to + offset[0];
        const uint8_t *f = (const uint8_t *)from + offset[1];
        if (c->planes)
            copy_plane(c, t, f);
        else
            copy_long_row(c->size, t, c->to[last], f, c->from[last], c->shape[last]);
        np_index_next(outer, c->shape, index, 2, offset, strides);
    }
}

/* ---- over the lanes ------------------------------------------------------------------------- */

typedef struct np_copy_job {
    const np_copy *copy;
    int split; /* dimension */
    uint8_t *to;
    const uint8_t *from;
} np_copy_job;

static void copy_lane(void *arg, int lane, int lanes)
{
    const np_copy_job *job = arg;
    np_copy part = *job->copy;
    int64_t begin, end;
    np_share(part.shape[job->split], part.shape[job->split] >= GRAIN * lanes ? GRAIN : 1, lane,
             lanes, &begin, &end);
    part.shape[job->split] = end - begin;
    if (end > begin)
        np_copy_one(&part, job->to + begin * part.to[job->split],
                    job->from + begin * part.from[job->split]);
}

void np_copy_all(const np_copy *c, np_pool *pool, void *to, const void *from)
{
    if (c->empty)
        return;
    if (to == from && memcmp(c->to, c->from, sizeof c->to) == 0)
        return; /* in place */
    if (np_size(c->rank, c->shape) * c->size < PARALLEL_BYTES) {
        np_copy_one(c, to, from);
        return;
    }
    np_copy_job job = {.copy = c, .to = to, .from = from};
    for (int d = 1; d < c->rank; d++)
        if (c->shape[d] > c->shape[job.split])
            job.split = d;
    np_pool_run(pool, copy_lane, &job);
}
