/* program_text.c - `neap generate` and `neap plan generate` of a program: a decoder over its handle.
 *
 * The least that would do is that of the shortest chunk with the least plans; a longer one is taken if it
 * fits with plans that cost no time. Each is planned with a handle of its own, as a handle keeps its plans. */
#include <inttypes.h>
#include <neap/decoder.h>
#include <string.h>

#include "cli/ctrl_c.h"
#include "cli/program_task.h"
#include "cli/task.h"

enum { CHUNK_STEP = 64, CHUNK_DEFAULT = 512, CALLS = 5, POSITIONS_MOST = 1 << 30 };

/* A call that is planned: `n` tokens at `position`. */
typedef struct feed {
    int64_t position, n;
} feed;

typedef struct program_text {
    cli_program p;
    cli_task t; /* prompt, sampler, what is printed */
    neap_decoder *decoder;
    neap_decoder_info info;
    int64_t context;
    feed feeds[CALLS];
    int n_feeds;
    bool planning; /* the plan is told; nothing runs */
} program_text;

/* ---- before the program ------------------------------------------------------------------- */

static int check_settings(const cli_settings *s, bool plan)
{
    const cli_file files[] = {
        {"-m", s->model, false},        {"--tokenizer", s->tokenizer, false},
        {"--data", s->data, false},     {"--ids", s->ids, false},
        {"--logits", s->logits, true},  {"--stats", s->stats, true},
    };
    if (!s->tokenizer && !s->ids)
        return cli_usage("--tokenizer FILE is missing: a program has none of its own");
    if (!s->tokenizer && !s->tokens && !plan)
        return cli_usage("--tokenizer FILE is missing: without it only --tokens can be printed");
    if (s->kv_type != 0)
        return cli_usage("--kv-type: what a program remembers has the type it was exported with");
    if (s->weights == 2)
        return cli_usage("--weights repacked: a program's constants are used as they lie in the "
                         "file");
    return cli_check_files(files, sizeof files / sizeof files[0]);
}

static int open_all(program_text *x, const cli_settings *s, cli_plan_data *picture)
{
    int status = cli_program_open(&x->p, s, s->model, picture);
    if (status == CLI_DONE)
        status = cli_program_choose(&x->p);
    if (status != CLI_DONE)
        return status;
    if (neap_decoder_inspect(x->p.program, x->p.method, &x->info) != NEAP_OK)
        return cli_context_failed(x->p.ctx);
    if (s->tokenizer && neap_tokenizer_open(x->p.ctx, s->tokenizer, &x->t.tokenizer) != NEAP_OK) {
        x->t.tokenizer = NULL;
        return cli_context_failed(x->p.ctx);
    }
    x->t.ctx = x->p.ctx;
    x->t.info.vocabulary = x->info.vocabulary;
    x->t.info.context_length =
        x->info.longest_context ? x->info.longest_context : POSITIONS_MOST;
    return cli_task_prompt(&x->t);
}

/* ---- the plan ----------------------------------------------------------------------------- */

static void add_feed(program_text *x, int64_t position, int64_t n)
{
    for (int i = 0; i < x->n_feeds; i++)
        if (x->feeds[i].position == position && x->feeds[i].n == n)
            return;
    if (n > 0 && position >= 0)
        x->feeds[x->n_feeds++] = (feed){position, n};
}

/* What the run will call, once for each size, at the first and the last place. */
static void list_feeds(program_text *x, int64_t new_tokens)
{
    const int64_t prompt = (int64_t)x->t.ids.count, chunk = x->info.chunk;
    const int64_t whole = prompt / chunk * chunk;
    const int64_t end = prompt + new_tokens - 1;
    x->n_feeds = 0;
    if (whole > 0) {
        add_feed(x, 0, chunk);
        add_feed(x, whole - chunk, chunk);
    }
    add_feed(x, whole, prompt - whole);
    if (new_tokens > 1) {
        add_feed(x, prompt, 1);
        add_feed(x, (end < x->context ? end : x->context) - 1, 1);
    }
}

