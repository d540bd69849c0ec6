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
    int32_t id;         /* NONE: there is no token */
    int32_t prev, next; /* NONE at the ends */
    uint32_t at, n;     /* its bytes in the word */
    bool gone;          /* merged away */
} symbol;

typedef struct encoder {
    neap_context *ctx;
    const neap_tokenizer *t;
    np_parts *words;
    neap_ids *out;
    np_bytes word;
    symbol *symbols;
    int32_t n_symbols;
    uint64_t *heap; /* rank << 32 | place of the left symbol; least first */
    size_t n_heap, symbol_capacity, heap_capacity;
    bool ends; /* what stands round a text is put there */
    neap_text normal, letters; /* a stretch of the text in its normal form; one subword */
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

static np_bytes text_of(const encoder *e, const symbol *left, const symbol *right)
{
    return (np_bytes){e->word.p + left->at, left->n + right->n};
}

/* Scores as numbers whose order is the other way round: the best is the least. */
static uint32_t score_rank(const neap_tokenizer *t, int32_t id)
{
    float score = t->score ? t->score[id] : 0;
    uint32_t bits;
    if (score == 0)
        score = 0; /* no negative zero */
    memcpy(&bits, &score, sizeof bits);
    return bits & 0x80000000 ? bits : 0x7FFFFFFF - bits;
}

/* What the pair that begins there would become, and how early; false: nothing. */
static bool pair_at(const encoder *e, int32_t left, int32_t *merged, uint32_t *rank)
{
    const symbol *s = &e->symbols[left];
    if (s->next == NONE)
        return false;
    const symbol *right = &e->symbols[s->next];
    if (e->t->rules.merging == NP_MERGE_SCORES) {
        *merged = np_tokenizer_find_piece(e->t, text_of(e, s, right));
        *rank = *merged == NONE ? 0 : score_rank(e->t, *merged);
    } else {
        int32_t merge = np_merge_rank(e->t, s->id, right->id);
        *merged = merge == NONE ? NONE : e->t->merge[merge].merged;
        *rank = (uint32_t)merge;
    }
    return *merged != NONE;
}

static bool offer(encoder *e, int32_t left)
{
    int32_t merged;
    uint32_t rank;
    return left == NONE || !pair_at(e, left, &merged, &rank) ||
           heap_push(e, (uint64_t)rank << 32 | (uint32_t)left);
}

static bool have_tokens(const encoder *e, np_bytes text)
{
    for (uint64_t i = 0; i < text.n; i++)
        if (e->t->byte_id[text.p[i]] == NONE)
            return false;
    return true;
}

static void add_symbol(encoder *e, int32_t *count, int32_t id, uint64_t at, uint64_t n)
{
    e->symbols[(*count)++] = (symbol){.id = id, .at = (uint32_t)at, .n = (uint32_t)n};
}

/* A character as the model's vocabulary has it, with what stands before or behind it there. */
static bool subword(encoder *e, np_bytes character, bool first, bool last, np_bytes *out)
{
    const np_subword *prefix = &e->t->rules.prefix, *suffix = &e->t->rules.suffix;
    *out = character;
    if ((first || !prefix->n) && (!last || !suffix->n))
        return true;
    e->letters.length = 0;
    if (!np_text_append(e->ctx, &e->letters, prefix->bytes, first ? 0 : prefix->n) ||
        !np_text_append(e->ctx, &e->letters, character.p, character.n) ||
        !np_text_append(e->ctx, &e->letters, suffix->bytes, last ? suffix->n : 0))
        return false;
    *out = (np_bytes){(const uint8_t *)e->letters.data, e->letters.length};
    return true;
}

/* As Hugging Face's BPE starts: an unknown token waits for what follows, to be one with it. */
static bool model_symbols(encoder *e, int32_t *count)
{
    const np_text_rules *r = &e->t->rules;
    np_bytes word = e->word;
    int32_t waiting = 0;
    size_t n = 1;
    *count = 0;
    for (uint64_t at = 0; at < word.n; at += n) {
        np_bytes text = {word.p + at, 1};
        int32_t id;
        if (r->characters) {
            np_utf8_next(word.p + at, word.n - at, &n);
            if (!subword(e, (np_bytes){word.p + at, n}, at == 0, at + n == word.n, &text))
                return false;
            id = np_tokenizer_find_piece(e->t, text);
        } else {
            id = e->t->byte_id[word.p[at]];
        }
        if (id == NONE && r->byte_tokens && have_tokens(e, text)) {
            for (uint64_t i = 0; i < text.n; i++)
                add_symbol(e, count, e->t->byte_id[text.p[i]], at, 0);
            continue;
        }
        if (waiting && (id != NONE || !r->fuse_unknown)) {
            add_symbol(e, count, e->t->unk, at, 0);
            waiting = 0;
        }
        if (id != NONE)
            add_symbol(e, count, id, at, n);
        else
            waiting = e->t->unk != NONE;
    }
    if (waiting)
        add_symbol(e, count, e->t->unk, word.n, 0);
    return true;
}

/* By the first byte alone, as llama.cpp cuts characters. */
static size_t character_bytes(uint8_t first)
{
    return first < 0xC0 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
}

/* The symbols that a word starts from: its bytes, or its characters. */
static bool first_symbols(encoder *e, int32_t *count)
{
    np_bytes word = e->word;
    *count = 0;
    if (e->t->rules.merging == NP_MERGE_MODEL)
        return model_symbols(e, count);
    if (!e->t->rules.characters) {
        for (uint64_t at = 0; at < word.n; at++)
            add_symbol(e, count, e->t->byte_id[word.p[at]], at, 1);
        return true;
    }
    uint64_t n;
    for (uint64_t at = 0; at < word.n; at += n) {
        n = character_bytes(word.p[at]);
        n = n < word.n - at ? n : word.n - at;
        add_symbol(e, count, np_tokenizer_find_piece(e->t, (np_bytes){word.p + at, n}), at, n);
    }
    return true;
}

/* Room for a symbol a byte of each character and of what stands round it in the vocabulary. */
static bool room_for_symbols(encoder *e)
{
    const np_text_rules *r = &e->t->rules;
    size_t per_byte = 1 + (r->byte_tokens ? r->prefix.n : 0);
    return np_grow(e->ctx, NEAP_MEM_HOST, &e->symbols, &e->symbol_capacity,
                   e->word.n * per_byte + r->suffix.n + 1, sizeof *e->symbols);
}

static bool merge_word(encoder *e)
{
    int32_t n, merged;
    uint32_t rank;
    if (!room_for_symbols(e) || !first_symbols(e, &n))
        return false;
    for (int32_t i = 0; i < n; i++) {
        e->symbols[i].prev = i - 1;
        e->symbols[i].next = i + 1 < n ? i + 1 : NONE;
    }
    e->n_symbols = n;
    e->n_heap = 0;
    for (int32_t i = 0; i + 1 < n; i++)
        if (!offer(e, i))
            return false;
    for (uint32_t i = 1; e->n_heap; i++) {
        if (i % 4096 == 0 && np_interrupted(e->ctx))
            return false;
        uint64_t least = heap_pop(e);
        int32_t left = (int32_t)(uint32_t)least;
        symbol *s = &e->symbols[left];
        if (s->gone || !pair_at(e, left, &merged, &rank) || rank != (uint32_t)(least >> 32))
            continue;
        symbol *right = &e->symbols[s->next];
        right->gone = true;
        s->id = merged;
        s->n += right->n;
        s->next = right->next;
        if (s->next != NONE)
            e->symbols[s->next].prev = left;
        if (!offer(e, s->prev) || !offer(e, left))
            return false;
    }
    return true;
}

/* A symbol without a token: its bytes, if it has any, or the unknown token. */
static bool put_unknown(encoder *e, const symbol *s, bool fused)
{
    np_bytes text = {e->word.p + s->at, s->n};
    if (e->t->rules.byte_tokens && have_tokens(e, text)) {
        for (uint64_t i = 0; i < text.n; i++)
            if (!put(e, e->t->byte_id[text.p[i]]))
                return false;
        return true;
    }
    return e->t->unk == NONE || fused || put(e, e->t->unk);
}

static bool encode_word(encoder *e, np_bytes word)
{
    int32_t whole = NONE;
    if (e->t->rules.ignore_merges)
        whole = e->t->rules.characters ? np_tokenizer_find_piece(e->t, word)
                                       : np_tokenizer_find_word(e->t, word);
    if (whole != NONE)
        return put(e, whole);
    e->word = word;
    if (!merge_word(e))
        return false;
    bool unknown = false;
    for (int32_t i = 0; i != NONE && i < e->n_symbols; i = e->symbols[i].next) {
        const symbol *s = &e->symbols[i];
        bool fused = unknown && e->t->rules.fuse_unknown;
        unknown = s->id == NONE;
        if (unknown ? !put_unknown(e, s, fused) : !put(e, s->id))
            return false;
    }
    return true;
}

static neap_status encode_words(encoder *e, np_bytes text, bool first)
{
    np_parts_start(e->words, text, first);
    for (;;) {
        np_bytes word;
        bool word_first;
        neap_status status = np_parts_next(e->words, &word, &word_first);
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
    bool skip;      /* what control tokens match is passed over */
    bool done;
} finder;

/* Does the token that was found there stand as its flags ask? */
static bool stands(const finder *f, int32_t id, uint64_t begin, uint64_t end)
{
    if (f->skip && np_token_type_of(f->t, id) != NP_TOKEN_USER_DEFINED)
        return false;
    np_bytes before = {f->text.p, begin}, behind = {f->text.p + end, f->text.n - end};
    return !(f->t->type[id] & NP_TOKEN_WORD) ||
           (!np_ends_in_word(before) && !np_starts_in_word(behind));
}

/* The next stretch without tokens, perhaps empty, and the token behind it: NONE at the end. false:
 * that was given already. */
static bool find_next(finder *f, np_bytes *stretch, int32_t *id)
{
    const neap_tokenizer *t = f->t;
    const uint8_t *p = f->text.p;
    while (f->at < f->text.n) {
        if (f->at % 65536 == 65535 && np_interrupted(f->ctx))
            return false; /* who asks looks himself */
        const np_found *found =
            t->special_start[p[f->at]]
                ? np_tokenizer_match_special(t, (np_bytes){p + f->at, f->text.n - f->at}, f->which)
                : NULL;
        uint64_t begin = f->at, end = f->at + (found ? found->n : 1);
        f->at = end;
        if (!found || !stands(f, found->id, begin, end))
            continue;
        *id = found->id;
        if (t->type[*id] & NP_TOKEN_LSTRIP)
            begin = begin > f->start ? np_before_spaces(f->text, f->start, begin) : f->start;
        if (t->type[*id] & NP_TOKEN_RSTRIP)
            end = np_behind_spaces(f->text, end);
        if (begin >= end) /* it lies in the spaces that the last one took */
            continue;
        *stretch = (np_bytes){p + f->start, begin > f->start ? begin - f->start : 0};
        f->start = end;
        return true;
    }
    if (f->done)
        return false;
    f->done = true;
    *id = NONE;
    *stretch = (np_bytes){p + f->start, f->text.n - f->start};
    return true;
}

/* ---- the text ------------------------------------------------------------------------------- */

static finder find_in(const encoder *e, np_bytes text, unsigned which, unsigned flags)
{
    bool plain = (flags & NEAP_ENCODE_PLAIN) != 0, skip = plain && e->t->rules.skip_found;
    return (finder){.ctx = e->ctx,
                    .t = e->t,
                    .text = text,
                    .which = which | (plain && !skip ? 0 : NP_FIND_CONTROL),
                    .skip = skip};
}

/* A stretch between the tokens that are found in the text as it is. */
static neap_status encode_raw(encoder *e, np_bytes text, unsigned flags, bool first)
{
    if (e->t->rules.n_normal && text.n) {
        e->normal.length = 0;
        neap_status status = np_normalize(e->ctx, e->t, text, &first, &e->normal);
        if (status != NEAP_OK)
            return status;
        text = (np_bytes){(const uint8_t *)e->normal.data, e->normal.length};
    }
    if (!e->t->late)
        return encode_words(e, text, first);
    finder f = find_in(e, text, NP_FIND_LATE, flags);
    np_bytes stretch;
    int32_t id;
    while (find_next(&f, &stretch, &id)) {
        neap_status status = encode_words(e, stretch, first && stretch.p == text.p);
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

/* Of the ids from `start` on, as many as there is room for. */
static void cut_short(encoder *e, size_t start)
{
    const np_text_rules *r = &e->t->rules;
    const np_cutoff *c = &r->truncation;
    size_t added = e->ends ? (size_t)(r->n_before + r->n_after) : 0, n = e->out->count - start;
    if (!c->set)
        return;
    size_t room = c->length - added;
    if (n <= room)
        return;
    if (c->left)
        memmove(e->out->data + start, e->out->data + start + (n - room),
                room * sizeof *e->out->data);
    e->out->count = start + room;
}

static bool pad(encoder *e, size_t start)
{
    const np_cutoff *c = &e->t->rules.padding;
    size_t n = e->out->count - start, want = c->length ? c->length : n;
    if (!c->set)
        return true;
    if (c->multiple && want % c->multiple)
        want += c->multiple - want % c->multiple;
    size_t more = want > n ? want - n : 0;
    for (size_t i = 0; i < more; i++)
        if (!put(e, c->pad_id))
            return false;
    if (c->left && more) {
        int32_t *ids = e->out->data + start;
        memmove(ids + more, ids, n * sizeof *ids);
        for (size_t i = 0; i < more; i++)
            ids[i] = c->pad_id;
    }
    return true;
}

static neap_status encode_all(encoder *e, np_bytes text, unsigned flags)
{
    const np_text_rules *rules = &e->t->rules;
    size_t start = e->out->count;
    e->ends = !(flags & NEAP_ENCODE_NO_BOS);
    neap_status status = np_parts_new(e->ctx, e->t->pretokenizer, &e->words);
    if (status != NEAP_OK)
        return status;
    if (e->ends && !put_all(e, rules->before, rules->n_before))
        return NEAP_ENOMEM;
    size_t own = e->out->count;
    finder f = find_in(e, text, NP_FIND_EARLY, flags);
    np_bytes stretch;
    int32_t id;
    while (find_next(&f, &stretch, &id)) {
        status = encode_raw(e, stretch, flags, stretch.p == text.p);
        if (status != NEAP_OK)
            return status;
        if (id != NONE && !put(e, id))
            return NEAP_ENOMEM;
    }
    if (np_check(e->ctx) != NEAP_OK)
        return NEAP_ECANCELLED;
    cut_short(e, own);
    bool good = !e->ends || put_all(e, rules->after, rules->n_after);
    return good && pad(e, start) ? NEAP_OK : NEAP_ENOMEM;
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
    np_parts_free(e.words);
    np_free(ctx, NEAP_MEM_HOST, e.symbols, e.symbol_capacity * sizeof *e.symbols);
    np_free(ctx, NEAP_MEM_HOST, e.heap, e.heap_capacity * sizeof *e.heap);
    neap_text_free(ctx, &e.normal);
    neap_text_free(ctx, &e.letters);
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
