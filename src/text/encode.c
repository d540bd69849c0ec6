/* encode.c - text to ids: special tokens, words, byte-pair merges.
 *
 * Merges are applied by rank, the leftmost first among equals. A heap of candidate pairs keeps a
 * long word at O(n log n); a candidate is stale, and skipped, if its pair no longer has its rank.
 */
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

static bool merge_word(encoder *e, np_bytes word)
{
    if (!np_grow(e->ctx, NEAP_MEM_HOST, &e->symbols, &e->symbol_capacity, word.n,
                 sizeof *e->symbols))
        return false;
    int32_t n = (int32_t)word.n;
    for (int32_t i = 0; i < n; i++)
        e->symbols[i] = (symbol){e->t->byte_id[word.p[i]], i - 1, i + 1 < n ? i + 1 : NONE};
    e->n_heap = 0;
    for (int32_t i = 0; i + 1 < n; i++)
        if (!offer(e, i))
            return false;
    while (e->n_heap) {
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
    int32_t whole = e->t->kind->ignore_merges ? np_tokenizer_find_word(e->t, word) : NONE;
    if (whole != NONE)
        return put(e, whole);
    if (!merge_word(e, word))
        return false;
    for (int32_t i = 0; i != NONE; i = e->symbols[i].next) {
        int32_t id = e->symbols[i].id == NONE ? e->t->unk : e->symbols[i].id;
        if (id != NONE && !put(e, id))
            return false;
    }
    return true;
}

static neap_status encode_text(encoder *e, np_bytes text)
{
    np_words_start(e->words, text);
    for (;;) {
        np_bytes word;
        neap_status status = np_words_next(e->words, &word);
        if (status != NEAP_OK || word.n == 0)
            return status;
        if (!encode_word(e, word))
            return NEAP_ENOMEM;
    }
}

/* ---- the text ------------------------------------------------------------------------------- */

static neap_status encode_all(encoder *e, np_bytes text, unsigned flags)
{
    const neap_tokenizer *t = e->t;
    bool plain = flags & NEAP_ENCODE_PLAIN, ends = !(flags & NEAP_ENCODE_NO_BOS);
    neap_status status = np_words_new(e->ctx, t->pretokenizer, &e->words);
    if (status != NEAP_OK)
        return status;
    if (ends && t->add_bos && !put(e, t->bos))
        return NEAP_ENOMEM;
    uint64_t start = 0;
    for (uint64_t i = 0; i < text.n;) {
        int32_t id = t->special_start[text.p[i]]
                         ? np_tokenizer_match_special(t, (np_bytes){text.p + i, text.n - i}, plain)
                         : NONE;
        if (id == NONE) {
            i++;
            continue;
        }
        status = encode_text(e, (np_bytes){text.p + start, i - start});
        if (status != NEAP_OK)
            return status;
        if (!put(e, id))
            return NEAP_ENOMEM;
        i += t->length[id];
        start = i;
    }
    status = encode_text(e, (np_bytes){text.p + start, text.n - start});
    if (status == NEAP_OK && ends && t->add_eos && !put(e, t->eos))
        return NEAP_ENOMEM;
    return status;
}

neap_status neap_tokenizer_encode(neap_context *ctx, const neap_tokenizer *tokenizer,
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
    if (status != NEAP_OK)
        ids->count = count;
    return status;
}

void neap_ids_free(neap_context *ctx, neap_ids *ids)
{
    np_free(ctx, NEAP_MEM_HOST, ids->data, ids->capacity * sizeof *ids->data);
    *ids = (neap_ids){NULL, 0, 0};
}
