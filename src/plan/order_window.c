/* order_window.c - a beam over the sets of nodes that may have run.
 *
 * A window is a stretch of an order; what is alive at its ends does not depend on the order inside.
 * Layer k of the search holds sets of k nodes, each with the least peak of a way to it; the best few
 * go on, by peak, then by what is alive. Where none was dropped the result is exact. A node that
 * frees as much as it makes, and needs no new peak, is run at once: that is never worse.
 *
 * A small graph is one window. In a large one the windows lie round the peak, as long as it falls;
 * what was found for one window is tried first on the next of the same shape (layers repeat). How
 * long it searches is counted in steps, not in seconds: the same graph has the same order anywhere. */
#include <string.h>

#include "plan/order_work.h"

enum {
    MOST_NODES = 256, /* of a window */
    WORDS = MOST_NODES / 64,
    WIDTH = 32,
    MOST_MEMOS = 8
};
static const uint64_t EFFORT = 1200000; /* nodes weighed */

typedef struct value {
    uint64_t bytes;
    uint64_t readers[WORDS]; /* in the window */
    uint32_t id, over;       /* over: in the window's values, or NP_NONE */
    bool stays;              /* alive at the window's end */
} value;

typedef struct state {
    uint64_t done[WORDS], ready[WORDS];
    uint64_t live, peak, hash;
    uint32_t trace;
} state;

typedef struct candidate {
    uint64_t peak, live, hash;
    uint32_t parent, node;
} candidate;

typedef struct trace {
    uint32_t before, node;
} trace;

typedef struct memo {
    uint64_t shape;
    uint32_t n; /* 0: nothing was found */
    uint16_t order[MOST_NODES];
} memo;

typedef struct search {
    np_ordering *w;
    const np_order_graph *g;
    uint32_t *place; /* by node: position in w->best */
    uint32_t *last;  /* by value: position of the last reader, or of the maker */
    uint32_t *local; /* by value: in values[], or NP_NONE */
    uint64_t *live;  /* by position: before it */
    uint64_t *high;  /* by position: while it runs */
    uint64_t effort, taken; /* nodes weighed; bytes of tables that grow */
    /* the window */
    uint32_t first, n, words;
    value *values;
    uint32_t *items; /* values that nodes read and make, one after the other */
    uint32_t n_values;
    /* By node: its first item, the first read that it shares with another node, the first made; and
     * what running it changes but for shared reads and places taken over. */
    uint32_t reads[MOST_NODES + 1], shared[MOST_NODES], makes[MOST_NODES];
    np_order_change fixed[MOST_NODES];
    uint64_t before[MOST_NODES][WORDS];
    uint16_t order[MOST_NODES]; /* found */
    /* the beam */
    state *states, *next;
    candidate *candidates;
    uint32_t *table;
    trace *traces;
    size_t values_capacity, items_capacity, states_capacity, next_capacity, candidates_capacity,
        table_capacity, traces_capacity;
    memo memos[MOST_MEMOS];
    uint32_t n_memos;
} search;

/* Room in a table of the search, as long as all of them stay within the workspace. */
static bool grow(search *s, void *table, size_t *capacity, size_t need, size_t element)
{
    const uint64_t limit = s->g->workspace ? s->g->workspace : UINT64_MAX;
    const size_t old = *capacity;
    if (need <= old)
        return true;
    if (2 * need * element > limit || s->taken > limit - 2 * need * element) /* it may double */
        return false;
    size_t n = old ? old : 8;
    while (n < need)
        n *= 2;
    if (!np_workspace_resize(s->w->ctx, table, old * element, n * element))
        return false;
    *capacity = n;
    s->taken += (n - old) * element;
    return true;
}

