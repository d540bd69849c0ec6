/* fuse.c - which tasks become one step.
 *
 * A group runs tile by tile: its inner values exist for a tile only. Tasks join along the values
 * that they hand on; what lacks some of the group's axes and is cheap (repeats), made again for each of
 * their indices; and (sideways) where they read the same one. Every merge is weighed on a timeline of
 * live bytes: a group runs where its last task ran, so what its other tasks read lives longer, and it
 * must not raise the peak. */
#include "plan/fuse.h"

#include <string.h>

#include "ops/op_table.h"
#include "plan/emit.h"

enum {
    LEAST_ELEMENTS = 8192,  /* below, a step of its own costs nothing */
    MOST_MEMBERS = 1024,
    MOST_READERS = 32, /* of a value that is made a tile's only */
    MOST_VISITS = 4096, /* groups looked at to see whether a merge would make a circle */
    FARTHEST = 4096,    /* tasks between two that are merged */
    LONG_ROW = 65536,   /* elements for one index of all axes: not for the sake of a merge, ... */
    ROW = 4096,         /* ... nor so many, if there are ... */
    FEW_ROWS = 8,       /* ... less than so many for each lane: tiles are not much less than the whole */
    MOST_TIMES = 256,   /* that a value is made for indices of axes it lacks */
    LARGE = 4,          /* of the bytes that are alive where most are, one value's */
    REPEATED = NP_OP_ELEMENTWISE | NP_OP_CHEAP
};

#define MOST_AGAIN 0.5 /* of a group's time that values may take which are made more than once */

/* ---- groups ------------------------------------------------------------------------------------ */

uint32_t np_fuser_group(np_fuser *f, uint32_t task)
{
    while (f->parent[task] != task) {
        f->parent[task] = f->parent[f->parent[task]];
        task = f->parent[task];
    }
    return task;
}

static int common_axes(const np_group_shape *a, const np_group_shape *b)
{
    int n = 0;
    while (n < a->n_axes && n < b->n_axes && a->extent[n] == b->extent[n] &&
           a->param[n] == b->param[n])
        n++;
    return n;
}

bool np_axes_set_later(const np_group_shape *s, int from)
{
    for (int j = from; j < s->n_axes; j++)
        if (s->param[j])
            return true;
    return false;
}

/* Bits by axis of a group that lacks some of another one's, by axis of that one. */
static uint8_t spread(uint8_t bits, uint8_t lacks)
{
    uint8_t out = lacks;
    for (int j = 0, k = 0; j < NP_AXES; j++)
        if (!(lacks >> j & 1))
            out |= (uint8_t)((bits >> k++ & 1) << j);
    return out;
}

/* Has every task of the group the last of n axes? A tile is of several of its indices. */
static bool all_have(const np_fuser *f, uint32_t group, int n)
{
    for (uint32_t m = group; m != NP_NONE; m = f->next[m])
        if (f->lacks[m] >> (n - 1) & 1)
            return false;
    return true;
}

/* Do all values that `from` hands on to `to` hold for tiles of n axes, of which it lacks some? */
static bool tiles_serve(np_fuser *f, uint32_t from, uint8_t lacks, uint32_t to, int n)
{
    for (uint32_t m = from; m != NP_NONE; m = f->next[m])
        for (uint32_t k = f->b->out_first[m]; k < f->b->out_first[m + 1]; k++) {
            const np_edge *e = &f->b->edges[f->b->out[k]];
            if (!e->reads || np_fuser_group(f, e->to) != to)
                continue;
            const np_todo *t = &f->b->tasks[e->to];
            uint32_t inputs;
            neap_array *const *in = np_task_inputs(f->b, t, &inputs);
            for (uint32_t i = 0; i < inputs; i++)
                if (np_task_maker(f->b, t, i, in[i]) == m &&
                    !np_tile_serves(f, m, spread(f->lacks[m], lacks), e->to, i, n))
                    return false;
        }
    return true;
}

