/* choose.c - of several whole plans the one to run.
 *
 * A candidate is a way to fuse, stream and order the tasks. Each is emitted, hosted and placed, so
 * what is compared is the arena that a run takes. Without a budget: the smallest arena of those that
 * cost no time, or the fastest of those that are hardly larger, and never more than the unfused program
 * order; the most fused one if several are equal. Under a budget that this does not meet: of all that meet it the fastest. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "plan/again.h"
#include "plan/emit.h"
#include "plan/fuse.h"

enum {
    MOST_CANDIDATES = 224,
    MOST_REPAIRS = 12,
    HARDLY = 64,             /* an arena larger by its share of so many is hardly larger */
    MOST_SIZES = 5,          /* of blocks by bytes */
    LEAST_BLOCK = 64 << 10
};

#define NEXT_TO_NOTHING 1.02 /* time of values made again for axes that they lack, the arena as it was */

typedef struct candidate {
    char text[80];
    uint64_t arena; /* whole pages */
    double seconds;
    np_way way;
} candidate;

typedef struct chooser {
    np_builder *b;
    np_progress *progress;
    np_fuser f;
    neap_plan_options options;
    uint64_t budget, outputs; /* budget UINT64_MAX: none */
    np_way way;                /* of what is tried now ... */
    const np_again_set *again; /* ... and what it makes again, or NULL */
    np_fusion best;
    np_again_set best_again;
    char again_text[80]; /* of the candidate to which it is added */
    uint32_t best_at, n;
    bool have_best, least_known;
    bool frozen; /* candidates are only told of; beside a budget the faster one of as much is taken */
    bool dear;   /* what costs no time does not fit: of what fits the fastest is wanted */
    bool unsplit[2]; /* by sideways: fused to an arena above the least */
    bool easy;   /* only what costs next to nothing ... */
    np_way put_off; /* ... which this does not; or of no fusion */
    int64_t block_rows; /* of what was streamed since these were set to 0, the most rows there are ... */
    uint64_t block_bytes; /* ... and the most that a block holds which can be smaller */
    candidate *all, least; /* least: of those that cost no time */
    size_t all_capacity;
} chooser;

/* Blocks that no machine can hold would overflow offsets. */
static bool addressable(np_builder *b)
{
    const uint64_t most = (uint64_t)1 << 62;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < b->n_blocks; i++) {
        if (b->blocks[i].bytes > most - sum) {
            np_fail(b->ctx, NEAP_ENOMEM, "intermediate values of more than 2^62 bytes");
            return false;
        }
        sum += b->blocks[i].bytes;
    }
    return true;
}

uint64_t np_fusion_arena(np_builder *b, const np_fusion *fusion)
{
    if (!np_builder_emit(b, fusion) || !addressable(b) || !np_host(b))
        return UINT64_MAX;
    return np_place(&b->place_work, b->blocks, b->n_blocks);
}

static uint64_t pages(uint64_t arena)
{
    return arena ? np_pages(arena) : 0;
}

/* ---- keeping the best -------------------------------------------------------------------------- */

static bool fits(const chooser *c, const candidate *k)
{
    return c->budget != UINT64_MAX && k->arena + c->outputs <= c->budget;
}

/* The same steps in another order: their times are added up in another order. */
static bool same_time(const candidate *k, const candidate *than)
{
    const double more = k->seconds - than->seconds;
    return (more < 0 ? -more : more) <= 1e-9 * k->seconds;
}

/* Is a candidate that costs no time hardly larger than the least of them, within program order, and no
 * reason to look for what costs time? */
static bool is_small(const chooser *c, const candidate *k)
{
    const uint64_t most = c->least.arena + c->least.arena / HARDLY;
    return k->arena <= c->least.arena ||
           (k->arena <= most && k->arena <= c->all[0].arena && !(c->options.without & NEAP_PLAN_LOW_MEMORY) &&
            (fits(c, k) || !fits(c, &c->least)));
}

