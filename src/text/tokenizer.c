/* tokenizer.c - builds a tokenizer's tables from a vocabulary and answers look-ups.
 *
 * The vocabulary is untrusted: every id, length and reference is checked here, so that encoding and
 * decoding need not. */
#include "text/tokenizer.h"

#include <stdio.h>

#include "base/heap_sort.h"
#include "base/interrupt.h"
#include "base/utf8.h"
#include "text/pretokenize.h"

/* ---- the byte-level alphabet ---------------------------------------------------------------- */

static bool is_itself(uint32_t code)
{
    return (code >= 33 && code <= 126) || (code >= 161 && code <= 255 && code != 173);
}

/* The other 68 bytes, in order, are U+0100 .. U+0143: 0-32, 127-160, 173. */
uint32_t np_byte_to_alphabet(uint8_t byte)
{
    if (is_itself(byte))
        return byte;
    return byte <= 32 ? 256u + byte : byte == 173 ? 323u : 256u + 33u + (byte - 127u);
}

int np_alphabet_to_byte(uint32_t code)
{
    if (code < 256)
        return is_itself(code) ? (int)code : -1;
    if (code <= 288)
        return (int)code - 256;
    if (code <= 322)
        return (int)code - 289 + 127;
    return code == 323 ? 173 : -1;
}

/* ---- tables --------------------------------------------------------------------------------- */

static bool slots_new(neap_context *ctx, np_slots *slots, uint32_t count)
{
    uint32_t capacity = 8;
    while (capacity - capacity / 4 < count)
        capacity *= 2;
    slots->slot = np_calloc(ctx, NEAP_MEM_HOST, capacity * sizeof *slots->slot);
    slots->mask = capacity - 1;
    return slots->slot != NULL;
}

static void slots_free(neap_context *ctx, np_slots *slots)
{
    if (slots->slot)
        np_free(ctx, NEAP_MEM_HOST, slots->slot, (slots->mask + (size_t)1) * sizeof *slots->slot);
    *slots = (np_slots){NULL, 0};
}

static void slots_add(np_slots *slots, uint32_t hash, uint32_t number)
{
    uint32_t i = hash & slots->mask;
    while (slots->slot[i])
        i = (i + 1) & slots->mask;
    slots->slot[i] = (hash & 0xFF000000) | (number + 1);
}

/* The number that is there as `from` becomes `to`. */
static void slots_change(np_slots *slots, uint32_t hash, uint32_t from, uint32_t to)
{
    uint32_t i = hash & slots->mask;
    while ((slots->slot[i] & 0xFFFFFF) != from + 1)
        i = (i + 1) & slots->mask;
    slots->slot[i] = (hash & 0xFF000000) | (to + 1);
}

enum { HASH_START = (int)2166136261u };

static uint32_t hash_byte(uint32_t hash, uint8_t byte)
{
    return (hash ^ byte) * 16777619u;
}

static uint32_t hash_bytes(uint32_t hash, np_bytes bytes)
{
    for (uint64_t i = 0; i < bytes.n; i++)
        hash = hash_byte(hash, bytes.p[i]);
    return hash;
}

static uint32_t hash_end(uint32_t hash)
{
    hash = (hash ^ hash >> 16) * 0x85EBCA6Bu;
    hash = (hash ^ hash >> 13) * 0xC2B2AE35u;
    return hash ^ hash >> 16;
}

static bool is_text_type(np_token_type type)
{
    return type != NP_TOKEN_CONTROL && type != NP_TOKEN_UNKNOWN;
}