/* Is there a way out of these groups and back through others, or does one of them wait for another to be
 * made as a whole? Then they cannot be one step. A way
 * back may lead through later tasks, but only to where groups that begin earlier, or among those
 * tasks, go on. */
static bool circle(np_fuser *f, const uint32_t *set, uint32_t count)
{
    uint32_t n = 0, last = 0;
    f->stamp++;
    for (uint32_t i = 0; i < count; i++) {
        f->seen[set[i]] = f->stamp;
        last = f->last[set[i]] > last ? f->last[set[i]] : last;
    }
    while (f->reach[last] > last)
        last = f->reach[last];
    for (uint32_t at = 0; at < count + n; at++) {
        uint32_t g = at < count ? set[at] : f->queue[at - count];
        for (uint32_t m = g; m != NP_NONE; m = f->next[m])
            for (uint32_t k = f->b->out_first[m]; k < f->b->out_first[m + 1]; k++) {
                const np_edge *e = &f->b->edges[f->b->out[k]];
                uint32_t to = np_fuser_group(f, e->to);
                bool inside = false;
                for (uint32_t i = 0; i < count; i++)
                    inside |= set[i] == to;
                if (inside && (at >= count || (to != g && !e->reads)))
                    return true;
                if (inside || f->seen[to] == f->stamp || f->first[to] > last)
                    continue;
                if (n == MOST_VISITS)
                    return true;
                f->seen[to] = f->stamp;
                f->queue[n++] = to;
            }
    }
    return false;
}

/* ---- the timeline ------------------------------------------------------------------------------ */

static void add_change(np_fuser *f, uint32_t first, uint32_t last, int64_t bytes)
{
    for (uint32_t p = first; p <= last && p < f->b->n_tasks; p++) {
        f->change[p] += bytes;
        if (p < f->low)
            f->low = p;
        if (p > f->high)
            f->high = p;
    }
}

/* Is everything that reads task m's value in group a or b? */
static bool inner_to(np_fuser *f, uint32_t m, uint32_t a, uint32_t b)
{
    if (f->b->out_first[m] == f->b->out_first[m + 1] ||
        f->b->direct[f->b->tasks[m].entry] != NP_NONE)
        return false;
    for (uint32_t k = f->b->out_first[m]; k < f->b->out_first[m + 1]; k++) {
        const np_edge *e = &f->b->edges[f->b->out[k]];
        uint32_t to = np_fuser_group(f, e->to);
        if (e->reads && to != a && to != b)
            return false;
    }
    return true;
}

/* What group a's moving to position `at` does to live bytes; b stays there. */
static void weigh(np_fuser *f, uint32_t a, uint32_t b, uint32_t at, bool apply)
{
    for (uint32_t m = a; m != NP_NONE; m = f->next[m]) {
        if (inner_to(f, m, a, b)) {
            if (f->death[m] != NP_NONE) {
                add_change(f, f->birth[m], f->death[m], -(int64_t)f->bytes[m]);
                if (apply)
                    f->death[m] = NP_NONE; /* a tile's only */
            }
        } else if (f->birth[m] < at) {
            add_change(f, f->birth[m], at - 1, -(int64_t)f->bytes[m]);
            if (apply)
                f->birth[m] = at;
            if (f->death[m] < at) {
                add_change(f, at, at, (int64_t)f->bytes[m]);
                if (apply)
                    f->death[m] = at;
            }
        }
    }
    for (uint32_t m = a; m != NP_NONE; m = f->next[m])
        for (uint32_t k = f->b->in_first[m]; k < f->b->in_first[m + 1]; k++) {
            const np_edge *e = &f->b->edges[f->b->in[k]];
            uint32_t from = e->from, g = np_fuser_group(f, from);
            if (!e->reads || g == a || g == b || f->death[from] == NP_NONE || f->death[from] >= at ||
                f->counted[from] == f->stamp)
                continue;
            f->counted[from] = f->stamp;
            add_change(f, f->death[from] + 1, at, (int64_t)f->bytes[from]);
            if (apply)
                f->death[from] = at;
        }
}