/* The later, which fuses more, of as much in the same time. */
static bool is_less(const candidate *k, const candidate *than)
{
    return k->arena < than->arena || (k->arena == than->arena && k->seconds <= than->seconds);
}

static bool better(const chooser *c, const candidate *k, const candidate *than)
{
    if (c->dear && fits(c, k) != fits(c, than))
        return fits(c, k);
    if (c->dear && fits(c, k) && k->seconds != than->seconds)
        return k->seconds < than->seconds;
    if (c->easy && k->way.repeats && !than->way.repeats)
        return k->arena <= than->arena && (double)k->arena * k->seconds <=
                                              (double)than->arena * than->seconds * NEXT_TO_NOTHING;
    if (c->easy && is_small(c, k) != is_small(c, than))
        return is_small(c, k);
    if (c->easy && is_small(c, k) && !same_time(k, than))
        return k->seconds < than->seconds;
    return is_less(k, than);
}

/* What was only to be looked at beside a budget that is met: of as much, in less time? */
static bool is_faster(const chooser *c, const candidate *k, const candidate *than)
{
    return c->options.budget && k->arena == than->arena && !same_time(k, than) &&
           k->seconds < than->seconds;
}

static bool add_candidate(chooser *c, const candidate *k)
{
    if (!np_workspace_grow(c->b->ctx, &c->all, &c->all_capacity, c->n + 1, sizeof *c->all))
        return false;
    c->all[c->n++] = *k;
    return true;
}

/* Takes the fusion over, as the best or to free it. The builder holds its steps. false: no memory. */
static bool keep(chooser *c, np_fusion *fusion, uint64_t arena, const char *text)
{
    candidate k = {.arena = pages(arena), .seconds = np_plan_seconds(c->b), .way = c->way};
    snprintf(k.text, sizeof k.text, "%s", text);
    if (c->easy && !k.way.repeats && (!c->n || is_less(&k, &c->least)))
        c->least = k;
    bool take = !c->have_best || (c->frozen ? is_faster(c, &k, &c->all[c->best_at])
                                            : better(c, &k, &c->all[c->best_at]));
    const bool later = c->easy && k.way.repeats && !take && k.arena < c->all[c->best_at].arena;
    const bool room = !later && c->n < MOST_CANDIDATES, ok = !room || add_candidate(c, &k);
    if (later)
        c->put_off = k.way;
    take = take && room && ok;
    if (take && c->easy && k.arena < c->least.arena)
        c->least = k;
    if (take && c->have_best)
        np_fusion_free(c->b, &c->best);
    if (take) {
        c->best = *fusion;
        c->best_again = c->again ? *c->again : (np_again_set){0};
        c->best_at = c->n - 1;
        c->have_best = true;
    } else {
        np_fusion_free(c->b, fusion);
    }
    return ok;
}

static uint64_t least_arena(const chooser *c)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < c->n; i++)
        least = c->all[i].arena < least ? c->all[i].arena : least;
    return least;
}

/* ---- candidates -------------------------------------------------------------------------------- */

/* Is a block that the group reads or writes alive at a step where too much is? `over`: such steps
 * before each step. */
static bool holds_too_much(const np_builder *b, uint32_t step, const int64_t *over)
{
    const np_group *g = &b->groups[b->steps[step].group];
    for (uint32_t m = 0; m < g->n_members; m++) {
        const np_member *member = &b->members[g->first_member + m];
        for (uint32_t i = 0; i <= member->n_in; i++) {
            const np_plan_operand *o = &b->operands[b->slots[member->first_slot + i].operand];
            const np_block *k = o->kind == NP_IN_ARENA ? &b->blocks[b->blocks[o->source].owner] : NULL;
            if (k && over[k->last + 1] > over[k->first])
                return true;
        }
    }
    return over[step + 1] > over[step];
}

