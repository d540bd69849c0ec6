/* tokenizer.h - BPE over bytes or characters, its vocabulary in a mapped file or in one block.
 *
 * The tokenizer keeps for each piece its place in the file, not its bytes; the arrays of np_vocab
 * may go once it is made. Compact tables: 8 bytes a token, 12 with scores, 12 bytes and a slot a merge. */
#ifndef NP_TOKENIZER_H
#define NP_TOKENIZER_H

#include "base/blocks.h"
#include "base/file_map.h"
#include "base/reader.h"
#include "neap/tokenizer.h"
#include "text/steps.h"

typedef enum np_token_type { /* the values of `tokenizer.ggml.token_type` */
                             NP_TOKEN_UNDEFINED = 0,
                             NP_TOKEN_NORMAL = 1,
                             NP_TOKEN_UNKNOWN = 2,
                             NP_TOKEN_CONTROL = 3,
                             NP_TOKEN_USER_DEFINED = 4,
                             NP_TOKEN_UNUSED = 5,
                             NP_TOKEN_BYTE = 6,
} np_token_type;

enum { NP_AFFIX_LIMIT = 8, NP_SUBWORD_LIMIT = 16, NP_MARK_LIMIT = 4 };

/* How ids are found for a word. */
typedef enum np_merging {
    NP_MERGE_RANKS,  /* BPE as llama.cpp has it: what has no token stays between its neighbours */
    NP_MERGE_MODEL,  /* BPE as Hugging Face has it: the unknown token takes part in merges */
    NP_MERGE_SCORES  /* sentencepiece's BPE: two neighbours that are a token, the best score first */
} np_merging;

typedef struct np_subword { /* a text in a tokenizer.json's model */
    uint8_t bytes[NP_SUBWORD_LIMIT];
    uint8_t n;
} np_subword;

typedef struct np_cutoff { /* truncation, or padding */
    bool set, left;
    uint32_t length, multiple; /* 0: padding to no fixed length, to no multiple */
    int32_t pad_id;
} np_cutoff;

/* What a tokenizer.json says itself, and a GGUF by its tokenizer's name. */
typedef struct np_text_rules {
    np_step normal[NP_STEPS_LIMIT], cuts[NP_STEPS_LIMIT];
    int n_normal, n_cuts;
    np_merging merging;
    bool characters;    /* words are looked up by characters, not by bytes that are letters */
    bool alphabet;      /* decoding: pieces are letters that are bytes */
    bool byte_tokens;   /* "<0xE9>" is a byte of what has no piece */
    bool byte_text;     /* decoding: such a piece is its byte */
    bool strip_first;   /* decoding leaves a space at the very start out */
    bool ignore_merges; /* a word that is a token needs no merges to become it */
    bool fuse_unknown;  /* one unknown token for a run of them in a word */
    bool skip_found;    /* plain texts: what a control token matches is passed over as a whole */
    uint8_t mark[NP_MARK_LIMIT], n_mark; /* decoding: stands for a space in a piece */
    np_subword prefix, suffix; /* of a word's characters but the first; of its last one */
    np_cutoff truncation, padding;
    int n_before, n_after; /* ids round a text */
    int32_t before[NP_AFFIX_LIMIT], after[NP_AFFIX_LIMIT];
} np_text_rules;

/* A vocabulary as a model file has it. */
typedef struct np_vocab {
    np_bytes model; /* kind of tokenizer: "gpt2" (byte-level BPE) or "llama" (scores) */
    np_bytes pre;   /* pre-tokenizer; empty = "default" */
    uint64_t n_tokens;
    const np_bytes *pieces; /* in the byte-level alphabet; control and user-defined ones as text */
    uint64_t n_types;       /* n_tokens, or 0: all are normal but the ids below */
    const int32_t *types;
    const uint16_t *flags; /* [n_tokens] NP_TOKEN_LATE and the like; NULL: none */
    uint64_t n_merges;
    const np_bytes *merges;     /* "a b", the most important first */
    uint64_t n_scores;          /* n_tokens, or 0: all are 0 */
    const float *scores;
    const np_text_rules *rules; /* NULL: by `model` and `pre` */
    int64_t bos, eos, eot, eom, unk; /* -1: none */
    int64_t fim_pad, fim_rep, fim_sep; /* they end a text, too */
    int add_bos, add_eos, add_space; /* 1, 0; -1: the file does not say */
} np_vocab;
#define NP_VOCAB_INIT                                                                           \
    {.bos = -1, .eos = -1, .eot = -1, .eom = -1, .unk = -1, .fim_pad = -1, .fim_rep = -1,       \
     .fim_sep = -1, .add_bos = -1, .add_eos = -1, .add_space = -1}