/* By how much the merge would raise the peak; 0: it does not. */
static uint64_t rise(np_fuser *f, uint32_t a, uint32_t b)
{
    int64_t before = 0, after = 0;
    f->low = UINT32_MAX;
    f->high = 0;
    f->stamp++;
    weigh(f, a, b, f->last[b], false);
    for (uint32_t p = f->low; p != UINT32_MAX && p <= f->high; p++) {
        int64_t now = f->live[p] + f->change[p];
        before = f->live[p] > before ? f->live[p] : before;
        after = now > after ? now : after;
        f->change[p] = 0;
    }
    int64_t bound = before > f->peak ? before : f->peak;
    return after > bound ? (uint64_t)(after - bound) : 0;
}

static void move_lives(np_fuser *f, uint32_t a, uint32_t b)
{
    f->low = UINT32_MAX;
    f->high = 0;
    f->stamp++;
    weigh(f, a, b, f->last[b], true);
    for (uint32_t p = f->low; p != UINT32_MAX && p <= f->high; p++) {
        f->live[p] += f->change[p];
        f->change[p] = 0;
    }
}

/* ---- merging ----------------------------------------------------------------------------------- */

/* Values used once count with their user. */
static uint32_t merged_count(np_fuser *f, uint32_t a, uint32_t b)
{
    uint32_t n = f->count[a] + f->count[b];
    for (uint32_t m = a; m != NP_NONE; m = f->next[m])
        if (f->b->out_first[m] + 1 == f->b->out_first[m + 1] && inner_to(f, m, a, b) && !f->within[m])
            n--;
    return n;
}

static void join(np_fuser *f, uint32_t a, uint32_t b, int axes)
{
    uint32_t count = merged_count(f, a, b), tail = b;
    move_lives(f, a, b);
    for (uint32_t m = a; m != NP_NONE; m = f->next[m])
        if (f->b->out_first[m] + 1 == f->b->out_first[m + 1] && inner_to(f, m, a, b))
            f->within[m] = true;
    while (f->next[tail] != NP_NONE)
        tail = f->next[tail];
    f->next[tail] = a;
    f->parent[a] = b;
    f->first[b] = f->first[a] < f->first[b] ? f->first[a] : f->first[b];
    for (uint32_t p = f->first[b]; f->reach[p] < f->last[b]; p++)
        f->reach[p] = f->last[b];
    f->count[b] = count;
    f->size[b] += f->size[a];
    f->windowed[b] = (f->windowed[a] && axes == f->axes[a]) || (f->windowed[b] && axes == f->axes[b]);
    f->axes[b] = (uint8_t)axes;
    f->heavy[b] |= f->heavy[a];
}

static void tell(np_fuser *f, uint32_t a, uint32_t b, const char *reason, uint64_t bytes)
{
    const np_builder *bl = f->b;
    if (!f->options->explain)
        return;
    const neap_array *x = bl->g->entries[bl->tasks[a].entry].array,
                     *y = bl->g->entries[bl->tasks[b].entry].array;
    neap_plan_event e = {.kind = NEAP_PLAN_EVENT_NOT_FUSED, .text = reason,
                         .a = x->name ? x->name : np_task_op(bl, &bl->tasks[a])->name,
                         .b = y->name ? y->name : np_task_op(bl, &bl->tasks[b])->name,
                         .peak_bytes = bytes};
    f->options->explain(f->options->user, &e);
}

static int64_t largest(np_fuser *f, uint32_t task)
{
    const neap_array *a = f->b->g->entries[f->b->tasks[task].entry].array;
    return np_size(a->rank, a->shape);
}

/* Elements of the longest row of a group cut along n axes. */
static int64_t longest_row(np_fuser *f, uint32_t g, int n)
{
    const np_group_shape s = np_task_shape(f->b, g, n, false);
    int64_t most = 0;
    for (uint32_t m = g; m != NP_NONE; m = f->next[m]) {
        int64_t row = largest(f, m);
        for (int j = 0; j < n; j++)
            row /= f->lacks[m] >> j & 1 ? 1 : s.extent[j];
        most = row > most ? row : most;
    }
    return most;
}

