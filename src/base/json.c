/* json.c - YAJL behind np_json_read. */
#include "base/json.h"

#include <setjmp.h>
#include <yajl/yajl_parse.h>

#include "base/interrupt.h"
#include "base/utf8.h"

static const uint64_t TEXT_LIMIT = (uint64_t)1 << 30;

/* In front of every block that YAJL has. */
typedef struct block {
    struct block *previous, *next;
    size_t bytes; /* behind this head */
    size_t unused;
} block;

/* YAJL does not look whether memory was given. So the allocator leaves it by a jump when there is
 * none, and what YAJL held is found by this list. */
typedef struct parser {
    neap_context *ctx;
    np_bytes text;
    uint64_t from;
    np_json_visit visit;
    void *user;
    yajl_handle handle;
    int depth;
    neap_status status; /* of the visitor */
    block *blocks;
    jmp_buf no_memory;
} parser;

/* ---- memory --------------------------------------------------------------------------------- */

static void *give(void *user, size_t bytes)
{
    parser *p = user;
    block *b = np_alloc(p->ctx, NEAP_MEM_HOST, sizeof *b + bytes);
    if (!b)
        longjmp(p->no_memory, 1);
    *b = (block){.next = p->blocks, .bytes = bytes};
    if (b->next)
        b->next->previous = b;
    p->blocks = b;
    return b + 1;
}

static void take_back(void *user, void *memory)
{
    parser *p = user;
    if (!memory)
        return;
    block *b = (block *)memory - 1;
    if (b->next)
        b->next->previous = b->previous;
    if (b->previous)
        b->previous->next = b->next;
    else
        p->blocks = b->next;
    np_free(p->ctx, NEAP_MEM_HOST, b, sizeof *b + b->bytes);
}

static void *give_more(void *user, void *memory, size_t bytes)
{
    void *more = give(user, bytes);
    if (memory) {
        size_t old = ((block *)memory - 1)->bytes;
        memcpy(more, memory, old < bytes ? old : bytes);
        take_back(user, memory);
    }
    return more;
}

/* ---- events --------------------------------------------------------------------------------- */

static uint64_t place(const parser *p)
{
    uint64_t at = p->from + yajl_get_bytes_consumed(p->handle);
    return at < p->text.n ? at : p->text.n;
}

/* YAJL goes on for 1. */
static int tell(parser *p, np_json_event *event)
{
    event->depth = p->depth;
    event->end = place(p);
    p->status = np_check(p->ctx);
    if (p->status == NEAP_OK)
        p->status = p->visit(p->user, event);
    return p->status == NEAP_OK;
}

static int tell_text(parser *p, np_json_kind kind, const unsigned char *s, size_t n)
{
    size_t length;
    for (size_t i = 0; i < n && kind != NP_JSON_NUMBER; i += length)
        if (s[i] < 0x80)
            length = 1;
        else if (np_utf8_next(s + i, n - i, &length) != NP_UTF8_CHAR)
            return p->status = np_fail(p->ctx, NEAP_EFORMAT, "a string that is not Unicode"), 0;
    np_json_event e = {.kind = kind, .text = {s, n}};
    e.lasting = s >= p->text.p && s < p->text.p + p->text.n;
    return tell(p, &e);
}

static int open_container(parser *p, np_json_kind kind)
{
    if (p->depth == NP_JSON_DEPTH)
        return p->status = np_fail(p->ctx, NEAP_ELIMIT, "nested deeper than %d", NP_JSON_DEPTH), 0;
    np_json_event e = {.kind = kind};
    if (!tell(p, &e))
        return 0;
    p->depth++;
    return 1;
}

static int on_null(void *user)
{
    np_json_event e = {.kind = NP_JSON_NULL};
    return tell(user, &e);
}

static int on_bool(void *user, int truth)
{
    np_json_event e = {.kind = NP_JSON_BOOL, .truth = truth != 0};
    return tell(user, &e);
}

static int on_number(void *user, const char *s, size_t n)
{
    return tell_text(user, NP_JSON_NUMBER, (const unsigned char *)s, n);
}

