/* state_ops.c - effects that write a state in place: a view of it, or rows of a key cache.
 *
 * The result of an effect has no elements; it stands for "this has happened". */
#include <string.h>

#include "ops/support.h"

static bool effect_infer(neap_array *out)
{
    out->dtype = NEAP_U8;
    out->rank = 1;
    out->shape[0] = 0;
    return true;
}

/* ---- state_write ----------------------------------------------------------------------------- */

/* Where a target that stands at a parameter must end: along one axis of the state. */
typedef struct np_state_write_attr {
    neap_param *position; /* NULL: the target is inside the state wherever it stands */
    int64_t add;          /* first row on the axis = position * scale + add */
    int64_t scale;
    int64_t step;         /* between rows, on the axis */
    int64_t extent;       /* of the axis */
    int32_t dim;          /* of the target, that runs along the axis; -1: one row */
} np_state_write_attr;

static neap_status state_write_run(const np_call *c)
{
    const np_state_write_attr *attr = c->attr;
    const np_operand *value = c->in[0], *target = c->in[1];
    if (np_size(value->rank, value->shape) == 0)
        return NEAP_OK;
    if (attr->position) {
        int64_t rows = attr->dim >= 0 ? value->shape[attr->dim] : 1;
        int64_t first = 0; /* a product that overflows is beyond any state */
        bool over = __builtin_mul_overflow(attr->position->value, attr->scale, &first) ||
                    __builtin_add_overflow(first, attr->add, &first);
        over |= first < 0 || first >= attr->extent;
        int64_t last = over ? first : first + (rows - 1) * attr->step;
        if (over || last < 0 || last >= attr->extent)
            return np_fail(c->ctx, NEAP_ELIMIT,
                           "state_write: rows %lld to %lld (%s = %lld), the state has %lld",
                           (long long)first, (long long)last, attr->position->name,
                           (long long)attr->position->value, (long long)attr->extent);
    }
    np_convert(c->ctx->kernels, c->pool, value->rank, value->shape, target->dtype, target->data, target->strides,
               value->dtype, value->data, value->strides);
    return NEAP_OK;
}

const np_op np_op_state_write = {.name = "state_write", .arity = 2, .flags = NP_OP_EFFECT,
                                 .infer = effect_infer, .run = state_write_run,
                                 .no_grad = "an effect"};

const np_op np_op_state_append = {.name = "state_append", .arity = 2,
                                  .flags = NP_OP_EFFECT | NP_OP_APPENDS, .infer = effect_infer,
                                  .run = state_write_run, .no_grad = "an effect"};

/* Finds the axis of the state along which target's parameter moves it. */
static bool locate(const neap_array *target, np_state_write_attr *attr)
{
    const neap_array *state = np_storage_const(target);
    int axis = -1;
    for (int d = 0; d < state->rank; d++) /* row-major: the first that divides is the coarsest */
        if (axis < 0 && state->shape[d] > 1 && target->shift_scale % state->strides[d] == 0)
            axis = d;
    attr->dim = -1;
    if (axis < 0)
        return target->shift_scale == 0;
    int64_t unit = state->strides[axis], extent = state->shape[axis];
    attr->position = target->shift;
    attr->scale = target->shift_scale / unit;
    attr->add = target->offset / unit % extent;
    attr->extent = extent;
    for (int d = 0; d < target->rank; d++) {
        int64_t s = target->strides[d];
        if (target->shape[d] > 1 && s % unit == 0 && s / unit < extent && s / unit > -extent) {
            if (attr->dim >= 0)
                return false; /* two dimensions along one axis of the state */
            attr->dim = d;
            attr->step = s / unit;
        }
    }
    return true;
}

bool np_hangs_over(const neap_array *x)
{
    const neap_array *storage = np_storage_const(x);
    np_state_write_attr at = {0};
    if (!x->shift || !storage->op || !(storage->op->flags & NP_OP_STATE_READ) || !locate(x, &at) ||
        !at.position)
        return false;
    int64_t last;
    if (__builtin_mul_overflow(at.position->max, at.scale, &last) ||
        __builtin_add_overflow(last, at.add, &last) || last >= at.extent)
        return true;
    return last + (at.dim >= 0 && at.step > 0 ? (x->shape[at.dim] - 1) * at.step : 0) >= at.extent;
}

static bool writable(neap_array *const *in, const neap_array *target)
{
    const neap_array *storage = np_storage_const(target);
    if (!storage->op || !(storage->op->flags & NP_OP_STATE_READ)) {
        np_refuse("state_write", 2, in, NEAP_EINVAL, "the target is no state, nor a view of one");
        return false;
    }
    for (int d = 0; d < target->rank; d++) {
        if (target->strides[d] == 0 && target->shape[d] > 1) {
            np_refuse("state_write", 2, in, NEAP_EINVAL,
                      "the target is broadcast along dimension %d", d);
            return false;
        }
    }
    return true;
}