/* Would one group of several, cut along n axes, have tiles of much, and each by itself of little? */
static bool too_long(np_fuser *f, const uint32_t *set, uint32_t count, int n)
{
    const np_group_shape s = np_task_shape(f->b, set[0], n, false);
    int64_t rows = 1, row = 0;
    for (int j = 0; j < n; j++)
        rows *= s.extent[j];
    for (uint32_t i = 0; i < count; i++) {
        if (n >= f->axes[set[i]] - f->windowed[set[i]])
            return false;
        const int64_t own = longest_row(f, set[i], n);
        row = own > row ? own : row;
    }
    return row > LONG_ROW || (row > ROW && rows < FEW_ROWS * np_pool_lanes(f->b->ctx->pool));
}

/* Of tasks x and y, groups a and b. */
static bool few_enough(np_fuser *f, uint32_t x, uint32_t y, uint32_t a, uint32_t b)
{
    const bool few = merged_count(f, a, b) <= (uint32_t)f->options->max_fusion_size;
    if (!few)
        tell(f, x, y, "the group would have more than max_fusion_size ops", 0);
    return few;
}

static bool raises_peak(np_fuser *f, uint32_t x, uint32_t y, uint32_t a, uint32_t b)
{
    const uint64_t more = rise(f, a, b);
    if (more)
        tell(f, x, y, "what they read would live longer and raise the peak", more);
    return more != 0;
}

static bool join_if_good(np_fuser *f, uint32_t x, uint32_t y, uint32_t a, uint32_t b, int axes)
{
    const bool good = !raises_peak(f, x, y, a, b);
    if (good)
        join(f, a, b, axes);
    return good;
}

/* Merges the groups of two tasks if that is possible and good. */
static void try_merge(np_fuser *f, uint32_t x, uint32_t y)
{
    uint32_t a = np_fuser_group(f, x), b = np_fuser_group(f, y);
    if (a == b)
        return;
    if (f->last[a] > f->last[b]) {
        uint32_t t = a;
        a = b;
        b = t;
    }
    const np_group_shape of_a = np_task_shape(f->b, a, f->axes[a], false);
    const np_group_shape of_b = np_task_shape(f->b, b, f->axes[b], false);
    int n = common_axes(&of_a, &of_b);
    if (n == 0 || (largest(f, x) < LEAST_ELEMENTS && largest(f, y) < LEAST_ELEMENTS) ||
        f->last[b] - f->last[a] > FARTHEST || f->size[a] + f->size[b] > MOST_MEMBERS)
        return;
    if (f->heavy[a] || f->heavy[b]) {
        tell(f, x, y, "one of them reads much for each tile: only in blocks of rows", 0);
        return;
    }
    if (!few_enough(f, x, y, a, b))
        return;
    while (n > 0 && !(all_have(f, a, n) && all_have(f, b, n) && tiles_serve(f, a, 0, b, n) &&
                      tiles_serve(f, b, 0, a, n)))
        n--;
    if (n == 0 || np_axes_set_later(&of_a, n) || np_axes_set_later(&of_b, n) ||
        circle(f, (uint32_t[]){a, b}, 2))
        return;
    if (too_long(f, (uint32_t[]){a, b}, 2, n)) {
        tell(f, x, y, "they share few axes: a tile would be large", 0);
        return;
    }
    join_if_good(f, x, y, a, b, n);
}

bool np_fuser_attach(np_fuser *f, uint32_t x, uint32_t y)
{
    const uint32_t a = np_fuser_group(f, x), b = np_fuser_group(f, y);
    return f->last[b] - f->last[a] <= FARTHEST && few_enough(f, x, y, a, b) &&
           !circle(f, (uint32_t[]){a, b}, 2) && join_if_good(f, x, y, a, b, 0);
}