#define GROW(s, field, need) \
    grow(s, &(s)->field, &(s)->field##_capacity, need, sizeof *(s)->field)

/* ---- the order as it is ------------------------------------------------------------------------ */

static bool dies_at(const search *s, uint32_t id, uint32_t position)
{
    return s->last[id] == position && !s->g->kept[id];
}

static uint64_t taken_over(const search *s, uint32_t node, uint32_t position)
{
    const np_order_graph *g = s->g;
    const np_ordering *w = s->w;
    uint64_t sum = 0;
    for (uint32_t i = w->made_first[node]; i < w->made_first[node + 1]; i++) {
        const uint32_t v = w->made[i];
        uint32_t earlier = 0, dying = 0;
        if (!g->any_over) {
            dying = g->over && g->over[v] != NP_NONE && dies_at(s, g->over[v], position);
        } else {
            for (uint32_t j = w->made_first[node]; j < i; j++)
                earlier += g->bytes[w->made[j]] == g->bytes[v];
            for (uint32_t j = g->use_first[node]; j < g->use_first[node + 1]; j++)
                dying += g->bytes[g->use[j]] == g->bytes[v] && dies_at(s, g->use[j], position);
        }
        sum += dying > earlier ? g->bytes[v] : 0;
    }
    return sum;
}

/* Bytes alive at positions [first, first + n); live[first] is known. */
static void measure(search *s, uint32_t first, uint32_t n)
{
    const np_order_graph *g = s->g;
    const np_ordering *w = s->w;
    for (uint32_t p = first; p < first + n; p++) {
        const uint32_t node = w->best[p];
        uint64_t made = 0, gone = 0;
        for (uint32_t i = w->made_first[node]; i < w->made_first[node + 1]; i++) {
            made += g->bytes[w->made[i]];
            gone += dies_at(s, w->made[i], p) ? g->bytes[w->made[i]] : 0;
        }
        for (uint32_t i = g->use_first[node]; i < g->use_first[node + 1]; i++)
            gone += dies_at(s, g->use[i], p) ? g->bytes[g->use[i]] : 0;
        s->high[p] = s->live[p] + made + np_order_scratch(g, node);
        if (g->over || g->any_over)
            s->high[p] -= taken_over(s, node, p);
        s->live[p + 1] = s->live[p] + made - gone;
    }
}

static void see_order(search *s)
{
    np_ordering *w = s->w;
    const np_order_graph *g = s->g;
    for (uint32_t v = 0; v < g->n_values; v++)
        s->last[v] = NP_NONE;
    for (uint32_t p = 0; p < g->n_nodes; p++) {
        const uint32_t node = w->best[p];
        s->place[node] = p;
        for (uint32_t i = w->made_first[node]; i < w->made_first[node + 1]; i++)
            s->last[w->made[i]] = p;
        for (uint32_t i = g->use_first[node]; i < g->use_first[node + 1]; i++)
            s->last[g->use[i]] = p;
    }
    np_order_start(w);
    s->live[0] = w->live;
    measure(s, 0, g->n_nodes);
}

/* ---- a window ---------------------------------------------------------------------------------- */

static uint32_t local_value(search *s, uint32_t id)
{
    if (s->local[id] == NP_NONE) {
        s->local[id] = s->n_values;
        s->values[s->n_values++] =
            (value){.bytes = s->g->bytes[id],
                    .id = id,
                    .over = NP_NONE,
                    .stays = s->g->kept[id] || s->last[id] >= s->first + s->n};
    }
    return s->local[id];
}

static void add_node(search *s, uint32_t i, uint32_t *n_items)
{
    const np_ordering *w = s->w;
    const np_order_graph *g = s->g;
    const uint32_t node = w->best[s->first + i];
    memset(s->before[i], 0, sizeof s->before[i]);
    s->reads[i] = *n_items;
    for (uint32_t j = g->use_first[node]; j < g->use_first[node + 1]; j++) {
        const uint32_t v = local_value(s, g->use[j]);
        s->values[v].readers[i / 64] |= (uint64_t)1 << i % 64;
        s->items[(*n_items)++] = v;
    }
    s->makes[i] = *n_items;
    for (uint32_t j = w->made_first[node]; j < w->made_first[node + 1]; j++) {
        const uint32_t id = w->made[j], v = local_value(s, id);
        if (g->over && !g->any_over && g->over[id] != NP_NONE)
            s->values[v].over = s->local[g->over[id]];
        s->items[(*n_items)++] = v;
    }
    for (uint32_t j = w->before_first[node]; j < w->before_first[node + 1]; j++) {
        const uint32_t p = s->place[w->before[j]];
        if (p >= s->first)
            s->before[i][(p - s->first) / 64] |= (uint64_t)1 << (p - s->first) % 64;
    }
}

static bool used(const search *s, const value *v)
{
    uint64_t any = v->stays;
    for (uint32_t i = 0; i < s->words; i++)
        any |= v->readers[i];
    return any;
}

static bool read_by_others(const search *s, const value *v, uint32_t node)
{
    uint64_t others = 0;
    for (uint32_t i = 0; i < s->words; i++)
        others |= v->readers[i] & ~(i == node / 64 ? (uint64_t)1 << node % 64 : 0);
    return others != 0;
}

/* Puts the node's own reads before those that it shares, and sums up what is fixed. */
static void settle_node(search *s, uint32_t node)
{
    uint32_t shared = s->makes[node];
    np_order_change *c = &s->fixed[node];
    *c = (np_order_change){np_order_scratch(s->g, s->w->best[s->first + node]), 0};
    for (uint32_t i = s->reads[node]; i < shared;) {
        const value *v = &s->values[s->items[i]];
        if (!v->stays && !read_by_others(s, v, node)) {
            c->after -= (int64_t)v->bytes;
            i++;
        } else { /* one that stays is never freed, but may be asked */
            const uint32_t swap = s->items[i];
            s->items[i] = s->items[--shared];
            s->items[shared] = swap;
        }
    }
    s->shared[node] = shared;
    for (uint32_t i = s->makes[node]; i < s->reads[node + 1]; i++) {
        const value *v = &s->values[s->items[i]];
        c->while_running += v->bytes;
        c->after += used(s, v) ? (int64_t)v->bytes : 0;
    }
}

static bool open_window(search *s, uint32_t first, uint32_t n)
{
    const np_ordering *w = s->w;
    size_t items = 0;
    for (uint32_t p = first; p < first + n; p++) {
        const uint32_t node = w->best[p];
        items += s->g->use_first[node + 1] - s->g->use_first[node];
        items += w->made_first[node + 1] - w->made_first[node];
    }
    if (!GROW(s, values, items + 1) || !GROW(s, items, items + 1))
        return false;
    s->first = first;
    s->n = n;
    s->words = (n + 63) / 64;
    s->n_values = 0;
    uint32_t n_items = 0;
    for (uint32_t i = 0; i < n; i++)
        add_node(s, i, &n_items);
    s->reads[n] = n_items;
    for (uint32_t i = 0; i < n; i++)
        settle_node(s, i);
    return true;
}

static void close_window(search *s)
{
    for (uint32_t v = 0; v < s->n_values; v++)
        s->local[s->values[v].id] = NP_NONE;
}

/* Is `node` the only reader of the value that has not run, and is it not needed later? */
static bool dies_in(const search *s, const value *v, const uint64_t *done, uint32_t node)
{
    uint64_t others = 0;
    for (uint32_t i = 0; i < s->words; i++)
        others |= v->readers[i] & ~done[i] & ~(i == node / 64 ? (uint64_t)1 << node % 64 : 0);
    return !v->stays && others == 0;
}

static bool takes_place(const search *s, uint32_t node, uint32_t item, const uint64_t *done)
{
    const value *made = &s->values[s->items[item]];
    if (!s->g->any_over)
        return made->over != NP_NONE && dies_in(s, &s->values[made->over], done, node);
    uint32_t earlier = 0, dying = 0;
    for (uint32_t i = s->makes[node]; i < item; i++)
        earlier += s->values[s->items[i]].bytes == made->bytes;
    for (uint32_t i = s->reads[node]; i < s->makes[node]; i++) {
        const value *v = &s->values[s->items[i]];
        dying += v->bytes == made->bytes && dies_in(s, v, done, node);
    }
    return dying > earlier;
}

static np_order_change weigh(const search *s, uint32_t node, const uint64_t *done)
{
    np_order_change c = s->fixed[node];
    for (uint32_t i = s->shared[node]; i < s->makes[node]; i++) {
        const value *v = &s->values[s->items[i]];
        if (!v->stays && dies_in(s, v, done, node))
            c.after -= (int64_t)v->bytes;
    }
    if (s->g->over || s->g->any_over)
        for (uint32_t i = s->makes[node]; i < s->reads[node + 1]; i++)
            if (takes_place(s, node, i, done))
                c.while_running -= s->values[s->items[i]].bytes;
    return c;
}

static bool may_run(const search *s, uint32_t node, const uint64_t *done)
{
    uint64_t lacking = 0;
    for (uint32_t i = 0; i < s->words; i++)
        lacking |= s->before[node][i] & ~done[i];
    return lacking == 0;
}

/* ---- the beam ---------------------------------------------------------------------------------- */

/* Spreads a number's bits (splitmix64). */
static uint64_t mixed(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static bool same_set(const search *s, const candidate *a, const candidate *b)
{
    const uint64_t *x = s->states[a->parent].done, *y = s->states[b->parent].done;
    for (uint32_t i = 0; i < s->words; i++) {
        const uint64_t p = i == a->node / 64 ? (uint64_t)1 << a->node % 64 : 0;
        const uint64_t q = i == b->node / 64 ? (uint64_t)1 << b->node % 64 : 0;
        if ((x[i] | p) != (y[i] | q))
            return false;
    }
    return true;
}

/* Adds it, or puts it in the place of a way to the same set that has a higher peak. */
static void add_candidate(search *s, uint32_t *n, size_t mask, const candidate *c)
{
    size_t at = c->hash & mask;
    for (; s->table[at]; at = (at + 1) & mask) {
        candidate *old = &s->candidates[s->table[at] - 1];
        if (old->hash == c->hash && same_set(s, old, c)) {
            if (c->peak < old->peak)
                *old = *c;
            return;
        }
    }
    s->candidates[*n] = *c;
    s->table[at] = ++*n;
}

/* All that may run next from the state with a peak under `limit`; or one that costs nothing. */
static void expand(search *s, uint32_t from, uint64_t limit, uint32_t *n, size_t mask)
{
    const state *a = &s->states[from];
    candidate found[MOST_NODES];
    uint32_t n_found = 0;
    for (uint32_t word = 0; word < s->words; word++) {
        for (uint64_t left = a->ready[word]; left; left &= left - 1) {
            const uint32_t node = word * 64 + (uint32_t)__builtin_ctzll(left);
            const np_order_change c = weigh(s, node, a->done);
            const uint64_t high = a->live + c.while_running;
            const bool free = c.after <= 0 && (high <= a->peak || high <= s->w->bound);
            s->effort++;
            if (high >= limit)
                continue;
            found[free ? 0 : n_found] = (candidate){.peak = high > a->peak ? high : a->peak,
                                                    .live = a->live + (uint64_t)c.after,
                                                    .hash = a->hash + mixed(node),
                                                    .parent = from,
                                                    .node = node};
            if (free) {
                add_candidate(s, n, mask, found);
                return;
            }
            n_found++;
        }
    }
    for (uint32_t i = 0; i < n_found; i++)
        add_candidate(s, n, mask, &found[i]);
}

static bool better(const candidate *a, const candidate *b)
{
    if (a->peak != b->peak)
        return a->peak < b->peak;
    if (a->live != b->live)
        return a->live < b->live;
    return a->parent != b->parent ? a->parent < b->parent : a->node < b->node;
}

/* Moves the best `keep` of n to the front (Hoare's selection). */
static void select_best(candidate *c, uint32_t n, uint32_t keep)
{
    uint32_t low = 0, high = n;
    while (high - low > 1) {
        const candidate pivot = c[low + (high - low - 1) / 2];
        uint32_t i = low, j = high - 1;
        for (;;) {
            while (better(&c[i], &pivot))
                i++;
            while (better(&pivot, &c[j]))
                j--;
            if (i >= j)
                break;
            const candidate swap = c[i];
            c[i++] = c[j];
            c[j--] = swap;
        }
        const uint32_t middle = j + 1;
        if (middle == keep)
            return;
        *(middle > keep ? &high : &low) = middle;
    }
}

static bool make_states(search *s, uint32_t n, uint32_t *n_traces)
{
    if (!GROW(s, next, n) || !GROW(s, traces, (size_t)*n_traces + n))
        return false;
    for (uint32_t k = 0; k < n; k++) {
        const candidate *c = &s->candidates[k];
        const np_ordering *w = s->w;
        state *b = &s->next[k];
        *b = s->states[c->parent];
        s->traces[*n_traces] = (trace){b->trace, c->node};
        b->trace = (*n_traces)++;
        b->live = c->live;
        b->peak = c->peak;
        b->hash = c->hash;
        b->done[c->node / 64] |= (uint64_t)1 << c->node % 64;
        b->ready[c->node / 64] &= ~((uint64_t)1 << c->node % 64);
        const uint32_t node = w->best[s->first + c->node];
        for (uint32_t i = w->after_first[node]; i < w->after_first[node + 1]; i++) {
            const uint32_t to = s->place[w->after[i]] - s->first;
            if (to < s->n && may_run(s, to, b->done))
                b->ready[to / 64] |= (uint64_t)1 << to % 64;
        }
    }
    state *swap = s->states;
    s->states = s->next;
    s->next = swap;
    size_t capacity = s->states_capacity;
    s->states_capacity = s->next_capacity;
    s->next_capacity = capacity;
    return true;
}

/* Room for all that the states may lead to; an empty table. SIZE_MAX: no memory. */
static size_t make_room(search *s, uint32_t n_states)
{
    size_t most = 1, slots = 64;
    for (uint32_t k = 0; k < n_states; k++)
        for (uint32_t i = 0; i < s->words; i++)
            most += (size_t)__builtin_popcountll(s->states[k].ready[i]);
    while (slots < 2 * most)
        slots *= 2;
    if (!GROW(s, candidates, most) || !GROW(s, table, slots))
        return SIZE_MAX;
    memset(s->table, 0, slots * sizeof *s->table);
    return slots - 1;
}

typedef struct outcome {
    uint64_t peak; /* UINT64_MAX: none under the limit was found */
    bool dropped;  /* sets were dropped: there may be a better order */
} outcome;

/* The order of the open window with the least peak under `limit`, in s->order. */
static bool run_beam(search *s, uint32_t width, uint64_t limit, outcome *out)
{
    uint32_t n_states = 1, n_traces = 0;
    *out = (outcome){.peak = UINT64_MAX};
    if (!GROW(s, states, 1))
        return false;
    s->states[0] = (state){.live = s->live[s->first], .trace = NP_NONE};
    for (uint32_t i = 0; i < s->n; i++)
        if (may_run(s, i, s->states[0].done))
            s->states[0].ready[i / 64] |= (uint64_t)1 << i % 64;
    for (uint32_t layer = 0; layer < s->n && n_states; layer++) {
        const size_t mask = make_room(s, n_states);
        uint32_t n = 0;
        if (mask == SIZE_MAX)
            return false;
        for (uint32_t k = 0; k < n_states; k++)
            expand(s, k, limit, &n, mask);
        if (n > width) {
            select_best(s->candidates, n, width);
            out->dropped = true;
            n = width;
        }
        if (!make_states(s, n, &n_traces))
            return false;
        n_states = n;
    }
    if (n_states) {
        out->peak = s->states[0].peak;
        uint32_t at = s->states[0].trace;
        for (uint32_t i = s->n; i-- > 0; at = s->traces[at].before)
            s->order[i] = (uint16_t)s->traces[at].node;
    }
    return true;
}

/* ---- what is done with what was found ------------------------------------------------------------ */

static void update_last(search *s)
{
    const np_order_graph *g = s->g;
    const np_ordering *w = s->w;
    for (uint32_t p = s->first; p < s->first + s->n; p++) {
        const uint32_t node = w->best[p];
        for (uint32_t i = w->made_first[node]; i < w->made_first[node + 1]; i++)
            if (s->last[w->made[i]] < s->first + s->n)
                s->last[w->made[i]] = p;
        for (uint32_t i = g->use_first[node]; i < g->use_first[node + 1]; i++)
            if (s->last[g->use[i]] < s->first + s->n)
                s->last[g->use[i]] = p;
    }
}

/* Rearranges the window as s->order says. */
static void accept(search *s)
{
    uint32_t nodes[MOST_NODES];
    for (uint32_t i = 0; i < s->n; i++)
        nodes[i] = s->w->best[s->first + s->order[i]];
    for (uint32_t i = 0; i < s->n; i++) {
        s->w->best[s->first + i] = nodes[i];
        s->place[nodes[i]] = s->first + i;
    }
    update_last(s);
    measure(s, s->first, s->n);
}

static uint32_t highest(const search *s)
{
    uint32_t at = 0;
    for (uint32_t p = 1; p < s->g->n_nodes; p++)
        if (s->high[p] > s->high[at])
            at = p;
    return at;
}

/* ---- windows of the same shape ------------------------------------------------------------------- */

static uint64_t shape_of(const search *s)
{
    uint64_t h = s->n;
    for (uint32_t i = 0; i < s->n; i++) {
        for (uint32_t word = 0; word < s->words; word++)
            h = mixed(h ^ s->before[i][word]);
        h = mixed(h ^ np_order_scratch(s->g, s->w->best[s->first + i]));
        h = mixed(h ^ (s->makes[i] - s->reads[i]));
        for (uint32_t j = s->reads[i]; j < s->reads[i + 1]; j++)
            h = mixed(h ^ s->items[j]);
    }
    for (uint32_t v = 0; v < s->n_values; v++)
        h = mixed(h ^ s->values[v].bytes * 2 ^ s->values[v].stays ^
                  (uint64_t)s->values[v].over << 32);
    return h;
}

static const memo *known_shape(const search *s, uint64_t shape)
{
    for (uint32_t i = 0; i < s->n_memos; i++)
        if (s->memos[i].shape == shape)
            return &s->memos[i];
    return NULL;
}

/* The peak of the remembered order in this window; UINT64_MAX if it is none of it. */
static uint64_t try_again(search *s, const memo *m)
{
    uint64_t done[WORDS] = {0}, live = s->live[s->first], peak = 0;
    if (m->n != s->n)
        return UINT64_MAX;
    for (uint32_t i = 0; i < s->n; i++) {
        const uint32_t node = m->order[i];
        if (!may_run(s, node, done))
            return UINT64_MAX;
        const np_order_change c = weigh(s, node, done);
        peak = live + c.while_running > peak ? live + c.while_running : peak;
        live += (uint64_t)c.after;
        done[node / 64] |= (uint64_t)1 << node % 64;
    }
    memcpy(s->order, m->order, sizeof s->order);
    return peak;
}

static void remember(search *s, uint64_t shape, bool found)
{
    if (s->n_memos == MOST_MEMOS)
        return;
    memo *m = &s->memos[s->n_memos++];
    m->shape = shape;
    m->n = found ? s->n : 0;
    memcpy(m->order, s->order, sizeof m->order);
}

/* ---- where to search ------------------------------------------------------------------------------ */

/* One window; *lower: it was rearranged and its peak is under `limit`. */
static bool try_window(search *s, uint32_t first, uint32_t n, uint64_t limit, bool *lower)
{
    if (!open_window(s, first, n))
        return false;
    const uint64_t shape = shape_of(s);
    const memo *known = known_shape(s, shape);
    outcome found = {.peak = UINT64_MAX};
    bool ok = true;
    if (known)
        found.peak = try_again(s, known);
    else if ((ok = run_beam(s, WIDTH, limit, &found)))
        remember(s, shape, found.peak < limit);
    *lower = ok && found.peak < limit;
    if (*lower)
        accept(s);
    close_window(s);
    return ok;
}

/* Sizes of windows, and how much of one lies before the peak, in eighths. */
static const struct {
    uint16_t n, before;
} windows[] = {{64, 4}, {128, 4}, {MOST_NODES, 4}, {MOST_NODES, 7}, {MOST_NODES, 1}};
enum { N_WINDOWS = sizeof windows / sizeof windows[0] };

/* Lowers the peak, wherever it is, until no window round it can. */
static void search_large(search *s, uint64_t enough)
{
    const uint32_t nodes = s->g->n_nodes;
    uint32_t start = 0, at = highest(s);
    bool lower = true;
    while (lower && s->high[at] > enough && s->effort < EFFORT) {
        lower = false;
        for (uint32_t k = 0; k < N_WINDOWS && !lower && s->effort < EFFORT; k++) {
            const uint32_t i = (start + k) % N_WINDOWS, n = windows[i].n;
            uint32_t before = n * windows[i].before / 8, first = at > before ? at - before : 0;
            first = first + n > nodes ? nodes - n : first;
            if (np_check(s->w->ctx) != NEAP_OK)
                return;
            s->effort += n; /* so that it ends whatever is found */
            if (!try_window(s, first, n, s->high[at], &lower))
                return;
            start = lower ? i : start;
        }
        at = highest(s);
    }
}

/* The whole graph, wider as long as sets were dropped and it is small enough for that. */
static void search_small(search *s, bool *exact)
{
    static const struct {
        uint32_t nodes, width;
    } stages[] = {{MOST_NODES, WIDTH}, {64, 256}, {32, 2048}, {22, 16384}};
    for (size_t i = 0; i < sizeof stages / sizeof stages[0] && !*exact; i++) {
        outcome found = {.dropped = true};
        if (np_check(s->w->ctx) != NEAP_OK)
            return;
        if (s->g->n_nodes > stages[i].nodes || !open_window(s, 0, s->g->n_nodes))
            return;
        const uint64_t limit = s->high[highest(s)];
        const bool ok = run_beam(s, stages[i].width, limit, &found);
        if (ok && found.peak < limit)
            accept(s);
        close_window(s);
        if (!ok)
            return;
        *exact = !found.dropped || s->high[highest(s)] == s->w->bound;
    }
}

static bool make_search(search *s)
{
    neap_context *c = s->w->ctx;
    size_t n = s->g->n_nodes, v = (size_t)s->g->n_values + 1;
    s->place = np_workspace_take(c, (n + 1) * sizeof *s->place);
    s->last = np_workspace_take(c, v * sizeof *s->last);
    s->local = np_workspace_take(c, v * sizeof *s->local);
    s->live = np_workspace_take(c, (n + 1) * sizeof *s->live);
    s->high = np_workspace_take(c, (n + 1) * sizeof *s->high);
    if (!s->place || !s->last || !s->local || !s->live || !s->high)
        return false;
    memset(s->local, 0xff, v * sizeof *s->local);
    see_order(s);
    return true;
}

static void free_search(search *s)
{
    neap_context *c = s->w->ctx;
    size_t n = s->g->n_nodes, v = (size_t)s->g->n_values + 1;
    np_workspace_free(c, s->place, (n + 1) * sizeof *s->place);
    np_workspace_free(c, s->last, v * sizeof *s->last);
    np_workspace_free(c, s->local, v * sizeof *s->local);
    np_workspace_free(c, s->live, (n + 1) * sizeof *s->live);
    np_workspace_free(c, s->high, (n + 1) * sizeof *s->high);
#define FREE(field) np_workspace_free(c, s->field, s->field##_capacity * sizeof *s->field)
    FREE(values);
    FREE(items);
    FREE(states);
    FREE(next);
    FREE(candidates);
    FREE(table);
    FREE(traces);
#undef FREE
    np_workspace_free(c, s, sizeof *s);
}

bool np_order_search(np_ordering *w, bool *exact)
{
    bool lower = false;
    search *s = np_workspace_take(w->ctx, sizeof *s);
    if (s) {
        s->w = w;
        s->g = w->g;
        s->taken = sizeof *s;
        if (make_search(s)) {
            const uint64_t enough = w->bound > w->g->enough ? w->bound : w->g->enough;
            if (s->g->n_nodes <= MOST_NODES)
                search_small(s, exact);
            else
                search_large(s, enough);
            const uint64_t peak = s->high[highest(s)];
            lower = peak < w->best_peak;
            w->best_peak = peak;
        }
        free_search(s);
    }
    return lower;
}