/* The pieces must lie within 4 GiB of each other and outlive the tokenizer. Empty pieces, and the
 * later of two equal merges, are never used. NEAP_EFORMAT: equal pieces, a merge whose parts or
 * result are no tokens, ids or types out of range, a piece over 65535 bytes. NEAP_EUNSUPPORTED: an
 * unknown model or pre-tokenizer. NEAP_ELIMIT: over 2^24 - 2 tokens or merges. NEAP_ENOMEM. */
neap_status np_tokenizer_new(neap_context *ctx, const np_vocab *vocab, neap_tokenizer **out);

/* The same in parts, where merges come one by one: begin, vocab->n_merges times merge, finish. What
 * begin gave is freed by the caller if one of them fails. */
neap_status np_tokenizer_begin(neap_context *ctx, const np_vocab *vocab, neap_tokenizer **out);
neap_status np_tokenizer_merge(neap_tokenizer *tokenizer, np_bytes left, np_bytes right);
neap_status np_tokenizer_finish(neap_tokenizer *tokenizer);

/* Where the pieces lie, if the tokenizer is to give it back. */
void np_tokenizer_own(neap_tokenizer *tokenizer, void *block, uint64_t bytes);
void np_tokenizer_own_map(neap_tokenizer *tokenizer, np_file_map map);

/* The template of chats that the file has, or (with a name) one more of them. The bytes must outlive
 * the tokenizer; with `copied` they need not. NEAP_ENOMEM. */
neap_status np_tokenizer_add_template(neap_tokenizer *tokenizer, np_bytes name, np_bytes text, bool copied);

/* ---- inside --------------------------------------------------------------------------------- */

/* A hash table of 24-bit numbers; what they number is compared by the user. 0 = free slot. */
typedef struct np_slots {
    uint32_t *slot; /* 8 bits of hash, 24 bits of number + 1 */
    uint32_t mask;
} np_slots;

enum { NP_SLOTS_LIMIT = (1 << 24) - 2 };

typedef struct np_merge {
    int32_t left, right, merged;
} np_merge;

typedef struct np_chat_template {
    struct np_chat_template *next;
    np_bytes name, text; /* name: n == 0 for the file's own */
} np_chat_template;

typedef struct np_found {
    const uint8_t *p;
    uint32_t n;
    int32_t id;
} np_found;

struct neap_tokenizer {
    neap_context *ctx;
    np_steps *normalizer, *pretokenizer;
    np_text_rules rules; /* but for the steps, which are in those two */
    void *block;         /* owned: holds the pieces */
    uint64_t block_bytes;
    np_file_map map;     /* owned: as well */
    np_bytes chat_template;      /* the file's own, if it lies there */
    np_chat_template *templates; /* others; in `kept`, as what of them was copied */
    np_blocks kept;
    const uint8_t *base; /* the lowest piece */
    uint32_t n_tokens, n_merges, n_special;
    uint32_t merges_added;
    bool late; /* there are tokens with NP_TOKEN_LATE */
    uint32_t *offset;        /* [n_tokens] from base */
    uint16_t *length;        /* [n_tokens] bytes */
    uint16_t *type;          /* [n_tokens] np_token_type, and flags */
    float *score;            /* [n_tokens], or NULL: all are 0 */
    np_merge *merge;         /* [n_merges] by rank */
    np_slots merge_slots;    /* by left and right id */
    np_slots piece_slots;    /* by piece; only kept if words or characters are looked up */
    np_found *special;       /* [n_special] tokens to find in the text, by their bytes */
    neap_text late_texts;    /* of those that are found in normalised text */
    bool special_start[256]; /* first bytes of those */
    int32_t byte_id[256];    /* the token of one byte, or -1 */
    int32_t bos, eos, unk;
};