/* The groups of a task and of all that read its value; 0: too many, or one of them stays alone. */
static uint32_t makers_and_readers(np_fuser *f, uint32_t t, uint32_t *set)
{
    const np_builder *b = f->b;
    uint32_t n = 0;
    set[n++] = np_fuser_group(f, t);
    for (uint32_t k = b->out_first[t]; k < b->out_first[t + 1]; k++) {
        const np_edge *e = &b->edges[b->out[k]];
        uint32_t g = np_fuser_group(f, e->to), i = 0;
        if (!e->reads)
            continue;
        while (i < n && set[i] != g)
            i++;
        if (i < n)
            continue;
        if (n == MOST_READERS)
            return 0;
        set[n++] = g;
    }
    for (uint32_t i = 0; i < n; i++)
        if (!f->axes[set[i]])
            return 0;
    return n;
}

/* Merges a task with all that read its value, if that value then is a tile's only. */
static void make_inner(np_fuser *f, uint32_t t)
{
    uint32_t set[MOST_READERS], n = makers_and_readers(f, t, set), size = 0;
    if (n < 2 || largest(f, t) < LEAST_ELEMENTS || f->bytes[t] == 0)
        return;
    np_group_shape shape = np_task_shape(f->b, set[0], f->axes[set[0]], false);
    int axes = shape.n_axes;
    for (uint32_t i = 0; i < n; i++) {
        const np_group_shape other = np_task_shape(f->b, set[i], f->axes[set[i]], false);
        int common = common_axes(&shape, &other);
        axes = common < axes ? common : axes;
        size += f->size[set[i]];
        if (np_axes_set_later(&other, axes))
            return;
    }
    if (axes == 0 || size > MOST_MEMBERS || np_axes_set_later(&shape, axes))
        return;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < n && axes > 0; k++)
            while (k != i && axes > 0 && !tiles_serve(f, set[i], 0, set[k], axes))
                axes--;
    if (axes == 0 || too_long(f, set, n, axes) || circle(f, set, n))
        return;
    for (uint32_t i = 1; i < n; i++) {
        uint32_t a = np_fuser_group(f, set[0]), b = set[i];
        bool earlier = f->last[a] <= f->last[b];
        join(f, earlier ? a : b, earlier ? b : a, axes);
        set[0] = earlier ? b : a;
    }
}

/* ---- values made again for each index of axes that they lack ----------------------------------- */

/* Do all tasks of group a cost little, and are they needed in it and in b only? */
static bool may_repeat(np_fuser *f, uint32_t a, uint32_t b)
{
    for (uint32_t m = a; m != NP_NONE; m = f->next[m]) {
        const np_op *op = np_task_op(f->b, &f->b->tasks[m]);
        if (!(op->flags & REPEATED) || !inner_to(f, m, a, b))
            return false;
        for (uint32_t k = f->b->out_first[m]; k < f->b->out_first[m + 1]; k++) {
            uint32_t to = np_fuser_group(f, f->b->edges[f->b->out[k]].to);
            if (to != a && to != b)
                return false;
        }
        for (uint32_t k = f->b->in_first[m]; k < f->b->in_first[m + 1]; k++)
            if (np_fuser_group(f, f->b->edges[f->b->in[k]].from) == b)
                return false;
    }
    return true;
}

/* The axes of y's group that what y reads of x lacks; 0: none, or it follows them otherwise. */
static uint8_t find_lacks(np_fuser *f, uint32_t x, uint32_t y, const np_group_shape *of_x,
                          const np_group_shape *of_y)
{
    np_task_call c;
    uint32_t n, i = 0;
    const np_todo *t = &f->b->tasks[y];
    neap_array *const *in = np_task_inputs(f->b, t, &n);
    while (i < n && np_task_maker(f->b, t, i, in[i]) != x)
        i++;
    if (i == n)
        return 0;
    np_task_call_init(&c, f->b, y);
    uint8_t lacks = 0;
    int k = 0;
    for (int j = 0; j < of_y->n_axes; j++) {
        int d = np_task_axis(f->b, y, f->lacks[y], j), e = d < 0 ? -1 : np_op_part(&c.call, d, i);
        if (d < 0 || (e >= 0 && in[i]->strides[e] == 0)) {
            lacks |= (uint8_t)(1 << j);
            continue;
        }
        if (k == of_x->n_axes || of_x->extent[k] != of_y->extent[j] || of_x->param[k] != of_y->param[j])
            return 0;
        k++;
    }
    const bool last = lacks >> (of_y->n_axes - 1) & 1;
    return last || np_axes_set_later(of_x, k) ? 0 : lacks;
}