static bool bar_groups(np_fuser *f, const np_fusion *fusion, uint64_t limit, bool *barred)
{
    np_builder *b = f->b;
    int64_t *over = np_work_take(&b->step_work, ((size_t)b->n_steps + 2) * sizeof *over), sum = 0;
    if (!over)
        return false;
    np_find_live(b, over);
    for (uint32_t s = 0; s <= b->n_steps; s++) {
        int64_t here = s < b->n_steps && (uint64_t)over[s] > limit;
        over[s] = sum;
        sum += here;
    }
    *barred = false;
    for (int near = 0; near < 2 && !*barred; near++)
        for (uint32_t s = 0; s < b->n_steps; s++) {
            if (b->steps[s].group == NP_NONE ||
                !(near ? holds_too_much(b, s, over) : over[s + 1] > over[s]))
                continue;
            np_fuser_bar(f, fusion, fusion->order[s]);
            *barred = true;
        }
    return true;
}

/* A fusion whose steps the builder holds, as it is and in an order in which less is alive. */
static bool offer(chooser *c, np_fusion *fusion, uint64_t arena, const char *text)
{
    np_progress_at(c->progress, c->n + 1);
    const bool order = !(c->options.without & NEAP_PLAN_NO_ORDER) && fusion->n_groups > 2;
    np_fusion other;
    bool changed = false;
    if (order && !np_fusion_copy(c->b, fusion, &other)) {
        np_fusion_free(c->b, fusion);
        return false;
    }
    bool ok = keep(c, fusion, arena, text) && (!order || np_reorder(c->b, &other, &changed));
    if (ok && changed) {
        arena = np_fusion_arena(c->b, &other);
        ok = arena != UINT64_MAX;
    }
    if (!ok || !changed) {
        if (order)
            np_fusion_free(c->b, &other);
        return ok;
    }
    char reordered[sizeof c->all[0].text];
    snprintf(reordered, sizeof reordered, "%.64s, reordered", text);
    return keep(c, &other, arena, reordered);
}

bool np_fuse_way(np_fuser *f, const np_way *way, uint64_t limit, np_fusion *out, uint64_t *arena,
                 int *rounds)
{
    bool barred = true;
    for (*rounds = 0; barred; ++*rounds) {
        if (np_check(f->b->ctx) != NEAP_OK)
            return false;
        np_fuser_reset(f, way->rows > 0, way->large, way->windows);
        if (way->fused)
            np_fuse(f, way->sideways, way->repeats);
        if (!np_fusion_take(f, out))
            return false;
        out->block_rows = way->rows;
        out->block_bytes = way->bytes;
        *arena = np_fusion_arena(f->b, out);
        barred = false;
        bool ok = *arena != UINT64_MAX;
        if (ok && way->fused && *arena > limit && *rounds < MOST_REPAIRS)
            ok = bar_groups(f, out, limit, &barred);
        if (!ok || barred)
            np_fusion_free(f->b, out);
        if (!ok)
            return false;
    }
    return true;
}

/* Notes of the streamed groups that the builder holds how many rows they have, how much a block holds. */
static void note_blocks(chooser *c)
{
    const np_builder *b = c->b;
    for (uint32_t i = 0; i < b->n_groups; i++) {
        const np_group *g = &b->groups[i];
        if (!g->streamed)
            continue;
        const int64_t rows = b->operands[g->extents_of].operand.shape[g->extent_dim[g->n_axes - 1]];
        c->block_rows = rows > c->block_rows ? rows : c->block_rows;
        if (g->block > 1 && g->tile_bytes > c->block_bytes)
            c->block_bytes = g->tile_bytes;
    }
}

static const char repeats_text[] = "and made again for axes they lack";

static bool try_fusion(chooser *c, np_way way, const char *text)
{
    np_fusion fusion;
    uint64_t arena;
    int rounds;
    way.fused = true;
    c->way = way;
    np_fuser_allow_all(&c->f);
    return np_fuse_way(&c->f, &c->way, way.limit, &fusion, &arena, &rounds) &&
           (note_blocks(c), offer(c, &fusion, arena, text));
}

static const char *const fused_text[] = {"ops fused along their values", "and beside each other"};

static bool try_split(chooser *c, bool sideways)
{
    c->unsplit[sideways] = false;
    return try_fusion(c, (np_way){.sideways = sideways, .limit = c->least.arena}, fused_text[sideways]);
}

