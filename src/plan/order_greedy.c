/* order_greedy.c - orders that look one step ahead, or follow the shape of the graph. Each takes
 * time in proportion to the edges, or nearly; none is best everywhere, so all are tried. */
#include "base/heap_sort.h"
#include "plan/order_work.h"

/* ---- first in first out, last in first out --------------------------------------------------- */

/* Counts the node off; nodes that wait for nothing more are appended to the list. */
static uint32_t release(np_ordering *w, uint32_t node, uint32_t *list, uint32_t n)
{
    for (uint32_t i = w->after_first[node]; i < w->after_first[node + 1]; i++)
        if (--w->missing[w->after[i]] == 0)
            list[n++] = w->after[i];
    return n;
}

static uint32_t ready_at_start(np_ordering *w, uint32_t *list)
{
    uint32_t n = 0;
    np_order_start(w);
    for (uint32_t i = 0; i < w->g->n_nodes; i++)
        if (w->missing[i] == 0)
            list[n++] = i;
    return n;
}

static void breadth_first(np_ordering *w)
{
    uint32_t n = ready_at_start(w, w->trial);
    for (uint32_t i = 0; i < n; i++)
        n = release(w, w->trial[i], w->trial, n);
}

static void reverse(uint32_t *a, uint32_t n)
{
    for (uint32_t i = 0; i < n / 2; i++) {
        uint32_t swap = a[i];
        a[i] = a[n - 1 - i];
        a[n - 1 - i] = swap;
    }
}

static void depth_first(np_ordering *w)
{
    uint32_t n = ready_at_start(w, w->list), done = 0;
    reverse(w->list, n);
    while (n) {
        const uint32_t node = w->list[--n], old = n;
        w->trial[done++] = node;
        n = release(w, node, w->list, n);
        reverse(w->list + old, n - old);
    }
}

/* ---- program order, but what frees memory runs at once ---------------------------------------- */

typedef struct eager {
    np_ordering *w;
    uint32_t done, waiting; /* in trial, in list */
} eager;

static bool has_run(const np_ordering *w, uint32_t node)
{
    return w->missing[node] == NP_NONE;
}

/* The only reader of the value that has not run. */
static uint32_t last_reader(const np_ordering *w, uint32_t value)
{
    for (uint32_t i = w->reader_first[value]; i < w->reader_first[value + 1]; i++)
        if (!has_run(w, w->reader[i]))
            return w->reader[i];
    return NP_NONE;
}

/* Queues a ready node that frees as much as it makes. */
static void eager_look(eager *e, uint32_t node)
{
    np_ordering *w = e->w;
    if (node != NP_NONE && w->missing[node] == 0 && w->key[node] == 0 &&
        np_order_weigh(w, node).after <= 0) {
        w->key[node] = 1;
        w->list[e->waiting++] = node;
    }
}

static void eager_run(eager *e, uint32_t node)
{
    np_ordering *w = e->w;
    const np_order_graph *g = w->g;
    np_order_run(w, node);
    w->missing[node] = NP_NONE;
    w->key[node] = 1;
    w->trial[e->done++] = node;
    for (uint32_t i = w->after_first[node]; i < w->after_first[node + 1]; i++)
        if (--w->missing[w->after[i]] == 0)
            eager_look(e, w->after[i]);
    for (uint32_t i = g->use_first[node]; i < g->use_first[node + 1]; i++)
        if (w->left[g->use[i]] == 1 && !g->kept[g->use[i]])
            eager_look(e, last_reader(w, g->use[i]));
}

static void eager_free(np_ordering *w)
{
    eager e = {.w = w};
    np_order_start(w);
    for (uint32_t i = 0; i < w->g->n_nodes; i++)
        w->key[i] = 0;
    for (uint32_t i = 0, next = 0; i < w->g->n_nodes; i++) {
        if (!has_run(w, i) && w->key[i] == 0)
            eager_run(&e, i);
        while (next < e.waiting)
            eager_run(&e, w->list[next++]);
    }
}

/* ---- the node after which the least is alive --------------------------------------------------- */

/* Ready nodes by key, in w->list. A key only falls: when a value has one reader left. */
typedef struct least_heap {
    np_ordering *w;
    uint32_t n;
    uint32_t *at; /* by node: where it is in the heap + 1, or 0 */
} least_heap;

static bool less(const np_ordering *w, uint32_t a, uint32_t b)
{
    const int64_t x = (int64_t)w->key[a], y = (int64_t)w->key[b];
    return x < y || (x == y && a < b);
}

static void put(least_heap *h, uint32_t i, uint32_t node)
{
    h->w->list[i] = node;
    h->at[node] = i + 1;
}

static void sift_up(least_heap *h, uint32_t i, uint32_t node)
{
    for (; i > 0 && less(h->w, node, h->w->list[(i - 1) / 2]); i = (i - 1) / 2)
        put(h, i, h->w->list[(i - 1) / 2]);
    put(h, i, node);
}