/* The id of whichever token has this piece. */
static int32_t find_any(const neap_tokenizer *t, np_bytes first, np_bytes second)
{
    uint32_t hash = hash_end(hash_bytes(hash_bytes((uint32_t)HASH_START, first), second));
    const np_slots *s = &t->piece_slots;
    for (uint32_t i = hash & s->mask; s->slot[i]; i = (i + 1) & s->mask) {
        if ((s->slot[i] ^ hash) >> 24)
            continue;
        int32_t id = (int32_t)(s->slot[i] & 0xFFFFFF) - 1;
        np_bytes piece = np_token_piece(t, id);
        if (piece.n == first.n + second.n && memcmp(piece.p, first.p, first.n) == 0 &&
            memcmp(piece.p + first.n, second.p, second.n) == 0)
            return id;
    }
    return -1;
}

/* Merges may use control tokens too: only what the model's own vocabulary lacks is left out. */
static int32_t find_text(const neap_tokenizer *t, np_bytes first, np_bytes second)
{
    int32_t id = find_any(t, first, second);
    return id >= 0 && !(t->type[id] & NP_TOKEN_OUTSIDE) ? id : -1;
}

int32_t np_tokenizer_find_piece(const neap_tokenizer *t, np_bytes piece)
{
    return find_text(t, piece, (np_bytes){piece.p, 0});
}

/* Is `piece` the word, written in the byte-level alphabet? */
static bool piece_is_word(np_bytes piece, np_bytes word)
{
    uint64_t at = 0;
    for (uint64_t i = 0; i < word.n; i++) {
        uint8_t letter[4];
        size_t n = np_utf8_encode(np_byte_to_alphabet(word.p[i]), letter);
        if (piece.n - at < n || memcmp(piece.p + at, letter, n) != 0)
            return false;
        at += n;
    }
    return at == piece.n;
}

int32_t np_tokenizer_find_word(const neap_tokenizer *t, np_bytes word)
{
    uint32_t hash = (uint32_t)HASH_START;
    for (uint64_t i = 0; i < word.n; i++) {
        uint8_t letter[4];
        size_t n = np_utf8_encode(np_byte_to_alphabet(word.p[i]), letter);
        hash = hash_bytes(hash, (np_bytes){letter, n});
    }
    hash = hash_end(hash);
    const np_slots *s = &t->piece_slots;
    for (uint32_t i = hash & s->mask; s->slot[i]; i = (i + 1) & s->mask) {
        int32_t id = (int32_t)(s->slot[i] & 0xFFFFFF) - 1;
        if (!((s->slot[i] ^ hash) >> 24) && !(t->type[id] & NP_TOKEN_OUTSIDE) &&
            piece_is_word(np_token_piece(t, id), word))
            return id;
    }
    return -1;
}

/* ---- tokens to be found in texts ------------------------------------------------------------ */

static bool found_before(const neap_tokenizer *t, const np_found *a, const np_found *b)
{
    (void)t;
    int c = memcmp(a->p, b->p, a->n < b->n ? a->n : b->n);
    return c ? c < 0 : a->n != b->n ? a->n < b->n : a->id < b->id;
}

NP_HEAP_SORT(sort_found, np_found, const neap_tokenizer *, found_before)

static bool is_found_in_text(const neap_tokenizer *t, int32_t id)
{
    np_token_type type = np_token_type_of(t, id);
    return (!is_text_type(type) || type == NP_TOKEN_USER_DEFINED) && t->length[id] > 0;
}

neap_status np_normalize(neap_context *ctx, const neap_tokenizer *t, np_bytes text, bool *first,
                         neap_text *out)
{
    np_parts *parts;
    neap_status status = np_parts_new(ctx, t->normalizer, &parts);
    if (status != NEAP_OK)
        return status;
    np_parts_start(parts, text, *first);
    for (bool begun = false;; begun = true) {
        np_bytes part;
        bool part_first = false;
        status = np_parts_next(parts, &part, &part_first);
        if (!begun)
            *first = part_first && part.n;
        if (status != NEAP_OK || part.n == 0)
            break;
        if (!np_text_append(ctx, out, part.p, part.n)) {
            status = NEAP_ENOMEM;
            break;
        }
    }
    np_parts_free(parts);
    return status;
}