/* How often what lacks these axes is made. */
static double times(const np_group_shape *s, uint8_t lacks)
{
    double n = 1;
    for (int j = 0; j < s->n_axes; j++)
        n *= lacks >> j & 1 ? (double)s->extent[j] : 1;
    return n;
}

/* Does making group a's values again take little beside what group b takes? If it is worth that, the
 * whole plan tells. */
static bool is_bearable(np_fuser *f, uint32_t a, uint32_t b, const np_group_shape *s, uint8_t lacks)
{
    double again = 0, bytes = 0, flops = 0;
    np_task_call c;
    for (uint32_t m = a; m != NP_NONE; m = f->next[m]) {
        np_task_call_init(&c, f->b, m);
        again += np_call_flops(&c.call, true) * (times(s, spread(f->lacks[m], lacks)) - 1);
    }
    for (uint32_t m = b; m != NP_NONE; m = f->next[m]) {
        uint32_t n;
        neap_array *const *in = np_task_inputs(f->b, &f->b->tasks[m], &n);
        np_task_call_init(&c, f->b, m);
        flops += np_call_flops(&c.call, f->lacks[m]) * times(s, f->lacks[m]);
        bytes += inner_to(f, m, b, b) ? 0 : np_operand_bytes(&c.out);
        for (uint32_t i = 0; i < n; i++) {
            uint32_t maker = np_task_maker(f->b, &f->b->tasks[m], i, in[i]);
            if (maker == NP_NONE || np_fuser_group(f, maker) != b)
                bytes += np_operand_bytes(&c.in[i]);
        }
    }
    return np_work_seconds(f->b, 0, again) <= MOST_AGAIN * np_work_seconds(f->b, bytes, flops);
}

/* Makes the group of x, which y reads, part of y's group although it lacks some of that one's axes. */
static void try_repeat(np_fuser *f, uint32_t x, uint32_t y)
{
    uint32_t a = np_fuser_group(f, x), b = np_fuser_group(f, y);
    if (a == b || !f->axes[a] || !f->axes[b] || largest(f, x) < LEAST_ELEMENTS || f->heavy[a] ||
        (f->heavy[b] && !f->streams) || f->last[a] > f->last[b] || f->last[b] - f->last[a] > FARTHEST ||
        f->size[a] + f->size[b] > MOST_MEMBERS)
        return;
    const np_group_shape of_a = np_task_shape(f->b, a, f->axes[a], false);
    const np_group_shape of_b = np_task_shape(f->b, b, f->axes[b], false);
    const uint8_t lacks = find_lacks(f, x, y, &of_a, &of_b);
    if (!lacks || times(&of_b, lacks) > MOST_TIMES || !may_repeat(f, a, b) ||
        !tiles_serve(f, a, lacks, b, of_b.n_axes))
        return;
    if (!few_enough(f, x, y, a, b))
        return;
    if (!f->streams && !is_bearable(f, a, b, &of_b, lacks)) {
        tell(f, x, y, "made again for each index of the axes that it lacks, it would take too long", 0);
        return;
    }
    if (circle(f, (uint32_t[]){a, b}, 2) || raises_peak(f, x, y, a, b))
        return;
    for (uint32_t m = a; m != NP_NONE; m = f->next[m])
        f->lacks[m] = spread(f->lacks[m], lacks);
    join(f, a, b, of_b.n_axes);
}

/* ---- passes ------------------------------------------------------------------------------------ */

