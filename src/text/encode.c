/* encode.c - text to ids: special tokens, normal form, words, byte-pair merges.
 *
 * Merges are applied by rank, the leftmost first among equals. A heap of candidate pairs keeps a
 * long word at O(n log n); a candidate is stale, and skipped, if its pair no longer has its rank.
 */
#include "base/interrupt.h"
#include "base/utf8.h"
#include "text/tokenizer.h"

enum { NONE = -1 };
static const size_t TEXT_LIMIT = (size_t)1 << 30;

typedef struct symbol {
    int32_t id;         /* NONE: a byte without a token, or merged away (then size 0) */
    int32_t prev, next; /* NONE at the ends */
} symbol;

typedef struct encoder {
    neap_context *ctx;
    const neap_tokenizer *t;
    np_words *words;
    neap_ids *out;
    symbol *symbols;
    uint64_t *heap; /* rank << 32 | place of the left symbol; least first */
    size_t n_heap, symbol_capacity, heap_capacity;
    neap_text normal, spaced; /* a stretch of the text in its normal form, with a space in front */
} encoder;

/* ---- heap ----------------------------------------------------------------------------------- */

static bool heap_push(encoder *e, uint64_t value)
{
    if (!np_grow(e->ctx, NEAP_MEM_HOST, &e->heap, &e->heap_capacity, e->n_heap + 1,
                 sizeof *e->heap))
        return false;
    size_t i = e->n_heap++;
    while (i > 0 && e->heap[(i - 1) / 2] > value) {
        e->heap[i] = e->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    e->heap[i] = value;
    return true;
}

static uint64_t heap_pop(encoder *e)
{
    uint64_t least = e->heap[0], value = e->heap[--e->n_heap];
    size_t i = 0;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= e->n_heap)
            break;
        if (child + 1 < e->n_heap && e->heap[child + 1] < e->heap[child])
            child++;
        if (e->heap[child] >= value)
            break;
        e->heap[i] = e->heap[child];
        i = child;
    }
    e->heap[i] = value;
    return least;
}

/* ---- one word ------------------------------------------------------------------------------- */

static bool put(encoder *e, int32_t id)
{
    if (!np_grow(e->ctx, NEAP_MEM_HOST, &e->out->data, &e->out->capacity, e->out->count + 1,
                 sizeof *e->out->data))
        return false;
    e->out->data[e->out->count++] = id;
    return true;
}

static int32_t rank_at(const encoder *e, int32_t left)
{
    int32_t right = e->symbols[left].next;
    return right == NONE ? NONE : np_merge_rank(e->t, e->symbols[left].id, e->symbols[right].id);
}

static bool offer(encoder *e, int32_t left)
{
    int32_t rank = left == NONE ? NONE : rank_at(e, left);
    return rank == NONE || heap_push(e, (uint64_t)rank << 32 | (uint32_t)left);
}

static bool have_tokens(const encoder *e, const uint8_t *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (e->t->byte_id[bytes[i]] == NONE)
            return false;
    return true;
}

/* The ids that a word starts from: of its bytes, or of its characters; a character without a token
 * is its bytes, or one unknown. Returns how many; there is room for one a byte. */
static int32_t first_ids(encoder *e, np_bytes word)
{
    int32_t count = 0;
    size_t n = 1;
    for (uint64_t at = 0; at < word.n; at += n) {
        const uint8_t *p = word.p + at;
        if (e->t->rules.characters) {
            np_utf8_next(p, word.n - at, &n);
            e->symbols[count].id = np_tokenizer_find_piece(e->t, (np_bytes){p, n});
            if (e->symbols[count].id != NONE || !have_tokens(e, p, n)) {
                count++;
                continue;
            }
        }
        for (size_t i = 0; i < n; i++)
            e->symbols[count++].id = e->t->byte_id[p[i]];
    }
    return count;
}

static bool merge_word(encoder *e, np_bytes word)
{
    if (!np_grow(e->ctx, NEAP_MEM_HOST, &e->symbols, &e->symbol_capacity, word.n,
                 sizeof *e->symbols))
        return false;
    int32_t n = first_ids(e, word);
    for (int32_t i = 0; i < n; i++) {
        e->symbols[i].prev = i - 1;
        e->symbols[i].next = i + 1 < n ? i + 1 : NONE;
    }
    e->n_heap = 0;
    for (int32_t i = 0; i + 1 < n; i++)
        if (!offer(e, i))
            return false;
    for (uint32_t i = 1; e->n_heap; i++) {
        if (i % 4096 == 0 && np_interrupted(e->ctx))
            return false;
        uint64_t least = heap_pop(e);
        int32_t rank = (int32_t)(least >> 32), left = (int32_t)(uint32_t)least;
        symbol *s = &e->symbols[left];
        const np_merge *m = &e->t->merge[rank];
        if (s->id != m->left || s->next == NONE || e->symbols[s->next].id != m->right)
            continue;
        symbol *right = &e->symbols[s->next];
        right->id = NONE;
        s->id = m->merged;
        s->next = right->next;
        if (s->next != NONE)
            e->symbols[s->next].prev = left;
        if (!offer(e, s->prev) || !offer(e, left))
            return false;
    }
    return true;
}