/* A late token is looked for by what the normalizer makes of it. Its place is an offset for now. */
static neap_status normalize_late(neap_tokenizer *t, np_found *found, size_t *offset)
{
    np_bytes piece = np_token_piece(t, found->id);
    bool first = true;
    *offset = t->late_texts.length;
    neap_status status = np_normalize(t->ctx, t, piece, &first, &t->late_texts);
    found->n = (uint32_t)(t->late_texts.length - *offset);
    if (status == NEAP_OK && found->n == 0)
        status = np_fail(t->ctx, NEAP_EUNSUPPORTED,
                         "added token \"%.*s\": the normalizer leaves nothing of it",
                         piece.n < 64 ? (int)piece.n : 64, (const char *)piece.p);
    return status;
}

static neap_status place_special(neap_tokenizer *t)
{
    size_t bytes = t->n_special * sizeof(size_t);
    size_t *offsets = np_alloc(t->ctx, NEAP_MEM_HOST, bytes);
    neap_status status = offsets ? NEAP_OK : NEAP_ENOMEM;
    for (uint32_t i = 0; i < t->n_special && status == NEAP_OK; i++) {
        np_found *found = &t->special[i];
        np_bytes piece = np_token_piece(t, found->id);
        found->p = piece.p;
        found->n = (uint32_t)piece.n;
        if (t->type[found->id] & NP_TOKEN_LATE)
            status = normalize_late(t, found, &offsets[i]);
        if (status == NEAP_OK && found->n > NP_SPECIAL_MAX_BYTES)
            status = np_fail(t->ctx, NEAP_EUNSUPPORTED,
                             "token %d has %u bytes: tokens that are found in texts have at most %d",
                             found->id, found->n, NP_SPECIAL_MAX_BYTES);
    }
    for (uint32_t i = 0; i < t->n_special && status == NEAP_OK; i++) {
        np_found *found = &t->special[i];
        if (t->type[found->id] & NP_TOKEN_LATE) {
            found->p = (const uint8_t *)t->late_texts.data + offsets[i];
            t->late = true;
        }
        t->special_start[*found->p] = true;
    }
    np_free(t->ctx, NEAP_MEM_HOST, offsets, bytes);
    return status;
}

static neap_status check_twins(const neap_tokenizer *t)
{
    for (uint32_t i = 1; i < t->n_special; i++) {
        const np_found *a = &t->special[i - 1], *b = &t->special[i];
        bool same_time = !((t->type[a->id] ^ t->type[b->id]) & NP_TOKEN_LATE);
        if (same_time && a->n == b->n && memcmp(a->p, b->p, a->n) == 0)
            return np_fail(t->ctx, NEAP_EUNSUPPORTED,
                           "added tokens %d and %d are the same to the normalizer", a->id, b->id);
    }
    return NEAP_OK;
}

static neap_status collect_special(neap_tokenizer *t)
{
    uint32_t n = 0;
    for (uint32_t id = 0; id < t->n_tokens; id++)
        n += is_found_in_text(t, (int32_t)id);
    t->special = np_alloc(t->ctx, NEAP_MEM_HOST, n * sizeof *t->special);
    if (!t->special)
        return NEAP_ENOMEM;
    t->n_special = n;
    n = 0;
    for (uint32_t id = 0; id < t->n_tokens; id++)
        if (is_found_in_text(t, (int32_t)id))
            t->special[n++].id = (int32_t)id;
    neap_status status = place_special(t);
    if (status != NEAP_OK)
        return status;
    sort_found(t, t->special, n);
    return check_twins(t);
}

/* The first of special[lo..hi), all of which agree before `depth`, whose byte there is >= byte. */
static uint32_t lower_bound(const neap_tokenizer *t, uint32_t lo, uint32_t hi, uint32_t depth,
                            unsigned byte)
{
    while (lo < hi) {
        uint32_t middle = lo + (hi - lo) / 2;
        if (t->special[middle].p[depth] < byte)
            lo = middle + 1;
        else
            hi = middle;
    }
    return lo;
}