/* Tokens that are not known yet stand as the prompt's first. */
static const int32_t *ids_of(const program_text *x, const feed *f)
{
    const bool known = f->position + f->n <= (int64_t)x->t.ids.count;
    return x->t.ids.data + (known ? f->position : 0);
}

static neap_status plan_feed(void *user, int i, neap_execution_plan *plan, cli_alive *alive)
{
    program_text *x = user;
    const feed *f = &x->feeds[i];
    return neap_decoder_plan(x->decoder, ids_of(x, f), f->n, f->position, plan, cli_alive_add,
                             alive);
}

static neap_status show_feed(void *user, int i, neap_plan_visit *visit, void *visitor)
{
    program_text *x = user;
    const feed *f = &x->feeds[i];
    return neap_decoder_visit_plans(x->decoder, ids_of(x, f), f->n, f->position, visit, visitor);
}

static void close_decoder(program_text *x)
{
    neap_decoder_free(x->decoder);
    neap_handle_close(x->p.handle);
    x->decoder = NULL;
    x->p.handle = NULL;
}

/* Handle, decoder and plan for a chunk. */
static int plan_chunk(program_text *x, int64_t chunk)
{
    close_decoder(x);
    int status = cli_program_load(&x->p);
    if (status != CLI_DONE)
        return status;
    neap_decoder_options o = NEAP_DECODER_OPTIONS_INIT;
    o.tokenizer = x->t.tokenizer;
    o.context = x->context;
    o.chunk = chunk;
    if (neap_decoder_new(x->p.handle, &o, &x->decoder) != NEAP_OK) {
        x->decoder = NULL;
        return cli_context_failed(neap_handle_context(x->p.handle));
    }
    neap_decoder_describe(x->decoder, &x->info);
    list_feeds(x, x->p.settings->new_tokens);
    return cli_program_plan(&x->p, x->n_feeds, plan_feed, x);
}

static int64_t round_up(int64_t n)
{
    return (n + CHUNK_STEP - 1) / CHUNK_STEP * CHUNK_STEP;
}

static int choose_chunk(program_text *x)
{
    const cli_settings *s = x->p.settings;
    const int64_t longest = round_up((int64_t)x->t.ids.count);
    int status = plan_chunk(x, s->chunk ? s->chunk : CHUNK_STEP);
    if (status != CLI_DONE || s->chunk || (s->memory && x->p.plan.planned_peak_bytes > s->memory))
        return status;
    int64_t chunk = longest < CHUNK_DEFAULT ? longest : CHUNK_DEFAULT;
    if (chunk > round_up(x->info.longest_call))
        chunk = round_up(x->info.longest_call);
    for (; status == CLI_DONE && chunk > CHUNK_STEP; chunk -= CHUNK_STEP) {
        status = plan_chunk(x, chunk);
        if (!s->memory || x->p.plan.planned_peak_bytes <= s->memory)
            break;
    }
    if (status == CLI_DONE && chunk == CHUNK_STEP && x->info.chunk > CHUNK_STEP)
        status = plan_chunk(x, CHUNK_STEP);
    return status;
}

/* The least is that of the shortest chunk. Looking for it takes bytes that a run, which does not, never
 * takes: so it comes last, and what was planned before is told. */
static int find_least(program_text *x)
{
    const cli_plan_facts facts = x->p.plan;
    const int64_t chunk = x->info.chunk;
    const bool longer = !x->p.settings->chunk && chunk > CHUNK_STEP;
    if (neap_context_set_limit(x->p.ctx, 0) != NEAP_OK) /* nothing will run */
        return cli_context_failed(x->p.ctx);
    int status = longer ? plan_chunk(x, CHUNK_STEP) : CLI_DONE;
    if (status == CLI_DONE)
        status = cli_program_least(&x->p, x->n_feeds, plan_feed, x);
    const uint64_t least = x->p.plan.least_bytes;
    if (status == CLI_DONE && longer)
        status = plan_chunk(x, chunk);
    x->p.plan = facts;
    x->p.plan.least_bytes = least;
    x->p.stats.planned_peak_bytes = facts.planned_peak_bytes;
    return status;
}