static bool try_unfused(chooser *c)
{
    np_fusion fusion;
    if (!np_fusion_take(&c->f, &fusion))
        return false;
    uint64_t arena = np_fusion_arena(c->b, &fusion);
    if (arena == UINT64_MAX) {
        np_fusion_free(c->b, &fusion);
        return false;
    }
    for (uint32_t i = 0; i < c->b->n_outputs; i++)
        c->outputs += np_pages(c->b->output_bytes[i]);
    return offer(c, &fusion, arena, "each op a step, in program order");
}

/* Fuses all that stays within program order. If that is more than hardly larger than the least so far,
 * again with what raises the arena above that split; else that is left for when least is wanted. Neither
 * hangs on the budget or on what is chosen. */
static bool try_below(chooser *c, bool sideways)
{
    const uint32_t n = c->n;
    uint64_t arena = UINT64_MAX;
    if (!try_fusion(c, (np_way){.sideways = sideways, .limit = c->all[0].arena}, fused_text[sideways]))
        return false;
    for (uint32_t i = n; i < c->n; i++)
        arena = c->all[i].arena < arena ? c->all[i].arena : arena;
    c->unsplit[sideways] = arena > c->least.arena;
    return arena <= c->least.arena + c->least.arena / HARDLY || try_split(c, sideways);
}

/* What costs no time: fusion. */
static bool try_free(chooser *c)
{
    const unsigned without = c->options.without;
    if (!try_unfused(c))
        return false;
    if (without & NEAP_PLAN_NO_FUSION || c->options.max_fusion_size < 2 || c->b->n_tasks < 2)
        return true;
    if (!try_below(c, false) || (!(without & NEAP_PLAN_NO_SIDEWAYS) && !try_below(c, true)))
        return false;
    const np_way way = {.sideways = c->least.way.sideways, .repeats = true, .limit = c->least.arena};
    return without & NEAP_PLAN_NO_RECOMPUTE || !np_fuser_may_repeat(&c->f) ||
           try_fusion(c, way, repeats_text);
}

/* Blocks of so many rows or bytes: for large values only, for all, and with values made again for axes
 * that they lack; each along values and beside each other. */
static bool try_blocks(chooser *c, int64_t rows, int64_t bytes, bool windows, bool may_repeat)
{
    static const char *const texts[] = {" of large values", "", ", axes repeated"};
    const int ways = c->options.without & NEAP_PLAN_NO_SIDEWAYS ? 1 : 2;
    char size[32], text[sizeof c->all[0].text];
    snprintf(size, sizeof size, bytes ? "%lld KiB" : "%lld rows", (long long)(bytes ? bytes >> 10 : rows));
    c->block_rows = 0;
    c->block_bytes = 0;
    for (int i = 0; i < (may_repeat ? 3 : 2) * ways; i++) {
        const np_way way = {.sideways = i % ways, .rows = rows, .bytes = bytes, .limit = UINT64_MAX,
                            .windows = windows, .large = i < ways, .repeats = i >= 2 * ways};
        snprintf(text, sizeof text, "row streaming by %.11s%s%s%s", size, windows ? " of windows" : "", texts[i / ways],
                 way.sideways ? ", also beside each other" : "");
        if (!try_fusion(c, way, text))
            return false;
    }
    return true;
}

/* What is made of few large rows, as images of a batch are, takes blocks of few rows: by bytes, where the
 * blocks so far, of `held` bytes at most, hold much of the least that there is. */
static bool try_bytes(chooser *c, uint64_t held, bool windows, bool may_repeat)
{
    for (int i = held < least_arena(c) / 4 ? MOST_SIZES : 0; i < MOST_SIZES; i++) {
        const uint64_t bytes = held / 4 & ~(uint64_t)1023;
        if (bytes < LEAST_BLOCK)
            return true;
        if (!try_blocks(c, INT64_MAX, (int64_t)bytes, windows, may_repeat))
            return false;
        held = c->block_bytes < bytes ? c->block_bytes : bytes;
    }
    return true;
}