static uint32_t pop(least_heap *h)
{
    const uint32_t top = h->w->list[0], moved = h->w->list[--h->n];
    h->at[top] = 0;
    uint32_t i = 0;
    for (uint32_t child; h->n && (child = 2 * i + 1) < h->n; i = child) {
        if (child + 1 < h->n && less(h->w, h->w->list[child + 1], h->w->list[child]))
            child++;
        if (!less(h->w, h->w->list[child], moved))
            break;
        put(h, i, h->w->list[child]);
    }
    if (h->n)
        put(h, i, moved);
    return top;
}

/* Puts a ready node in, or moves it up if its key fell. */
static void weigh_again(least_heap *h, uint32_t node)
{
    np_ordering *w = h->w;
    if (node == NP_NONE || w->missing[node] != 0)
        return;
    w->key[node] = (uint64_t)np_order_weigh(w, node).after;
    sift_up(h, h->at[node] ? h->at[node] - 1 : h->n++, node);
}

static void least_after(np_ordering *w)
{
    const np_order_graph *g = w->g;
    least_heap h = {w, 0, w->list + g->n_nodes};
    np_order_start(w);
    for (uint32_t i = 0; i < g->n_nodes; i++)
        h.at[i] = 0;
    for (uint32_t i = 0; i < g->n_nodes; i++)
        weigh_again(&h, i);
    for (uint32_t done = 0; h.n; done++) {
        const uint32_t node = pop(&h);
        np_order_run(w, node);
        w->missing[node] = NP_NONE;
        w->trial[done] = node;
        for (uint32_t i = w->after_first[node]; i < w->after_first[node + 1]; i++)
            if (--w->missing[w->after[i]] == 0)
                weigh_again(&h, w->after[i]);
        for (uint32_t i = g->use_first[node]; i < g->use_first[node + 1]; i++)
            if (w->left[g->use[i]] == 1 && !g->kept[g->use[i]])
                weigh_again(&h, last_reader(w, g->use[i]));
    }
}

/* ---- what a result needs, the needier part first (Liu) ------------------------------------------ */

static const uint64_t most = (uint64_t)1 << 62;

static uint64_t saturated(uint64_t a, uint64_t b)
{
    return a > most - b ? most : a + b;
}

static uint64_t made_bytes(const np_ordering *w, uint32_t node)
{
    uint64_t sum = 0;
    for (uint32_t i = w->made_first[node]; i < w->made_first[node + 1]; i++)
        sum = saturated(sum, w->g->bytes[w->made[i]]);
    return sum;
}

/* Peak less what stays: key[] holds peaks. */
static bool needier(const np_ordering *w, const uint32_t *a, const uint32_t *b)
{
    const uint64_t x = w->key[*a] - made_bytes(w, *a), y = w->key[*b] - made_bytes(w, *b);
    return x > y || (x == y && *a < *b);
}

NP_HEAP_SORT(sort_by_need, uint32_t, const np_ordering *, needier)

/* Sorts what each node waits for, as if each were a tree of its own, and sets the node's peak. */
static void sort_needs(np_ordering *w)
{
    for (uint32_t node = 0; node < w->g->n_nodes; node++) {
        const uint32_t first = w->before_first[node], n = w->before_first[node + 1] - first;
        uint32_t *before = w->before + first;
        sort_by_need(w, before, n);
        uint64_t held = 0, peak = 0;
        for (uint32_t i = 0; i < n; i++) {
            const uint64_t at = saturated(held, w->key[before[i]]);
            peak = at > peak ? at : peak;
            held = saturated(held, made_bytes(w, before[i]));
        }
        held = saturated(held, saturated(made_bytes(w, node), np_order_scratch(w->g, node)));
        w->key[node] = held > peak ? held : peak;
    }
}

/* From each node that nothing waits for, in program order: all it needs, then itself. A stack of
 * nodes; missing[] is the next of `before` to see to. */
static void post_order(np_ordering *w)
{
    sort_needs(w);
    uint32_t done = 0;
    for (uint32_t i = 0; i < w->g->n_nodes; i++)
        w->missing[i] = w->before_first[i];
    for (uint32_t root = 0; root < w->g->n_nodes; root++) {
        if (w->after_first[root] < w->after_first[root + 1])
            continue;
        uint32_t depth = 0;
        w->list[depth++] = root;
        while (depth) {
            const uint32_t node = w->list[depth - 1];
            if (w->missing[node] == w->before_first[node + 1]) {
                w->missing[node] = NP_NONE;
                w->trial[done++] = node;
                depth--;
            } else {
                const uint32_t next = w->before[w->missing[node]++];
                if (w->missing[next] != NP_NONE)
                    w->list[depth++] = next;
            }
        }
    }
}

const np_order_candidate np_order_candidates[] = {
    {"eager",     eager_free   },
    {"least",     least_after  },
    {"postorder", post_order   },
    {"depth",     depth_first  },
    {"breadth",   breadth_first},
};
const int np_order_n_candidates = sizeof np_order_candidates / sizeof np_order_candidates[0];