/* Recorded writes hold their graphs. Beyond so many of a state, one more is refused where the limits leave
 * less than running a portion of them may take: those there are can always be run. */
enum { FREE_WRITES = 64, WRITE_ROOM = 1 << 20 };

static bool keep_room(const neap_state *s, neap_array *const *in)
{
    const uint64_t waiting = s->written - s->done;
    if (waiting < FREE_WRITES)
        return true;
    for (neap_context *c = s->ctx; c; c = c->parent) {
        const uint64_t limit = c->ledger.limit, held = np_ledger_held(&c->ledger);
        const uint64_t own = s->buffer->data ? 0 : np_pages(neap_state_bytes(s));
        const uint64_t least = own + (limit / 4 < WRITE_ROOM ? limit / 4 : WRITE_ROOM);
        if (limit == UINT64_MAX || (held < limit && limit - held >= least))
            continue;
        np_refuse("state_write", 2, in, NEAP_ENOMEM,
                  "%llu writes of state %s wait to be run and the limit of %llu bytes leaves no room for "
                  "more: neap_state_flush runs them",
                  (unsigned long long)waiting, s->name, (unsigned long long)limit);
        return false;
    }
    return true;
}

static neap_array *record_write(const np_op *op, neap_array *target, neap_array *value)
{
    neap_array *in[2] = {value, target};
    np_state_write_attr attr;
    memset(&attr, 0, sizeof attr);
    if (!target || !np_ready(1, in) || !np_plain_dtype("state_write", value) ||
        !writable(in, target))
        return NULL;
    if (!keep_room(np_storage(target)->state, in))
        return NULL;
    np_extents e = np_extents_of(target);
    if (e.dynamic_dim < 0 && value->dynamic_dim >= 0) {
        e.dynamic_dim = value->dynamic_dim + target->rank - value->rank;
        e.extent = value->extent;
    } else if (value->dynamic_dim >= 0 && value->extent != e.extent) {
        return np_refuse("state_write", 2, in, NEAP_ESHAPE,
                         "two extents set at run time, %s and %s", value->extent->name,
                         e.extent->name);
    }
    in[0] = np_broadcast_view("state_write", value, &e);
    if (!in[0])
        return NULL;
    if (np_storage(value) == np_storage(target) ||
        (np_storage(value)->op == np_storage(target)->op &&
         np_storage(value)->state == np_storage(target)->state))
        in[0] = np_copied(in[0]); /* read before the same bytes are written */
    if (target->dynamic_dim < 0 && e.dynamic_dim >= 0) {
        in[1] = np_view(target, e.rank, e.shape, target->strides, 0); /* only so much is written */
        if (in[1])
            np_set_extent(in[1], e.dynamic_dim, e.extent);
    }
    if (target->shift && !locate(target, &attr))
        return np_refuse("state_write", 2, in, NEAP_EUNSUPPORTED,
                         "a target at parameter %s that runs along no axis of the state",
                         target->shift->name);
    neap_array *node = np_node(op, 2, in, &attr, sizeof attr);
    if (node)
        np_state_record(np_storage(target)->state, node);
    return node;
}

neap_array *neap_state_write(neap_array *target, neap_array *value)
{
    return record_write(&np_op_state_write, target, value);
}

neap_array *neap_state_append(neap_array *target, neap_array *value)
{
    return record_write(&np_op_state_append, target, value);
}

/* ---- key_cache_write ------------------------------------------------------------------------- */

typedef struct np_key_cache_attr {
    neap_param *position;
} np_key_cache_attr;

typedef struct np_key_cache_job {
    const np_operand *rows, *cache;
    np_cast_fn cast;
    int64_t position, count; /* rows of all heads */
} np_key_cache_job;

enum { KEY_TILE = 64 }; /* elements of a row that are brought together with those of its neighbours */

#define TURN_AS(type)                                                                              \
    for (int64_t d = 0; d < n; d++)                                                                \
        for (int64_t r = 0; r < count; r++)                                                        \
    ((type *)to)[d * stride + r] = ((const type *)from)[r * from_row + d]

static void turn(int64_t size, void *to, int64_t stride, const void *from, int64_t from_row,
                 int64_t count, int64_t n)
{
    if (size == 2)
        TURN_AS(uint16_t);
    else
        TURN_AS(uint32_t);
}