static bool is_looked_for(const neap_tokenizer *t, int32_t id, unsigned which)
{
    return (which & (t->type[id] & NP_TOKEN_LATE ? NP_FIND_LATE : NP_FIND_EARLY)) &&
           (which & NP_FIND_CONTROL || np_token_type_of(t, id) == NP_TOKEN_USER_DEFINED);
}

const np_found *np_tokenizer_match_special(const neap_tokenizer *t, np_bytes text, unsigned which)
{
    const np_found *best = NULL;
    uint32_t lo = 0, hi = t->n_special;
    for (uint32_t depth = 0; lo < hi; depth++) {
        for (; lo < hi && t->special[lo].n == depth; lo++)
            if (is_looked_for(t, t->special[lo].id, which))
                best = &t->special[lo];
        if (depth == text.n)
            break;
        lo = lower_bound(t, lo, hi, depth, text.p[depth]);
        hi = lower_bound(t, lo, hi, depth, text.p[depth] + 1u);
    }
    return best;
}

/* ---- building ------------------------------------------------------------------------------- */

static bool is_model(const np_vocab *v, const char *name)
{
    return v->model.n == strlen(name) && memcmp(v->model.p, name, v->model.n) == 0;
}

static neap_status check_counts(neap_context *ctx, const np_vocab *v)
{
    if (!is_model(v, "gpt2") && !is_model(v, "llama"))
        return np_fail(ctx, NEAP_EUNSUPPORTED,
                       "tokenizer model \"%.*s\": only \"gpt2\" (byte-level BPE) and \"llama\" "
                       "(sentencepiece's BPE) are known",
                       v->model.n < 64 ? (int)v->model.n : 64, (const char *)v->model.p);
    if (v->n_tokens == 0)
        return np_fail(ctx, NEAP_EFORMAT, "the vocabulary has no tokens");
    if (v->n_tokens > NP_SLOTS_LIMIT || v->n_merges > NP_SLOTS_LIMIT)
        return np_fail(ctx, NEAP_ELIMIT, "%llu tokens and %llu merges: the limit is %d each",
                       (unsigned long long)v->n_tokens, (unsigned long long)v->n_merges,
                       NP_SLOTS_LIMIT);
    if (v->n_types != 0 && v->n_types != v->n_tokens)
        return np_fail(ctx, NEAP_EFORMAT, "%llu token types for %llu tokens",
                       (unsigned long long)v->n_types, (unsigned long long)v->n_tokens);
    if (v->n_scores != 0 && v->n_scores != v->n_tokens)
        return np_fail(ctx, NEAP_EFORMAT, "%llu scores for %llu tokens",
                       (unsigned long long)v->n_scores, (unsigned long long)v->n_tokens);
    const struct {
        const char *name;
        int64_t id;
    } ids[] = {
        {"bos",     v->bos    },
        {"eos",     v->eos    },
        {"eot",     v->eot    },
        {"eom",     v->eom    },
        {"unknown", v->unk    },
        {"fim pad", v->fim_pad},
        {"fim rep", v->fim_rep},
        {"fim sep", v->fim_sep}
    };
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++)
        if (ids[i].id < -1 || ids[i].id >= (int64_t)v->n_tokens)
            return np_fail(ctx, NEAP_EFORMAT, "%s token id %lld: the vocabulary has %llu tokens",
                           ids[i].name, (long long)ids[i].id, (unsigned long long)v->n_tokens);
    return NEAP_OK;
}