static void merge_to_stream(np_fuser *f)
{
    const uint64_t least = f->large ? (uint64_t)f->peak / LARGE : 0;
    for (uint32_t t = 0; t < f->b->n_tasks; t++)
        if (f->axes[np_fuser_group(f, t)] && f->bytes[t] >= least)
            make_inner(f, t);
}

static void merge_along_values(np_fuser *f)
{
    for (uint32_t t = 0; t < f->b->n_tasks; t++)
        for (uint32_t k = f->b->in_first[t]; k < f->b->in_first[t + 1]; k++) {
            const np_edge *e = &f->b->edges[f->b->in[k]];
            if (e->reads && f->axes[np_fuser_group(f, t)] && f->axes[np_fuser_group(f, e->from)])
                try_merge(f, e->from, t);
        }
}

/* Readers first: a mask joins what takes long, and what the mask is made of then joins that, too. */
static void merge_to_repeat(np_fuser *f)
{
    for (uint32_t t = f->b->n_tasks; t-- > 0;)
        for (uint32_t k = f->b->in_first[t]; k < f->b->in_first[t + 1]; k++) {
            const np_edge *e = &f->b->edges[f->b->in[k]];
            if (e->reads)
                try_repeat(f, e->from, t);
        }
}

/* Tasks that read the same value, in program order, each with the next. */
static void merge_sideways(np_fuser *f)
{
    const np_builder *b = f->b;
    for (uint32_t t = 0; t < b->n_tasks; t++) {
        uint32_t n;
        neap_array *const *in = np_task_inputs(b, &b->tasks[t], &n);
        for (uint32_t i = 0; i < n; i++) {
            uint32_t s = np_canonical(b->g, np_storage(in[i]));
            if (f->axes[np_fuser_group(f, t)] == 0 || np_size(in[i]->rank, in[i]->shape) <= 1)
                continue;
            if (f->reader[s] != NP_NONE)
                try_merge(f, f->reader[s], t);
            f->reader[s] = t;
        }
    }
}

/* ---- all of it --------------------------------------------------------------------------------- */

/* Bytes of the task's value in the arena. */
static uint64_t bytes_of(const np_builder *b, uint32_t t)
{
    const np_todo *task = &b->tasks[t];
    bool kept = task->root != NP_NONE ||
                (task->phase == NP_RUN && b->direct[task->entry] != NP_NONE);
    bool effect = np_task_op(b, task)->flags & NP_OP_EFFECT;
    return kept || effect ? 0
                          : (neap_array_bytes(b->g->entries[task->entry].array) + 63) & ~(uint64_t)63;
}

/* Values that no machine can hold would overflow the timeline. */
static bool count_bytes(np_fuser *f)
{
    const uint64_t most = (uint64_t)1 << 62;
    uint64_t sum = 0;
    for (uint32_t t = 0; t < f->b->n_tasks; t++) {
        f->bytes[t] = bytes_of(f->b, t);
        if (f->bytes[t] > most - sum) {
            np_fail(f->b->ctx, NEAP_ENOMEM, "intermediate values of more than 2^62 bytes");
            return false;
        }
        sum += f->bytes[t];
    }
    return true;
}

static void start_lives(np_fuser *f)
{
    const np_builder *b = f->b;
    for (uint32_t t = 0; t < b->n_tasks; t++) {
        f->parent[t] = f->first[t] = f->last[t] = f->birth[t] = f->death[t] = f->reach[t] = t;
        f->next[t] = NP_NONE;
        f->count[t] = f->size[t] = 1;
        for (uint32_t k = f->b->out_first[t]; k < f->b->out_first[t + 1]; k++) {
            const np_edge *e = &b->edges[f->b->out[k]];
            if (e->reads && e->to > f->death[t])
                f->death[t] = e->to;
        }
        f->live[t] += (int64_t)f->bytes[t];
        f->live[f->death[t] + 1] -= (int64_t)f->bytes[t];
        np_fuser_find_axes(f, t);
    }
    for (uint32_t t = 0; t < b->n_tasks; t++) {
        f->live[t + 1] += f->live[t];
        f->peak = f->live[t] > f->peak ? f->live[t] : f->peak;
    }
}