static bool try_streaming(chooser *c)
{
    static const int64_t rows[] = {1024, 512, 256, 128}; /* the longest first */
    const unsigned without = c->options.without;
    if (without & (NEAP_PLAN_NO_STREAMING | NEAP_PLAN_NO_FUSION) || c->options.max_fusion_size < 2)
        return true;
    const bool may_repeat = !(without & NEAP_PLAN_NO_RECOMPUTE) && np_fuser_may_repeat(&c->f);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if ((i == 0 || rows[i] < c->block_rows) && !try_blocks(c, rows[i], 0, false, may_repeat))
            return false;
    return try_bytes(c, c->block_bytes, false, may_repeat) &&
           (!np_fuser_has_windows(&c->f) || try_bytes(c, least_arena(c), true, may_repeat));
}

/* A plan of another graph than the builder's. */
static bool keep_again(void *user, np_builder *b, np_fusion *fusion, uint64_t arena,
                       const np_again_set *set)
{
    chooser *c = user;
    np_builder *own = c->b;
    char text[sizeof c->all[0].text];
    snprintf(text, sizeof text, "%u value%s made again, %.40s", (unsigned)set->n,
             set->n == 1 ? "" : "s", c->again_text);
    c->b = b;
    c->again = set;
    const bool ok = keep(c, fusion, arena, text);
    c->b = own;
    c->again = NULL;
    return ok;
}

/* The smallest of the first n plans that fuse and stream, or do not, with values made again. Which one
 * that is does not hang on the budget, so neither does what is least. */
static bool try_again(chooser *c, uint32_t n, bool fused, bool streams)
{
    const candidate *least = NULL;
    for (uint32_t i = 0; i < n; i++) {
        const candidate *k = &c->all[i];
        if (k->way.fused == fused && streams == (k->way.rows > 0) &&
            (!least || k->arena < least->arena))
            least = k;
    }
    if (!least || !least->arena)
        return true;
    np_recompute r = {.g = c->b->g, .options = &c->options, .way = least->way, .found = keep_again,
                      .user = c};
    c->way = least->way;
    memcpy(c->again_text, least->text, sizeof c->again_text);
    return np_recompute_search(&r);
}

/* What costs time. */
static bool try_dear(chooser *c)
{
    for (int sideways = 0; sideways < 2; sideways++)
        if (c->unsplit[sideways] && !try_split(c, sideways))
            return false;
    if (c->put_off.fused && !try_fusion(c, c->put_off, repeats_text))
        return false;
    if (!try_streaming(c))
        return false;
    const uint32_t n = c->n;
    np_fuser_free(&c->f); /* not held beside what those take that plan anew */
    np_builder_forget_steps(c->b);
    return c->options.without & NEAP_PLAN_NO_RECOMPUTE ||
           (try_again(c, n, false, false) && try_again(c, n, true, false) &&
            try_again(c, n, true, true));
}

/* ---- choosing ---------------------------------------------------------------------------------- */

static void tell(const chooser *c)
{
    for (uint32_t i = 0; c->options.explain && i < c->n; i++) {
        neap_plan_event e = {.kind = NEAP_PLAN_EVENT_CANDIDATE, .text = c->all[i].text, .a = "",
                             .b = "", .peak_bytes = c->all[i].arena + c->outputs,
                             .seconds = c->all[i].seconds, .chosen = i == c->best_at};
        c->options.explain(c->options.user, &e);
    }
}

/* Without a need, dear candidates are only told of. */
static bool choose(chooser *c)
{
    if (!np_fuser_start(&c->f, c->b, &c->options))
        return false;
    c->easy = true;
    bool ok = try_free(c);
    c->easy = false;
    bool needed = c->options.without & NEAP_PLAN_LOW_MEMORY ||
                  (ok && c->budget != UINT64_MAX && !fits(c, &c->all[c->best_at]));
    c->frozen = !needed;
    c->dear = needed && !(c->options.without & NEAP_PLAN_LOW_MEMORY);
    c->least_known = needed || c->options.explain || c->options.budget;
    if (ok && c->least_known)
        ok = try_dear(c);
    np_fuser_free(&c->f);
    return ok;
}