static neap_status check_pieces(neap_context *ctx, const np_vocab *v, const uint8_t **base)
{
    const uint8_t *low = NULL, *high = NULL;
    for (uint64_t i = 0; i < v->n_tokens; i++) {
        np_bytes piece = v->pieces[i];
        if (piece.n > UINT16_MAX)
            return np_fail(ctx, NEAP_EFORMAT, "token %llu has %llu bytes: the limit is %d",
                           (unsigned long long)i, (unsigned long long)piece.n, UINT16_MAX);
        if (v->n_types && (v->types[i] < NP_TOKEN_UNDEFINED || v->types[i] > NP_TOKEN_BYTE))
            return np_fail(ctx, NEAP_EFORMAT, "token %llu has type %d, expected 0 to %d",
                           (unsigned long long)i, v->types[i], NP_TOKEN_BYTE);
        if (piece.n == 0)
            continue;
        if (!low || piece.p < low)
            low = piece.p;
        if (!high || piece.p > high)
            high = piece.p;
    }
    if (low && (uint64_t)(high - low) > UINT32_MAX)
        return np_fail(ctx, NEAP_ELIMIT, "the tokens' texts are more than 4 GiB apart");
    *base = low ? low : (const uint8_t *)"";
    return NEAP_OK;
}

static neap_status fill_tokens(neap_tokenizer *t, const np_vocab *v)
{
    neap_context *ctx = t->ctx;
    t->n_tokens = (uint32_t)v->n_tokens;
    t->offset = np_alloc(ctx, NEAP_MEM_HOST, t->n_tokens * sizeof *t->offset);
    t->length = np_alloc(ctx, NEAP_MEM_HOST, t->n_tokens * sizeof *t->length);
    t->type = np_alloc(ctx, NEAP_MEM_HOST, t->n_tokens * sizeof *t->type);
    if (!t->offset || !t->length || !t->type || !slots_new(ctx, &t->piece_slots, t->n_tokens))
        return NEAP_ENOMEM;
    if (v->n_scores && t->rules.merging == NP_MERGE_SCORES) {
        t->score = np_alloc(ctx, NEAP_MEM_HOST, t->n_tokens * sizeof *t->score);
        if (!t->score)
            return NEAP_ENOMEM;
        memcpy(t->score, v->scores, t->n_tokens * sizeof *t->score);
    }
    for (uint32_t id = 0; id < t->n_tokens; id++) {
        if (id % 1024 == 0 && np_check(ctx) != NEAP_OK)
            return NEAP_ECANCELLED;
        np_bytes piece = v->pieces[id];
        t->offset[id] = piece.n ? (uint32_t)(piece.p - t->base) : 0;
        t->length[id] = (uint16_t)piece.n;
        t->type[id] = v->n_types ? (uint16_t)v->types[id] : NP_TOKEN_NORMAL;
        t->type[id] |= v->flags ? v->flags[id] : 0;
        if (piece.n == 0)
            continue;
        int32_t twin = find_any(t, piece, (np_bytes){piece.p, 0});
        if (twin >= 0)
            return np_fail(ctx, NEAP_EFORMAT, "tokens %d and %u have the same text \"%.*s\"", twin,
                           id, piece.n < 64 ? (int)piece.n : 64, (const char *)piece.p);
        slots_add(&t->piece_slots, hash_end(hash_bytes((uint32_t)HASH_START, piece)), id);
    }
    return NEAP_OK;
}

static void fill_bytes(neap_tokenizer *t)
{
    for (int byte = 0; byte < 256; byte++) {
        char name[8];
        size_t n = (size_t)snprintf(name, sizeof name, "<0x%02X>", (unsigned)byte);
        if (!t->rules.characters)
            n = np_utf8_encode(np_byte_to_alphabet((uint8_t)byte), (uint8_t *)name);
        int32_t id = np_tokenizer_find_piece(t, (np_bytes){(uint8_t *)name, n});
        t->byte_id[byte] = t->rules.characters && !t->rules.byte_tokens ? -1 : id;
        if (t->rules.characters && id >= 0 && np_token_type_of(t, id) == NP_TOKEN_NORMAL)
            t->type[id] = (uint16_t)((t->type[id] & ~NP_TOKEN_TYPE_MASK) | NP_TOKEN_BYTE);
    }
}