/* The tables of a fuser, in one block. */
static bool take_tables(np_fuser *f)
{
    const size_t t = f->b->n_tasks + 1, g = f->b->g->n + 1;
    f->table_bytes = t * (2 * sizeof(int64_t) + sizeof(uint64_t)) +
                     (12 * t + MOST_VISITS + g) * sizeof(uint32_t) + 6 * t;
    uint8_t *p = f->tables = np_workspace_take(f->b->ctx, f->table_bytes);
    if (!p)
        return false;
#define TAKE(field, n) (f->field = (void *)p, p += (n) * sizeof *f->field)
    TAKE(live, t);
    TAKE(change, t);
    TAKE(bytes, t);
    TAKE(parent, t);
    TAKE(next, t);
    TAKE(first, t);
    TAKE(last, t);
    TAKE(count, t);
    TAKE(size, t);
    TAKE(birth, t);
    TAKE(death, t);
    TAKE(reach, t);
    TAKE(seen, t);
    TAKE(counted, t);
    TAKE(spare, t);
    TAKE(queue, MOST_VISITS);
    TAKE(reader, g);
    TAKE(within, t);
    TAKE(axes, t);
    TAKE(lacks, t);
    TAKE(heavy, t);
    TAKE(barred, t);
    TAKE(windowed, t);
#undef TAKE
    return true;
}

void np_fuser_reset(np_fuser *f, bool streams, bool large, bool windows)
{
    f->streams = streams;
    f->large = large;
    f->windows = windows;
    const size_t t = f->b->n_tasks + 1;
    memset(f->live, 0, t * sizeof *f->live);
    memset(f->within, 0, t * sizeof *f->within);
    memset(f->lacks, 0, t);
    f->peak = 0;
    start_lives(f);
}

bool np_fuser_start(np_fuser *f, np_builder *b, const neap_plan_options *options)
{
    *f = (np_fuser){.b = b, .options = options};
    if (!take_tables(f))
        return false;
    if (!count_bytes(f)) {
        np_fuser_free(f);
        return false;
    }
    np_fuser_reset(f, false, false, false);
    return true;
}

void np_fuser_free(np_fuser *f)
{
    np_workspace_free(f->b->ctx, f->tables, f->table_bytes);
    f->tables = NULL;
}

bool np_fuser_may_repeat(np_fuser *f)
{
    for (uint32_t t = 0; t < f->b->n_tasks; t++) {
        uint32_t n;
        neap_array *const *in = np_task_inputs(f->b, &f->b->tasks[t], &n);
        for (uint32_t i = 0; i < n; i++) {
            const neap_array *made = np_storage_const(in[i]);
            bool broadcast = false;
            for (int d = 0; d < in[i]->rank; d++)
                broadcast |= in[i]->strides[d] == 0 && in[i]->shape[d] > 1;
            if (broadcast && np_graph_runs(made) && made->op->flags & REPEATED &&
                np_size(made->rank, made->shape) >= LEAST_ELEMENTS)
                return true;
        }
    }
    return false;
}

bool np_fuser_has_windows(const np_fuser *f)
{
    for (uint32_t t = 0; t < f->b->n_tasks; t++)
        if (f->b->tasks[t].phase == NP_RUN && np_task_op(f->b, &f->b->tasks[t])->window)
            return true;
    return false;
}

void np_fuse(np_fuser *f, bool sideways, bool repeats)
{
    if (f->streams)
        merge_to_stream(f);
    np_fuse_epilogues(f);
    merge_along_values(f);
    if (f->windows) /* what came between a value's readers is one of them now */
        merge_to_stream(f);
    if (repeats)
        merge_to_repeat(f);
    if (!sideways)
        return;
    memset(f->reader, 0xff, (f->b->g->n + 1) * sizeof *f->reader);
    merge_sideways(f);
}