enum {
    NP_TOKEN_TYPE_MASK = 15,
    NP_TOKEN_END = 16,
    NP_TOKEN_LATE = 32,   /* found in normalised text, between those that are not */
    NP_TOKEN_LSTRIP = 64, /* takes the white space on its left with it */
    NP_TOKEN_RSTRIP = 128,
    NP_TOKEN_WORD = 256,    /* found only where no letter touches it */
    NP_TOKEN_OUTSIDE = 512, /* of no use to merges: only found in texts */
    NP_SPECIAL_MAX_BYTES = 512
};

static inline np_bytes np_token_piece(const neap_tokenizer *t, int32_t id)
{
    return (np_bytes){t->base + t->offset[id], t->length[id]};
}

static inline np_token_type np_token_type_of(const neap_tokenizer *t, int32_t id)
{
    return (np_token_type)(t->type[id] & NP_TOKEN_TYPE_MASK);
}

/* The byte-level alphabet: every byte is a printable character. -1: not of the alphabet. */
uint32_t np_byte_to_alphabet(uint8_t byte);
int np_alphabet_to_byte(uint32_t code);

/* What a token is looked for by. */
static inline np_bytes np_found_text(const np_found *found)
{
    return (np_bytes){found->p, found->n};
}

static inline uint32_t np_hash_pair(int32_t left, int32_t right)
{
    uint64_t h = ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) * 0x9E3779B97F4A7C15u;
    return (uint32_t)(h >> 32) ^ (uint32_t)(h >> 15);
}

/* The rank of the merge of two ids, or -1. */
static inline int32_t np_merge_rank(const neap_tokenizer *t, int32_t left, int32_t right)
{
    uint32_t hash = np_hash_pair(left, right);
    const np_slots *s = &t->merge_slots;
    for (uint32_t i = hash & s->mask; s->slot[i]; i = (i + 1) & s->mask) {
        if ((s->slot[i] ^ hash) >> 24)
            continue;
        const np_merge *m = &t->merge[(s->slot[i] & 0xFFFFFF) - 1];
        if (m->left == left && m->right == right)
            return (int32_t)(m - t->merge);
    }
    return -1;
}

/* The token that these bytes are, written as letters, or -1. Only if merges are ignored. */
int32_t np_tokenizer_find_word(const neap_tokenizer *t, np_bytes word);

/* Which tokens are looked for in a text. */
enum { NP_FIND_CONTROL = 1, NP_FIND_EARLY = 2, NP_FIND_LATE = 4, NP_FIND_ALL = 7 };

/* The token with this piece that merges may use, or -1. Only with `characters`. */
int32_t np_tokenizer_find_piece(const neap_tokenizer *t, np_bytes piece);

/* The longest token that is to be found in texts at the start of `text`, or NULL. */
const np_found *np_tokenizer_match_special(const neap_tokenizer *t, np_bytes text, unsigned which);

/* Is it a known name of a token that ends a text? */
bool np_is_end_name(np_bytes piece);
/* Types that names override, and which tokens end a text. */
void np_tokenizer_mark_ends(neap_tokenizer *t, const np_vocab *v);

/* Where the white space that ends at `end` begins, not before `low`; where that at `at` ends. */
uint64_t np_before_spaces(np_bytes text, uint64_t low, uint64_t end);
uint64_t np_behind_spaces(np_bytes text, uint64_t at);

/* Does `text` end, or start, inside a word, as Rust's \w has it? */
bool np_ends_in_word(np_bytes text);
bool np_starts_in_word(np_bytes text);

/* Appends `text` as the normalizer makes it. */
neap_status np_normalize(neap_context *ctx, const neap_tokenizer *t, np_bytes text, bool *first,
                         neap_text *out);

bool np_text_append(neap_context *ctx, neap_text *out, const void *bytes, size_t n);

#endif