static void fill_ids(neap_tokenizer *t, const np_vocab *v)
{
    const int64_t named[] = {v->bos, v->eos, v->eot, v->unk};
    t->bos = (int32_t)v->bos;
    t->eos = (int32_t)v->eos;
    for (int i = 0; i < 4 && !v->n_types; i++)
        if (named[i] >= 0)
            t->type[named[i]] = i == 3 ? NP_TOKEN_UNKNOWN : NP_TOKEN_CONTROL;
    t->unk = (int32_t)v->unk;
    if (t->unk >= 0 && t->rules.merging == NP_MERGE_RANKS &&
        np_token_type_of(t, t->unk) != NP_TOKEN_UNKNOWN)
        t->unk = -1;
    np_tokenizer_mark_ends(t, v);
    fill_bytes(t);
}

static neap_status bad_merge(neap_tokenizer *t, np_bytes left, np_bytes right, const char *why)
{
    return np_fail(t->ctx, NEAP_EFORMAT, "merge %u, \"%.*s %.*s\": %s", t->merges_added,
                   left.n < 64 ? (int)left.n : 64, (const char *)left.p,
                   right.n < 64 ? (int)right.n : 64, (const char *)right.p, why);
}

neap_status np_tokenizer_merge(neap_tokenizer *t, np_bytes left, np_bytes right)
{
    if (t->merges_added == t->n_merges)
        return np_fail(t->ctx, NEAP_EFORMAT, "more than the %u merges counted", t->n_merges);
    np_merge *m = &t->merge[t->merges_added];
    uint8_t prefix = t->rules.prefix.n; /* of the right part, whatever its bytes are */
    m->left = find_text(t, left, (np_bytes){left.p, 0});
    m->right = find_text(t, right, (np_bytes){right.p, 0});
    if (m->left < 0 || m->right < 0)
        return bad_merge(t, left, right, "a part of it is no token");
    if (right.n < prefix)
        return bad_merge(t, left, right, "shorter than continuing_subword_prefix");
    m->merged = find_text(t, left, (np_bytes){right.p + prefix, right.n - prefix});
    if (m->merged < 0)
        return bad_merge(t, left, right, "its result is no token");
    int32_t twin = np_merge_rank(t, m->left, m->right);
    if (twin < 0)
        slots_add(&t->merge_slots, np_hash_pair(m->left, m->right), t->merges_added);
    else if (t->rules.merging == NP_MERGE_MODEL) /* there the later of two counts */
        slots_change(&t->merge_slots, np_hash_pair(m->left, m->right), (uint32_t)twin,
                     t->merges_added);
    t->merges_added++;
    return NEAP_OK;
}

static neap_status fill_merges(neap_tokenizer *t, const np_vocab *v)
{
    for (uint64_t rank = 0; rank < v->n_merges; rank++) {
        if (rank % 1024 == 0 && np_check(t->ctx) != NEAP_OK)
            return NEAP_ECANCELLED;
        np_bytes merge = v->merges[rank];
        const uint8_t *space = merge.n > 1 ? memchr(merge.p + 1, ' ', merge.n - 1) : NULL;
        if (!space || space + 1 == merge.p + merge.n)
            return np_fail(t->ctx, NEAP_EFORMAT,
                           "merge %llu, \"%.*s\": expected two pieces and a space between them",
                           (unsigned long long)rank, merge.n < 64 ? (int)merge.n : 64,
                           (const char *)merge.p);
        np_bytes left = {merge.p, (uint64_t)(space - merge.p)};
        neap_status status =
            np_tokenizer_merge(t, left, (np_bytes){space + 1, merge.n - left.n - 1});
        if (status != NEAP_OK)
            return status;
    }
    return NEAP_OK;
}

static const uint8_t MARK[3] = {0xE2, 0x96, 0x81}; /* U+2581, which stands for a space */

