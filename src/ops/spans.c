/* spans.c - walks strided operands in tiles and calls a span kernel on each.
 *
 * Two ways, by the extent of the innermost dimension (after merging what lies in one piece): long
 * rows are cut into chunks and used where they lie; short rows are gathered, several to a tile.
 * What is neither adjacent nor one element for all goes through tiles on the stack, 8 KiB an
 * operand. */
#include <string.h>

#include "ops/support.h"

enum { TILE = 1024, CHUNK = 4096, SHORT_ROW = 32, SHORT_GATHERED_ROW = 256 };

typedef enum np_access { DIRECT, ONE, GATHER } np_access;

typedef struct np_walk {
    const np_spans *spans;
    int rank, n;
    bool rows;     /* a unit is a chunk of one row; else several whole rows */
    int64_t shape[NEAP_MAX_RANK]; /* rank >= 1; the last is the row */
    int64_t strides[NP_MAX_OPERANDS][NEAP_MAX_RANK];
    np_access access[NP_MAX_OPERANDS];
    int64_t row, n_rows, chunk, n_units;
} np_walk;

/* ---- tiles ---------------------------------------------------------------------------------- */

#define GATHER_AS(type)                                                                            \
    for (int64_t i = 0; i < n; i++)                                                                \
    ((type *)to)[i * to_stride] = ((const type *)from)[i * from_stride]

static void move(int64_t size, void *to, int64_t to_stride, const void *from, int64_t from_stride,
                 int64_t n)
{
    if (to_stride == 1 && from_stride == 1) {
        memcpy(to, from, (size_t)(n * size));
        return;
    }
    switch (size) {
    case 1: GATHER_AS(uint8_t); break;
    case 2: GATHER_AS(uint16_t); break;
    case 4: GATHER_AS(uint32_t); break;
    default: GATHER_AS(uint64_t); break;
    }
}

static uint8_t *element(const np_walk *w, int i, int64_t offset)
{
    return (uint8_t *)w->spans->operand[i].data + offset * w->spans->operand[i].size;
}

/* Moves `rows` rows from `index` on, all of one operand, into its tile or (scatter) out of it. */
static void move_rows(const np_walk *w, int i, int64_t first, int64_t rows, uint8_t *tile,
                      bool scatter)
{
    int64_t index[NEAP_MAX_RANK], offset[1], size = w->spans->operand[i].size;
    int64_t strides[1][NEAP_MAX_RANK];
    memcpy(strides[0], w->strides[i], sizeof strides[0]);
    int outer = w->rank - 1;
    int64_t stride = strides[0][outer];
    np_index_seek(outer, w->shape, first, index, 1, offset, strides);
    for (int64_t r = 0; r < rows; r++) {
        uint8_t *t = tile + r * w->row * size, *p = element(w, i, offset[0]);
        if (scatter)
            move(size, p, stride, t, 1, w->row);
        else
            move(size, t, 1, p, stride, w->row);
        np_index_next(outer, w->shape, index, 1, offset, strides);
    }
}

typedef struct np_tiles {
    _Alignas(64) uint8_t bytes[NP_MAX_OPERANDS][TILE * 8];
} np_tiles;

/* Units [u, end) of several rows each. */
static void walk_groups(const np_walk *w, int64_t u, int64_t end, np_tiles *tiles)
{
    void *at[NP_MAX_OPERANDS];
    int step[NP_MAX_OPERANDS];
    for (; u < end && !np_stop_at(u); u++) {
        int64_t first = u * w->chunk;
        int64_t rows = first + w->chunk < w->n_rows ? w->chunk : w->n_rows - first;
        for (int i = 0; i < w->n; i++) {
            step[i] = w->access[i] != ONE;
            if (w->access[i] == GATHER) {
                at[i] = tiles->bytes[i];
                if (i > 0)
                    move_rows(w, i, first, rows, at[i], false);
            } else {
                at[i] = element(w, i, w->access[i] == ONE ? 0 : first * w->row);
            }
        }
        w->spans->fn(w->spans->user, at, step, rows * w->row);
        if (w->access[0] == GATHER)
            move_rows(w, 0, first, rows, at[0], true);
    }
}

/* Elements [begin, begin + n) of the row at `offset`. */
static void walk_chunk(const np_walk *w, const int64_t *offset, int64_t begin, int64_t n,
                       np_tiles *tiles)
{
    void *at[NP_MAX_OPERANDS];
    int step[NP_MAX_OPERANDS], last = w->rank - 1;
    for (int i = 0; i < w->n; i++) {
        int64_t stride = w->strides[i][last], size = w->spans->operand[i].size;
        at[i] = element(w, i, offset[i] + begin * stride);
        step[i] = w->access[i] != ONE;
        if (w->access[i] == GATHER) {
            if (i > 0)
                move(size, tiles->bytes[i], 1, at[i], stride, n);
            at[i] = tiles->bytes[i];
        }
    }
    w->spans->fn(w->spans->user, at, step, n);
    if (w->access[0] == GATHER)
        move(w->spans->operand[0].size, element(w, 0, offset[0] + begin * w->strides[0][last]),
             w->strides[0][last], at[0], 1, n);
}

