/* model.h - an opened model: file, index, tokenizer, sizes, weights as arrays; and what an
 * architecture provides. Level 7: builds graphs, never runs them. */
#ifndef NP_MODEL_H
#define NP_MODEL_H

#include "array/array.h"
#include "base/file_map.h"
#include "formats/gguf.h"
#include "models/known.h"
#include "neap/model.h"

typedef struct np_arch np_arch;

typedef struct np_sizes {
    int64_t context_length, layers, hidden, ffn, heads, kv_heads, head_dim, vocabulary, rotary;
    float rope_base, rope_scale, norm_eps;
    int64_t experts, experts_used; /* 0: one feed-forward for all */
    bool causal;                   /* false: a prompt's tokens see each other, whichever comes first */
    float attention_scale; /* of the scores; 0: 1 / sqrt(head_dim) */
} np_sizes;

struct neap_model {
    neap_context *ctx;
    np_file_map map;
    np_gguf *gguf;
    neap_tokenizer *tokenizer;
    const np_arch *arch;
    np_sizes sizes;
    neap_array **weights; /* by tensor of the file; retained; NULL: not used by the architecture */
    neap_array *rope_divisors; /* f32 [rotary/2] in place of the base's powers; may be NULL */
    bool packed;          /* the products' weights are meant for the packed layout */
    bool leave_q8_0;      /* but those of this type, where it does not pay */
    bool loaded;          /* and are in it */
    int sessions;         /* whose plans rely on `packed` */
    void *pack;           /* the block that holds them */
    uint64_t pack_bytes;
    char refusal[320];    /* why nothing can be made of an inspected file; "": it can */
};

/* The KV cache: states for one session. Keys in groups of 16 positions, [kv, C/16, dim, 16], so
 * that a vector of scores needs no horizontal sums; values [kv, C, dim]. */
typedef struct np_kv_cache {
    int64_t layers;
    neap_state **keys, **values;
} np_kv_cache;

neap_status np_kv_cache_new(neap_context *ctx, const np_sizes *sizes, int64_t context,
                            neap_dtype dtype, np_kv_cache *out);
void np_kv_cache_free(neap_context *ctx, np_kv_cache *cache);

/* One forward pass as a graph: `rows` tokens at `position`, keys up to `length`. */
typedef struct np_forward {
    const neap_model *model;
    const np_kv_cache *cache;
    neap_array *ids;      /* i32 [capacity] */
    neap_param *rows;     /* tokens in this run; NULL: all of them */
    neap_param *position; /* of the first */
    neap_param *length;   /* position + tokens */
} np_forward;

struct np_arch {
    const char *name;
    const np_known *known; /* what its files may say */
    /* Reads the sizes and checks that every tensor is there with its shape. */
    neap_status (*open)(neap_model *model);
    /* Hidden vector of the last token [1, hidden], before the final norm. */
    neap_array *(*forward)(const np_forward *f);
    /* Scores [1, vocabulary] of a hidden vector [1, hidden]. */
    neap_array *(*head)(const neap_model *model, neap_array *hidden);
};

/* The weight called `name` (printf), as an array of exactly this shape (a rank-1 shape has columns
 * 0); an error otherwise. Opening time. */
neap_status np_model_expect(neap_model *m, int64_t rows, int64_t columns, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* The same for `n` matrices in one tensor, [n, rows, columns]. */
neap_status np_model_expect_stack(neap_model *m, int64_t n, int64_t rows, int64_t columns,
                                  const char *format, ...) __attribute__((format(printf, 5, 6)));
bool np_model_has(const neap_model *m, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* The array of a weight that np_model_expect accepted; NULL if the file has none. */
neap_array *np_model_weight(const neap_model *m, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Marks the products' weights for the packed layout, or not; before graphs are built. Once they are
 * loaded or another session has planned with them, they stay as they are. `all`: also types for which
 * it does not pay. */
void np_model_set_packed(neap_model *m, bool packed, bool all);
/* Bytes that packing takes, as the ledger will count them. */
uint64_t np_model_packed_bytes(const neap_model *m);
/* Packs what is marked. */
neap_status np_model_load(neap_model *m);

neap_status np_model_read_tokenizer(neap_model *m);

#endif