static int on_string(void *user, const unsigned char *s, size_t n)
{
    return tell_text(user, NP_JSON_STRING, s, n);
}

static int on_key(void *user, const unsigned char *s, size_t n)
{
    return tell_text(user, NP_JSON_KEY, s, n);
}

static int on_object(void *user)
{
    return open_container(user, NP_JSON_OBJECT);
}

static int on_array(void *user)
{
    return open_container(user, NP_JSON_ARRAY);
}

static int on_end(void *user)
{
    parser *p = user;
    np_json_event e = {.kind = NP_JSON_END};
    p->depth--;
    return tell(p, &e);
}

/* ---- reading -------------------------------------------------------------------------------- */

static uint64_t line_of(np_bytes text, uint64_t at)
{
    uint64_t line = 1;
    for (uint64_t i = 0; i < at; i++)
        line += text.p[i] == '\n';
    return line;
}

/* The first line of YAJL's words, without its "parse error: ". */
static void fail_with_its_words(parser *p)
{
    const char *words = (const char *)yajl_get_error(p->handle, 0, NULL, 0);
    const char *colon = strstr(words, ": ");
    words = colon ? colon + 2 : words;
    p->status = np_fail(p->ctx, NEAP_EFORMAT, "%.*s", (int)strcspn(words, "\n"), words);
}

/* Everything that may jump. */
static void run(parser *p)
{
    static const yajl_callbacks callbacks = {.yajl_null = on_null,
                                             .yajl_boolean = on_bool,
                                             .yajl_number = on_number,
                                             .yajl_string = on_string,
                                             .yajl_start_map = on_object,
                                             .yajl_map_key = on_key,
                                             .yajl_end_map = on_end,
                                             .yajl_start_array = on_array,
                                             .yajl_end_array = on_end};
    yajl_alloc_funcs memory = {
        .malloc = give, .realloc = give_more, .free = take_back, .ctx = p};
    p->handle = yajl_alloc(&callbacks, &memory, p);
    yajl_config(p->handle, yajl_allow_trailing_garbage, p->from > 0);
    yajl_status status = yajl_parse(p->handle, p->text.p + p->from, p->text.n - p->from);
    uint64_t at = place(p);
    if (status == yajl_status_ok) {
        status = yajl_complete_parse(p->handle);
        at = p->text.n;
    }
    if (status == yajl_status_error)
        fail_with_its_words(p);
    if (p->status != NEAP_OK && p->status != NEAP_ENOMEM)
        np_fail_prefix(p->ctx, "line %llu, byte %llu", (unsigned long long)line_of(p->text, at),
                       (unsigned long long)at);
}

/* Not in the function that has `p` as a local: its values must survive the jump. */
static void run_guarded(parser *p)
{
    if (setjmp(p->no_memory) == 0)
        run(p);
    else
        p->status = NEAP_ENOMEM;
    while (p->blocks)
        take_back(p, p->blocks + 1);
}

neap_status np_json_read(neap_context *ctx, np_bytes text, uint64_t from, np_json_visit visit,
                         void *user)
{
    if (text.n > TEXT_LIMIT)
        return np_fail(ctx, NEAP_ELIMIT, "%llu bytes of JSON, the limit is %llu",
                       (unsigned long long)text.n, (unsigned long long)TEXT_LIMIT);
    if (text.n == 0)
        return np_fail(ctx, NEAP_EFORMAT, "an empty file is no JSON");
    parser p = {.ctx = ctx, .text = text, .from = from, .visit = visit, .user = user};
    run_guarded(&p);
    return p.status;
}

bool np_json_integer(np_bytes number, int64_t *out)
{
    uint64_t i = 0, magnitude = 0;
    bool negative = number.n && number.p[0] == '-';
    for (i = negative; i < number.n; i++) {
        if (number.p[i] < '0' || number.p[i] > '9' || magnitude > (uint64_t)INT64_MAX / 10 - 1)
            return false;
        magnitude = magnitude * 10 + (number.p[i] - '0');
    }
    *out = negative ? -(int64_t)magnitude : (int64_t)magnitude;
    return i > negative;
}