static bool refused(const chooser *c)
{
    uint64_t least = least_arena(c) + c->outputs;
    if (!c->options.budget || least <= c->budget || c->options.without & NEAP_PLAN_BEST_EFFORT)
        return false;
    np_fail(c->b->ctx, NEAP_ENOMEM,
            "needs at least %llu bytes for activations, scratch and results, the budget is %llu",
            (unsigned long long)least, (unsigned long long)c->budget);
    return true;
}

static void describe(const chooser *c, neap_plan *p, uint64_t arena, const neap_plan_info *peak)
{
    neap_plan_info *i = &p->info;
    i->arena_bytes = arena;
    i->largest_live_bytes = peak->largest_live_bytes;
    i->peak_step = peak->peak_step;
    i->scratch_bytes = peak->scratch_bytes;
    i->peak_bytes = pages(arena) + i->output_bytes;
    i->predicted_seconds = c->all[c->best_at].seconds;
    i->recomputed_steps = c->best_again.n;
    i->least_bytes = c->least_known ? least_arena(c) + c->outputs : 0;
    for (uint32_t g = 0; g < p->n_groups; g++) {
        i->fused_groups += !p->groups[g].streamed;
        i->row_streamed_steps += p->groups[g].streamed ? p->groups[g].n_members : 0;
    }
}

/* The builder for the graph of the best candidate, which makes some values again. */
static bool rebuild(chooser *c, np_again_graph *again)
{
    const np_graph *g = c->b->g;
    np_builder_free(c->b);
    *c->b = (np_builder){.ctx = g->ctx, .g = c->b->g};
    if (!np_again_graph_make(g, &c->best_again, again))
        return false;
    c->b->g = &again->g;
    return np_builder_start(c->b);
}

neap_status np_plan_build(np_graph *g, bool object, uint64_t wish, neap_plan **out)
{
    double t0 = np_seconds();
    np_builder b = {.ctx = g->ctx, .g = g};
    neap_plan *p = NULL;
    int64_t merged = 0;
    chooser *c = np_workspace_take(g->ctx, sizeof *c);
    if (!c)
        return NEAP_ENOMEM;
    np_progress progress;
    np_progress_begin(&progress, g->ctx, "plan", 0, true);
    c->b = &b;
    c->progress = &progress;
    c->options = np_plan_options_of(g->ctx);
    if (!c->options.budget && wish) {
        c->options.budget = wish;
        c->options.without |= NEAP_PLAN_BEST_EFFORT;
    }
    c->budget = c->options.budget ? c->options.budget : UINT64_MAX;
    bool ok = np_check(g->ctx) == NEAP_OK && np_graph_simplify(g, &merged) == NEAP_OK && np_builder_start(&b) && choose(c) &&
              !refused(c);
    np_again_graph again = {0};
    if (ok && c->best_again.n)
        ok = rebuild(c, &again);
    uint64_t arena = ok ? np_fusion_arena(&b, &c->best) : UINT64_MAX;
    neap_plan_info peak = {0};
    if (arena != UINT64_MAX && c->best_again.n)
        np_again_settle(&again, &b);
    if (arena != UINT64_MAX && np_find_peak(&b, &peak))
        p = np_pack(&b, object, merged);
    if (p) {
        describe(c, p, arena, &peak);
        tell(c);
    }
    if (c->have_best)
        np_fusion_free(&b, &c->best);
    np_builder_free(&b);
    np_again_graph_free(&again);
    np_workspace_free(g->ctx, c->all, c->all_capacity * sizeof *c->all);
    np_workspace_free(g->ctx, c, sizeof *c);
    np_progress_end(&progress, p ? NEAP_OK : NEAP_EINVAL);
    if (!p)
        return g->ctx->status != NEAP_OK ? g->ctx->status : NEAP_ENOMEM;
    p->info.plan_seconds = np_seconds() - t0;
    *out = p;
    return NEAP_OK;
}