static bool encode_word(encoder *e, np_bytes word)
{
    int32_t whole = NONE;
    if (e->t->rules.ignore_merges)
        whole = e->t->rules.characters ? np_tokenizer_find_piece(e->t, word)
                                       : np_tokenizer_find_word(e->t, word);
    if (whole != NONE)
        return put(e, whole);
    if (!merge_word(e, word))
        return false;
    bool unknown = false;
    for (int32_t i = 0; i != NONE; i = e->symbols[i].next) {
        bool fused = unknown && e->t->rules.fuse_unknown;
        unknown = e->symbols[i].id == NONE;
        int32_t id = unknown ? e->t->unk : e->symbols[i].id;
        if (id != NONE && !(fused && unknown) && !put(e, id))
            return false;
    }
    return true;
}

static neap_status encode_words(encoder *e, np_bytes text)
{
    np_words_start(e->words, text);
    for (;;) {
        np_bytes word;
        neap_status status = np_words_next(e->words, &word);
        if (status != NEAP_OK || word.n == 0)
            return status;
        if (np_check(e->ctx) != NEAP_OK)
            return NEAP_ECANCELLED;
        if (!encode_word(e, word))
            return np_check(e->ctx) != NEAP_OK ? NEAP_ECANCELLED : NEAP_ENOMEM;
    }
}

/* ---- tokens in the text --------------------------------------------------------------------- */

typedef struct finder {
    const neap_context *ctx;
    const neap_tokenizer *t;
    np_bytes text;
    uint64_t at;    /* looked at until here */
    uint64_t start; /* of the stretch that belongs to no token */
    unsigned which; /* NP_FIND_* */
    bool done;
} finder;

/* The length of the white space character there, or 0. */
static size_t space_at(np_bytes text, uint64_t at)
{
    size_t n;
    if (np_utf8_next(text.p + at, text.n - at, &n) != NP_UTF8_CHAR)
        return 0;
    return np_is_white_space(np_utf8_decode(text.p + at, n)) ? n : 0;
}

/* Where the white space that ends at `end` begins, not before `low`. */
static uint64_t before_spaces(np_bytes text, uint64_t low, uint64_t end)
{
    for (;;) {
        uint64_t at = end;
        while (at > low && (at == end || (text.p[at] & 0xC0) == 0x80))
            at--;
        if (at == end || space_at((np_bytes){text.p, end}, at) != end - at)
            return end;
        end = at;
    }
}

static uint64_t behind_spaces(np_bytes text, uint64_t at)
{
    size_t n;
    while (at < text.n && (n = space_at(text, at)) > 0)
        at += n;
    return at;
}

/* The next stretch without tokens, perhaps empty, and the token behind it: NONE at the end. false:
 * that was given already. */
static bool find_next(finder *f, np_bytes *stretch, int32_t *id)
{
    const neap_tokenizer *t = f->t;
    for (const uint8_t *p = f->text.p; f->at < f->text.n; f->at++) {
        if (f->at % 65536 == 65535 && np_interrupted(f->ctx))
            return false; /* who asks looks himself */
        *id = t->special_start[p[f->at]]
                  ? np_tokenizer_match_special(t, (np_bytes){p + f->at, f->text.n - f->at}, f->which)
                  : NONE;
        if (*id == NONE)
            continue;
        uint64_t begin = f->at, end = f->at + t->length[*id];
        f->at = end;
        if (t->type[*id] & NP_TOKEN_LSTRIP && begin > f->start)
            begin = before_spaces(f->text, f->start, begin);
        if (t->type[*id] & NP_TOKEN_RSTRIP)
            end = behind_spaces(f->text, end);
        *stretch = (np_bytes){p + f->start, begin > f->start ? begin - f->start : 0};
        f->start = end;
        return true;
    }
    if (f->done)
        return false;
    f->done = true;
    *id = NONE;
    *stretch = (np_bytes){f->text.p + f->start, f->text.n - f->start};
    return true;
}

/* ---- the text ------------------------------------------------------------------------------- */

static const char MARK[3] = "\xE2\x96\x81"; /* U+2581, which stands for a space */

static bool append_marked(encoder *e, np_bytes text)
{
    while (text.n) {
        const uint8_t *space = memchr(text.p, ' ', text.n);
        size_t n = space ? (size_t)(space - text.p) : text.n;
        if (!np_text_append(e->ctx, &e->spaced, text.p, n) ||
            (space && !np_text_append(e->ctx, &e->spaced, MARK, sizeof MARK)))
            return false;
        n += space != NULL;
        text.p += n;
        text.n -= n;
    }
    return true;
}