/* Spaces become marks, and every stretch of text gets one in front unless the file says no. */
static void score_rules(const np_vocab *v, np_text_rules *out)
{
    static const uint8_t space[1] = {' '};
    *out = (np_text_rules){.merging = NP_MERGE_SCORES,
                           .characters = true,
                           .byte_tokens = true,
                           .byte_text = true,
                           .strip_first = v->add_space != 0,
                           .mark = {0xE2, 0x96, 0x81},
                           .n_mark = sizeof MARK};
    if (v->add_space)
        out->cuts[out->n_cuts++] =
            (np_step){.kind = NP_STEP_PREPEND, .text = {MARK, sizeof MARK}};
    out->cuts[out->n_cuts++] = (np_step){.kind = NP_STEP_REPLACE,
                                         .literal = true,
                                         .pattern = {space, 1},
                                         .text = {MARK, sizeof MARK}};
}

/* The rules of a name: the kind's, and whether BOS and EOS are added. */
static neap_status named_rules(neap_context *ctx, const np_vocab *v, np_text_rules *out)
{
    bool kind_bos = true;
    if (is_model(v, "llama")) {
        score_rules(v, out);
    } else {
        const np_pretokenizer_kind *kind;
        neap_status status = np_pretokenizer_find(ctx, v->pre, &kind);
        if (status != NEAP_OK)
            return status;
        kind_bos = kind->add_bos && v->bos >= 0;
        *out = (np_text_rules){.ignore_merges = kind->ignore_merges, .alphabet = true};
        out->n_cuts = np_pretokenizer_cuts(kind, out->cuts);
        if (v->add_space > 0)
            return np_fail(ctx, NEAP_EUNSUPPORTED,
                           "tokenizer.ggml.add_space_prefix with the model \"gpt2\"");
    }
    bool bos = v->add_bos < 0 ? kind_bos : v->add_bos > 0;
    bool eos = v->add_eos > 0;
    if ((bos && v->bos < 0) || (eos && v->eos < 0))
        return np_fail(ctx, NEAP_EFORMAT, "the file wants %s added and names no such token",
                       bos && v->bos < 0 ? "BOS" : "EOS");
    out->n_before = bos;
    out->n_after = eos;
    out->before[0] = (int32_t)v->bos;
    out->after[0] = (int32_t)v->eos;
    return NEAP_OK;
}

static neap_status room_for_merges(neap_tokenizer *t, const np_vocab *v)
{
    t->merge = np_calloc(t->ctx, NEAP_MEM_HOST, v->n_merges * sizeof *t->merge);
    if (!t->merge)
        return NEAP_ENOMEM;
    t->n_merges = (uint32_t)v->n_merges;
    return slots_new(t->ctx, &t->merge_slots, t->n_merges) ? NEAP_OK : NEAP_ENOMEM;
}

static neap_status begin(neap_tokenizer *t, const np_vocab *v)
{
    neap_status status = check_counts(t->ctx, v);
    if (status == NEAP_OK && v->rules)
        t->rules = *v->rules;
    else if (status == NEAP_OK)
        status = named_rules(t->ctx, v, &t->rules);
    if (status == NEAP_OK)
        status = np_steps_new(t->ctx, t->rules.normal, t->rules.n_normal, &t->normalizer);
    if (status == NEAP_OK)
        status = np_steps_new(t->ctx, t->rules.cuts, t->rules.n_cuts, &t->pretokenizer);
    memset(t->rules.normal, 0, sizeof t->rules.normal); /* they point into what is soon gone */
    memset(t->rules.cuts, 0, sizeof t->rules.cuts);
    if (status == NEAP_OK)
        status = check_pieces(t->ctx, v, &t->base);
    if (status == NEAP_OK)
        status = fill_tokens(t, v);
    if (status == NEAP_OK) {
        fill_ids(t, v);
        status = room_for_merges(t, v);
    }
    return status;
}