static int plan_all(program_text *x)
{
    const cli_settings *s = x->p.settings;
    const int64_t room = cli_task_context(&x->t, s->new_tokens);
    x->context = room ? room : x->info.longest_context;
    if (!x->context)
        return cli_failed("-c 0: the program does not say how many positions it allows: name them");
    if ((int64_t)x->t.ids.count >= x->context)
        return cli_task_no_room(&x->t, x->context);
    if (cli_task_sampler(&x->t) != CLI_DONE)
        return CLI_FAILED;
    int status = choose_chunk(x);
    if (status == CLI_DONE)
        status = cli_program_limit(&x->p, x->n_feeds, plan_feed, x);
    return status == CLI_DONE && x->planning ? find_least(x) : status;
}

/* ---- the work ------------------------------------------------------------------------------- */

static neap_status generate(void *user, const neap_generate_options *o, neap_generate_result *result)
{
    program_text *x = user;
    if (!x->p.settings->quiet)
        fprintf(stderr,
                "neap: planned peak %s (%" PRIu64 " bytes), context %" PRId64 ", steps of %" PRId64
                " tokens, %d threads\n",
                cli_mib(x->p.plan.planned_peak_bytes).text, x->p.plan.planned_peak_bytes,
                x->context, x->info.chunk, x->p.plan.threads);
    return neap_decoder_generate(x->decoder, x->t.ids.data, (int64_t)x->t.ids.count, o, result);
}

static int run(program_text *x)
{
    const int status = cli_print_text(&x->t, neap_handle_context(x->p.handle), generate, x);
    x->p.stats.result = x->t.stats.result;
    x->p.stats.generated = x->t.stats.generated;
    x->p.stats.interrupted = x->t.stats.interrupted;
    return status;
}

static int report(program_text *x)
{
    json_t *more = json_object();
    json_object_set_new(more, "prompt_tokens", json_integer((json_int_t)x->t.ids.count));
    json_object_set_new(more, "context", json_integer(x->context));
    json_object_set_new(more, "chunk", json_integer(x->info.chunk));
    json_object_set_new(more, "evaluations", json_integer(x->p.evaluations));
    if (!x->p.settings->json && !x->p.settings->misfit)
        printf("%zu prompt tokens, context %" PRId64 ", steps of %" PRId64
               " tokens, %d threads\n\n",
               x->t.ids.count, x->context, x->info.chunk, x->p.plan.threads);
    return cli_program_tell(&x->p, "generate", show_feed, x, more);
}

int cli_generate_program(const cli_settings *settings, cli_plan_data *picture)
{
    const bool plan = picture != NULL;
    program_text x = {.planning = plan,
                      .info = NEAP_DECODER_INFO_INIT,
                      .t = {.settings = settings, .info = NEAP_MODEL_INFO_INIT}};
    cli_stats_begin(&x.t.stats);
    int status = check_settings(settings, plan);
    if (status != CLI_DONE)
        return status;
    status = open_all(&x, settings, picture);
    if (status == CLI_DONE && !plan)
        cli_watch_interrupt(x.p.ctx);
    if (status == CLI_DONE)
        status = plan_all(&x);
    if (status == CLI_DONE)
        status = plan ? report(&x) : run(&x);
    neap_decoder_free(x.decoder);
    neap_sampler_free(x.t.sampler);
    if (x.p.ctx)
        neap_ids_free(x.p.ctx, &x.t.ids);
    neap_tokenizer_free(x.t.tokenizer);
    return cli_program_finish(&x.p, status);
}