/* A stretch without any tokens, in its normal form; `first`: the whole text starts with it. */
static neap_status encode_stretch(encoder *e, np_bytes text, bool first)
{
    const np_text_rules *r = &e->t->rules;
    if (text.n == 0)
        return NEAP_OK;
    bool has = *text.p == ' ' || (r->characters && text.n >= sizeof MARK &&
                                  memcmp(text.p, MARK, sizeof MARK) == 0);
    bool lead = r->lead == NP_LEAD_ALWAYS || (r->lead == NP_LEAD_MISSING && !has) ||
                (r->lead == NP_LEAD_FIRST && first && !has);
    if (!lead && !r->characters)
        return encode_words(e, text);
    e->spaced.length = 0;
    if (lead && !np_text_append(e->ctx, &e->spaced, r->characters ? MARK : " ",
                                r->characters ? sizeof MARK : 1))
        return NEAP_ENOMEM;
    if (r->characters ? !append_marked(e, text)
                      : !np_text_append(e->ctx, &e->spaced, text.p, text.n))
        return NEAP_ENOMEM;
    return encode_words(e, (np_bytes){(const uint8_t *)e->spaced.data, e->spaced.length});
}

/* A stretch between the tokens that are found in the text as it is. */
static neap_status encode_raw(encoder *e, np_bytes text, unsigned control, bool first)
{
    const np_normal_form form = e->t->rules.form;
    if (form != NP_FORM_NONE && text.n) {
        e->normal.length = 0;
        neap_status status = np_normalize(e->ctx, form, text, &e->normal);
        if (status != NEAP_OK)
            return status;
        text = (np_bytes){(const uint8_t *)e->normal.data, e->normal.length};
    }
    if (!e->t->late)
        return encode_stretch(e, text, first);
    finder f = {.ctx = e->ctx, .t = e->t, .text = text, .which = NP_FIND_LATE | control};
    np_bytes stretch;
    int32_t id;
    while (find_next(&f, &stretch, &id)) {
        neap_status status = encode_stretch(e, stretch, first && stretch.p == text.p);
        if (status != NEAP_OK)
            return status;
        if (id != NONE && !put(e, id))
            return NEAP_ENOMEM;
    }
    return np_check(e->ctx);
}

static bool put_all(encoder *e, const int32_t *ids, int n)
{
    for (int i = 0; i < n; i++)
        if (!put(e, ids[i]))
            return false;
    return true;
}

static neap_status encode_all(encoder *e, np_bytes text, unsigned flags)
{
    const np_text_rules *rules = &e->t->rules;
    unsigned control = flags & NEAP_ENCODE_PLAIN ? 0 : NP_FIND_CONTROL;
    bool ends = !(flags & NEAP_ENCODE_NO_BOS);
    neap_status status = np_words_new(e->ctx, e->t->pretokenizer, &e->words);
    if (status != NEAP_OK)
        return status;
    if (ends && !put_all(e, rules->before, rules->n_before))
        return NEAP_ENOMEM;
    finder f = {.ctx = e->ctx, .t = e->t, .text = text, .which = NP_FIND_EARLY | control};
    np_bytes stretch;
    int32_t id;
    while (find_next(&f, &stretch, &id)) {
        status = encode_raw(e, stretch, control, stretch.p == text.p);
        if (status != NEAP_OK)
            return status;
        if (id != NONE && !put(e, id))
            return NEAP_ENOMEM;
    }
    if (np_check(e->ctx) != NEAP_OK)
        return NEAP_ECANCELLED;
    return ends && !put_all(e, rules->after, rules->n_after) ? NEAP_ENOMEM : NEAP_OK;
}

static neap_status tokenizer_encode(neap_context *ctx, const neap_tokenizer *tokenizer,
                                  const char *text, size_t length, unsigned flags, neap_ids *ids)
{
    if (flags & ~(unsigned)(NEAP_ENCODE_PLAIN | NEAP_ENCODE_NO_BOS))
        return np_fail(ctx, NEAP_EINVAL, "encode: unknown flags 0x%x", flags);
    if (length > TEXT_LIMIT)
        return np_fail(ctx, NEAP_ELIMIT, "encode: a text of %zu bytes, the limit is %zu", length,
                       TEXT_LIMIT);
    encoder e = {.ctx = ctx, .t = tokenizer, .out = ids};
    size_t count = ids->count;
    np_bytes bytes = {(const uint8_t *)(length ? text : ""), length};
    neap_status status = encode_all(&e, bytes, flags);
    np_words_free(e.words);
    np_free(ctx, NEAP_MEM_HOST, e.symbols, e.symbol_capacity * sizeof *e.symbols);
    np_free(ctx, NEAP_MEM_HOST, e.heap, e.heap_capacity * sizeof *e.heap);
    neap_text_free(ctx, &e.normal);
    neap_text_free(ctx, &e.spaced);
    if (status != NEAP_OK)
        ids->count = count;
    return status;
}

neap_status neap_tokenizer_encode(neap_context *ctx, const neap_tokenizer *tokenizer,
                                  const char *text, size_t length, unsigned flags, neap_ids *ids)
{
    return NP_CALL(ctx, tokenizer && ids && (text || length == 0), tokenizer_encode(ctx, tokenizer, text, length, flags, ids));
}

void neap_ids_free(neap_context *ctx, neap_ids *ids)
{
    np_free(ctx, NEAP_MEM_HOST, ids->data, ids->capacity * sizeof *ids->data);
    *ids = (neap_ids){NULL, 0, 0};
}