neap_status np_tokenizer_begin(neap_context *ctx, const np_vocab *vocab, neap_tokenizer **out)
{
    *out = NULL;
    neap_tokenizer *t = np_calloc(ctx, NEAP_MEM_HOST, sizeof *t);
    if (!t)
        return NEAP_ENOMEM;
    t->ctx = ctx;
    neap_status status = begin(t, vocab);
    if (status != NEAP_OK) {
        neap_tokenizer_free(t);
        return status;
    }
    *out = t;
    return NEAP_OK;
}

neap_status np_tokenizer_finish(neap_tokenizer *t)
{
    if (!t->rules.ignore_merges && !t->rules.characters)
        slots_free(t->ctx, &t->piece_slots);
    return collect_special(t);
}

neap_status np_tokenizer_new(neap_context *ctx, const np_vocab *vocab, neap_tokenizer **out)
{
    neap_tokenizer *t;
    *out = NULL;
    neap_status status = np_tokenizer_begin(ctx, vocab, &t);
    if (status != NEAP_OK)
        return status;
    status = fill_merges(t, vocab);
    if (status == NEAP_OK)
        status = np_tokenizer_finish(t);
    if (status != NEAP_OK) {
        neap_tokenizer_free(t);
        return status;
    }
    *out = t;
    return NEAP_OK;
}

void np_tokenizer_own(neap_tokenizer *t, void *block, uint64_t bytes)
{
    t->block = block;
    t->block_bytes = bytes;
}

void np_tokenizer_own_map(neap_tokenizer *t, np_file_map map)
{
    t->map = map;
}

void neap_tokenizer_free(neap_tokenizer *t)
{
    if (!t)
        return;
    neap_context *ctx = t->ctx;
    np_steps_free(t->normalizer);
    np_steps_free(t->pretokenizer);
    slots_free(ctx, &t->piece_slots);
    slots_free(ctx, &t->merge_slots);
    np_free(ctx, NEAP_MEM_HOST, t->offset, t->n_tokens * sizeof *t->offset);
    np_free(ctx, NEAP_MEM_HOST, t->length, t->n_tokens * sizeof *t->length);
    np_free(ctx, NEAP_MEM_HOST, t->type, t->n_tokens * sizeof *t->type);
    np_free(ctx, NEAP_MEM_HOST, t->score, t->score ? t->n_tokens * sizeof *t->score : 0);
    neap_text_free(ctx, &t->late_texts);
    np_free(ctx, NEAP_MEM_HOST, t->merge, t->n_merges * sizeof *t->merge);
    np_free(ctx, NEAP_MEM_HOST, t->special, t->n_special * sizeof *t->special);
    np_free(ctx, NEAP_MEM_HOST, t->block, t->block_bytes);
    np_file_map_close(&t->map);
    np_blocks_free(&t->kept);
    np_free(ctx, NEAP_MEM_HOST, t, sizeof *t);
}

/* ---- public look-ups ------------------------------------------------------------------------ */

int32_t neap_tokenizer_size(const neap_tokenizer *t)
{
    return (int32_t)t->n_tokens;
}

int32_t neap_tokenizer_bos(const neap_tokenizer *t)
{
    return t->bos;
}

int32_t neap_tokenizer_eos(const neap_tokenizer *t)
{
    return t->eos;
}

bool neap_tokenizer_is_end(const neap_tokenizer *t, int32_t id)
{
    return id >= 0 && (uint32_t)id < t->n_tokens && (t->type[id] & NP_TOKEN_END) != 0;
}

bool neap_tokenizer_is_special(const neap_tokenizer *t, int32_t id)
{
    return id >= 0 && (uint32_t)id < t->n_tokens && !is_text_type(np_token_type_of(t, id));
}

int32_t neap_tokenizer_special(const neap_tokenizer *t, const char *text, size_t length)
{
    for (uint32_t i = 0; i < t->n_special; i++) {
        np_bytes piece = np_token_piece(t, t->special[i].id);
        if (piece.n == length && length && memcmp(piece.p, text, length) == 0)
            return t->special[i].id;
    }
    return -1;
}