/* Writes `count` rows of one head that lie in one group: element d at [position / 16][d][position % 16]. */
static void write_keys(const np_key_cache_job *job, int64_t head, int64_t row, int64_t count)
{
    const np_operand *rows = job->rows, *cache = job->cache;
    _Alignas(64) uint8_t tile[NP_KEY_GROUP * KEY_TILE * 4];
    int64_t p = job->position + row, dim = rows->shape[2], stride = cache->strides[2];
    int64_t from_size = np_element_bytes(rows->dtype), size = np_element_bytes(cache->dtype);
    const uint8_t *from =
        rows->data + (head * rows->strides[0] + row * rows->strides[1]) * from_size;
    uint8_t *to = cache->data + (head * cache->strides[0] + p / NP_KEY_GROUP * cache->strides[1] +
                                 p % NP_KEY_GROUP) * size;
    for (int64_t d = 0; d < dim; d += KEY_TILE) {
        int64_t n = dim - d < KEY_TILE ? dim - d : KEY_TILE, key_row = rows->strides[1];
        const void *keys = from + d * from_size;
        for (int64_t r = 0; r < count && job->cast; r++)
            job->cast(tile + r * KEY_TILE * size, from + (r * key_row + d) * from_size, n);
        if (job->cast) {
            keys = tile;
            key_row = KEY_TILE;
        }
        turn(size, to + d * stride * size, stride, keys, key_row, count, n);
    }
}

static void key_cache_lane(void *arg, int lane, int lanes)
{
    const np_key_cache_job *job = arg;
    int64_t begin, end, per_head = job->rows->shape[1];
    np_share(job->count, NP_KEY_GROUP, lane, lanes, &begin, &end);
    for (int64_t count; begin < end && !np_stop(); begin += count) {
        int64_t row = begin % per_head, in_group = (job->position + row) % NP_KEY_GROUP;
        count = NP_KEY_GROUP - in_group;
        count = count < per_head - row ? count : per_head - row;
        count = count < end - begin ? count : end - begin;
        write_keys(job, begin / per_head, row, count);
    }
}

static neap_status key_cache_write_run(const np_call *c)
{
    const np_key_cache_attr *attr = c->attr;
    const np_operand *rows = c->in[0], *cache = c->in[1];
    int64_t capacity = cache->shape[1] * NP_KEY_GROUP, position = attr->position->value;
    if (position > capacity - rows->shape[1])
        return np_fail(c->ctx, NEAP_ELIMIT,
                       "key_cache_write: %lld rows at position %lld, the cache has %lld",
                       (long long)rows->shape[1], (long long)position, (long long)capacity);
    np_key_cache_job job = {.rows = rows, .cache = cache, .position = position,
                            .count = rows->shape[0] * rows->shape[1]};
    if (rows->dtype != cache->dtype)
        job.cast = c->ctx->kernels->span->cast[rows->dtype][cache->dtype];
    if (job.count * rows->shape[2] >= NP_PARALLEL_ELEMENTS / 8)
        np_pool_run(c->pool, key_cache_lane, &job);
    else if (job.count > 0)
        key_cache_lane(&job, 0, 1);
    return NEAP_OK;
}

const np_op np_op_key_cache_write = {.name = "key_cache_write", .arity = 2,
                                     .flags = NP_OP_EFFECT | NP_OP_APPENDS, .infer = effect_infer,
                                     .run = key_cache_write_run, .no_grad = "an effect"};

neap_array *neap_key_cache_write(neap_array *cache, neap_array *rows, neap_param *position)
{
    neap_array *in[2] = {rows, cache};
    if (!np_ready(2, in))
        return NULL;
    const neap_array *storage = np_storage(cache);
    if (!storage->op || !(storage->op->flags & NP_OP_STATE_READ) || cache->shift)
        return np_refuse("key_cache_write", 2, in, NEAP_EINVAL,
                         "the cache is no state, nor a view of one");
    if (!position)
        return np_refuse("key_cache_write", 2, in, NEAP_EINVAL, "no position");
    if (!np_is_float(rows->dtype) || !np_is_float(cache->dtype))
        return np_refuse("key_cache_write", 2, in, NEAP_EDTYPE, "for floats only");
    if (rows->rank != 3 || cache->rank != 4 || cache->shape[3] != NP_KEY_GROUP ||
        cache->shape[0] != rows->shape[0] || cache->shape[2] != rows->shape[2])
        return np_refuse("key_cache_write", 2, in, NEAP_ESHAPE,
                         "expected rows [Hkv, T, D] and a cache [Hkv, C / 16, D, 16]");
    if (cache->strides[3] != 1 || cache->dynamic_dim >= 0 ||
        (rows->dynamic_dim >= 0 && rows->dynamic_dim != 1))
        return np_refuse("key_cache_write", 2, in, NEAP_EUNSUPPORTED,
                         "only the number of rows may be set at run time");
    np_key_cache_attr attr = {position};
    in[0] = np_adjacent(rows);
    neap_array *node = np_node(&np_op_key_cache_write, 2, in, &attr, sizeof attr);
    if (node)
        np_state_record(storage->state, node);
    return node;
}