/* Units [u, end) of one chunk of a row each. */
static void walk_rows(const np_walk *w, int64_t u, int64_t end, np_tiles *tiles)
{
    int64_t index[NEAP_MAX_RANK], offset[NP_MAX_OPERANDS];
    int64_t strides[NP_MAX_OPERANDS][NEAP_MAX_RANK];
    memcpy(strides, w->strides, sizeof strides);
    int64_t chunks = (w->row + w->chunk - 1) / w->chunk;
    np_index_seek(w->rank - 1, w->shape, u / chunks, index, w->n, offset, strides);
    for (int64_t c = u % chunks; u < end && !np_stop_at(u); u++) {
        int64_t begin = c * w->chunk;
        int64_t n = begin + w->chunk < w->row ? w->chunk : w->row - begin;
        walk_chunk(w, offset, begin, n, tiles);
        if (++c == chunks) {
            c = 0;
            np_index_next(w->rank - 1, w->shape, index, w->n, offset, strides);
        }
    }
}

static void walk_lane(void *arg, int lane, int lanes)
{
    const np_walk *w = arg;
    int64_t begin, end;
    np_tiles tiles;
    np_share(w->n_units, 1, lane, lanes, &begin, &end);
    if (begin == end)
        return;
    if (w->rows)
        walk_rows(w, begin, end, &tiles);
    else
        walk_groups(w, begin, end, &tiles);
}

/* ---- planning the walk ---------------------------------------------------------------------- */

/* How each operand is read when a unit is a chunk of a row, and whether any must be gathered. */
static bool choose_row_access(np_walk *w)
{
    bool gathers = false;
    for (int i = 0; i < w->n; i++) {
        int64_t stride = w->strides[i][w->rank - 1];
        w->access[i] = stride == 1                                 ? DIRECT
                       : stride == 0 && i > 0 && !w->spans->repeat ? ONE
                                                                   : GATHER;
        if (w->row == 1)
            w->access[i] = DIRECT;
        gathers |= w->access[i] == GATHER;
    }
    return gathers;
}

/* The same when a unit is several rows: direct only if the whole operand lies in one piece. */
static void choose_group_access(np_walk *w)
{
    for (int i = 0; i < w->n; i++) {
        bool dense = np_is_row_major(w->rank, w->shape, w->strides[i]), one = i > 0;
        for (int d = 0; d < w->rank; d++)
            one &= w->strides[i][d] == 0;
        w->access[i] = dense ? DIRECT : one && !w->spans->repeat ? ONE : GATHER;
    }
}

void np_spans_run(const np_spans *spans)
{
    np_walk w = {.spans = spans, .n = spans->n};
    int64_t elements = np_size(spans->rank, spans->shape);
    if (elements == 0)
        return;
    memcpy(w.shape, spans->shape, (size_t)spans->rank * sizeof w.shape[0]);
    for (int i = 0; i < w.n; i++)
        memcpy(w.strides[i], spans->operand[i].strides, (size_t)spans->rank * sizeof w.shape[0]);
    w.rank = np_collapse(spans->rank, w.shape, w.n, w.strides);
    if (w.rank == 0) {
        w.shape[0] = 1;
        w.rank = 1;
    }
    w.row = w.shape[w.rank - 1];
    w.n_rows = elements / w.row;
    bool gathers = choose_row_access(&w);
    w.rows = w.rank == 1 || w.row >= (gathers ? SHORT_GATHERED_ROW : SHORT_ROW);
    if (w.rows) {
        w.chunk = gathers ? TILE : CHUNK;
        w.n_units = w.n_rows * ((w.row + w.chunk - 1) / w.chunk);
    } else {
        choose_group_access(&w);
        w.chunk = TILE / w.row;
        w.n_units = (w.n_rows + w.chunk - 1) / w.chunk;
    }
    if (elements >= NP_PARALLEL_ELEMENTS)
        np_pool_run(spans->pool, walk_lane, &w);
    else
        walk_lane(&w, 0, 1);
}

void np_spans_call(const np_call *c, bool repeat, np_span_fn fn, const void *user)
{
    np_spans s = {.pool = c->pool, .rank = c->out->rank, .shape = c->out->shape,
                  .n = (int)c->n_in + 1, .repeat = repeat, .fn = fn, .user = user};
    for (int i = 0; i < s.n; i++) {
        const np_operand *o = i ? c->in[i - 1] : c->out;
        s.operand[i] = (np_span_operand){o->data, o->strides, np_element_bytes(o->dtype)};
    }
    np_spans_run(&s);
}

/* ---- conversion ----------------------------------------------------------------------------- */

typedef struct np_cast_user {
    np_cast_fn fn;
} np_cast_user;

static void cast_span(const void *user, void *const *at, const int *step, int64_t n)
{
    (void)step;
    ((const np_cast_user *)user)->fn(at[0], at[1], n);
}

void np_convert(const np_kernels *kernels, np_pool *pool, int rank, const int64_t *shape, neap_dtype to_dtype, void *to,
                const int64_t *to_strides, neap_dtype from_dtype, const void *from,
                const int64_t *from_strides)
{
    if (to_dtype == from_dtype) {
        np_copy copy =
            np_copy_make(np_element_bytes(to_dtype), rank, shape, to_strides, from_strides);
        np_copy_all(&copy, pool, to, from);
        return;
    }
    np_cast_user user = {kernels->span->cast[from_dtype][to_dtype]};
    np_spans spans = {.pool = pool, .rank = rank, .shape = shape, .n = 2, .repeat = true,
                      .fn = cast_span, .user = &user};
    spans.operand[0] = (np_span_operand){to, to_strides, np_element_bytes(to_dtype)};
    spans.operand[1] =
        (np_span_operand){(void *)(uintptr_t)from, from_strides, np_element_bytes(from_dtype)};
    np_spans_run(&spans);
}
