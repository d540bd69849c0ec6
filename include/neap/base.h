/* neap/base.h - contexts, status codes, the memory ledger's public face.
 *
 * A context owns a ledger (every byte that Neap allocates, by category, under one limit), a thread
 * pool and the first error. A context is used by one thread at a time. */
#ifndef NEAP_BASE_H
#define NEAP_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define NEAP_API __attribute__((visibility("default")))
#else
#define NEAP_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- structs that say their size ------------------------------------------------------------ */

/* Structs of options and information begin with `size_t size`, so that an old program can call a newer
 * library. Start each from its NEAP_..._INIT: in C a list of initialisers, in C++ (from C++11 on, which
 * has no designators) a value of the same. */
#ifdef __cplusplus
#define NEAP_INIT_WITH(type, ...)            \
    ([]() {                                  \
        type neap_made = type();             \
        neap_made.size = sizeof(type);       \
        (void)(__VA_ARGS__);                 \
        return neap_made;                    \
    }())
#define NEAP_SET(field, value) neap_made.field = (value)
#define NEAP_INIT(type) NEAP_INIT_WITH(type, 0)
#else
#define NEAP_INIT_WITH(type, ...)           \
    {                                       \
        .size = sizeof(type), __VA_ARGS__   \
    }
#define NEAP_SET(field, value) .field = (value)
#define NEAP_INIT(type)       \
    {                         \
        .size = sizeof(type)  \
    }
#endif

/* ---- status ------------------------------------------------------------------------------- */

typedef enum neap_status {
#define NEAP_STATUS(name, value, text) NEAP_##name = (value),
#include "status.def"
#undef NEAP_STATUS
} neap_status;

/* The constant's name ("NEAP_ENOMEM") and its text; static strings, never NULL. */
NEAP_API const char *neap_status_name(neap_status status);
NEAP_API const char *neap_status_text(neap_status status);

/* ---- text of files ------------------------------------------------------------------------------ */

/* Names and texts of files may hold bytes that steer a terminal. Of the `n` bytes at `text`: how many, from
 * the first, are whole UTF-8 characters that can be shown. *skip (may be NULL): how many bytes after them are
 * to be shown as one '?'; 0 at the end. */
NEAP_API size_t neap_text_printable(const char *text, size_t n, size_t *skip);

/* ---- context ------------------------------------------------------------------------------ */

typedef struct neap_context neap_context;

typedef struct neap_context_options {
    size_t size; /* sizeof(neap_context_options): lets an old program call a newer library */
    uint64_t memory_limit;     /* bytes; 0 = no limit, only counted */
    int threads;               /* 0 = every processor that this process may use */
    uint64_t plan_cache_bytes; /* cap of the plan cache of free-form evaluation; 0 = 32 MiB */
    int64_t fail_allocation;   /* testing: the n-th (from 1), also of a child, fails; 0 = never */
} neap_context_options;
#define NEAP_CONTEXT_OPTIONS_INIT NEAP_INIT(neap_context_options)

/* Makes a root context. `options` may be NULL. NEAP_EINVAL, NEAP_ENOMEM. */
NEAP_API neap_status neap_context_new(const neap_context_options *options, neap_context **out);

/* A child charges its bytes to its parent as well and can only lower the limit. The parent must
 * outlive it. Each may be used from its own thread. */
NEAP_API neap_status neap_context_new_child(neap_context *parent,
                                            const neap_context_options *options,
                                            neap_context **out);

/* Frees the context and what it owns. Arrays, states and plans of the context must be gone. */
NEAP_API void neap_context_free(neap_context *ctx);

/* The rule of errors, for every function here:
 *   - A function that returns neap_status tells its error by that, and leaves nothing for the next call.
 *     Its text (which names the thing, the value and the limit) is read with neap_context_error until the
 *     next error or clear. What it was to make (`out`) is then NULL.
 *   - A function that builds and returns an array gives NULL and stores its error, the first one, in the
 *     context of the open scope. Calls in between neither return it nor lose it; the call that runs what
 *     was built (neap_eval, neap_eval_all, neap_plan_make, neap_state_flush) returns it, once.
 *   - NULL where a pointer is needed is NEAP_EINVAL; a NULL context is NEAP_ENOCONTEXT.
 * neap_context_status: the stored error that waits for such a call, NEAP_OK if none does. */
NEAP_API neap_status neap_context_status(const neap_context *ctx);
NEAP_API const char *neap_context_error(const neap_context *ctx);
NEAP_API void neap_context_clear_error(neap_context *ctx);

NEAP_API int neap_context_threads(const neap_context *ctx);
/* Name of the kernel set in use: "base", "avx2", "avx512". NEAP_ISA overrides the choice. */
NEAP_API const char *neap_context_isa(const neap_context *ctx);

/* ---- interrupting and progress ------------------------------------------------------------ */

/* Asks for the end of the call that runs in `ctx`, or, if none runs, of the next one: it returns
 * NEAP_ECANCELLED, within 100 ms on today's machines and models, and the request is over. To be called
 * from any thread and from signal handlers: it adds one to an atomic counter and does nothing else. What
 * the call had taken is given back. A state that only grows (a KV cache) is as before the call; one that
 * the call had begun to overwrite is poisoned, as after any failed evaluation: reset it or write it whole.
 * Then the call can be made again, with the same bits as if it had never been interrupted. Calls that only
 * build a graph, describe or free do not look at requests.
 *
 * A request counts for the children of `ctx`, too: it ends the call that runs in each of them. One that
 * runs nothing does not notice, unless the request still waits in `ctx` when its next call begins: each
 * context ends one call for a request. Requests that come while one waits are one with it. `ctx` must
 * outlive the call; NULL does nothing. */
NEAP_API void neap_context_interrupt(neap_context *ctx);
/* Takes a request back that no call has answered yet: whether there was one. On the context's thread. */
NEAP_API bool neap_context_withdraw_interrupt(neap_context *ctx);

/* How far a long call is. `what`: "load" (weights, in bytes), "plan" (plans tried; how many there will be
 * is not known), "prefill" (tokens), "transcribe" (samples; 0 where the length is not known) or "run"
 * (steps of a plan or of a program's method). Only the outermost of nested ones is told. */
typedef struct neap_progress {
    size_t size; /* sizeof(neap_progress) of the library */
    const char *what;     /* a static string */
    uint64_t done, total; /* total 0: not known */
} neap_progress;
typedef void neap_progress_fn(void *user, const neap_progress *progress);

/* Sets who is told how far calls in `ctx` are (NULL: nobody). Children without a function of their own use
 * their parent's. It is called on the thread that makes the call, at most every 20 ms beside the first
 * and the last of each; of "plan" and "run" nothing in their first 50 ms. It must not call into the
 * context, but may interrupt it. */
NEAP_API void neap_context_set_progress(neap_context *ctx, neap_progress_fn *fn, void *user);

/* ---- memory ------------------------------------------------------------------------------- */

typedef enum neap_memory_category {
    NEAP_MEM_WEIGHTS,       /* weights that were copied or repacked (mapped pages count 0) */
    NEAP_MEM_STATE,         /* KV caches and other named mutable buffers */
    NEAP_MEM_ACTIVATIONS,   /* intermediate and final values of evaluations */
    NEAP_MEM_SCRATCH,       /* what kernels need while they run */
    NEAP_MEM_GRAPH,         /* nodes, plans, planner workspace */
    NEAP_MEM_COMMUNICATION, /* buffers of messages between machines */
    NEAP_MEM_HOST,          /* tokenizer, headers, thread stacks, the rest */
    NEAP_MEM_CATEGORIES
} neap_memory_category;

NEAP_API const char *neap_memory_category_name(neap_memory_category category);

typedef struct neap_memory_info {
    size_t size;     /* sizeof(neap_memory_info), set by the caller */
    uint64_t active; /* bytes in use */
    uint64_t cached; /* bytes held from the system but not in use; trim gives them back */
    uint64_t peak;   /* the largest active + cached so far */
    uint64_t mapped; /* file-backed pages the system can drop; not inside `active` */
    uint64_t limit;  /* 0 = none */
    uint64_t active_by_category[NEAP_MEM_CATEGORIES];
    uint64_t peak_by_category[NEAP_MEM_CATEGORIES]; /* at the moment of `peak`; sums to it */
} neap_memory_info;
#define NEAP_MEMORY_INFO_INIT NEAP_INIT(neap_memory_info)

NEAP_API void neap_context_memory(const neap_context *ctx, neap_memory_info *info);
/* Gives cached bytes back to the system. */
NEAP_API void neap_context_trim(neap_context *ctx);
/* Lowers, raises or (0) lifts the limit of a context; NEAP_ENOMEM if more is held already. */
NEAP_API neap_status neap_context_set_limit(neap_context *ctx, uint64_t bytes);

/* ---- the machine -------------------------------------------------------------------------- */

/* What the machine leaves for this process; nothing is limited by it unless asked for: give `budget` to a
 * context or a session. */
typedef enum neap_machine_limit {
    NEAP_MACHINE_NONE,          /* nothing is known */
    NEAP_MACHINE_AVAILABLE,     /* MemAvailable of the system */
    NEAP_MACHINE_CGROUP,        /* a control group (v1 or v2) that the process is in, or one above */
    NEAP_MACHINE_ADDRESS_SPACE, /* RLIMIT_AS: mapped files count */
    NEAP_MACHINE_DATA           /* RLIMIT_DATA */
} neap_machine_limit;

typedef struct neap_machine_memory_info {
    size_t size;
    uint64_t budget;            /* bytes: the least that any leaves, without the reserve; 0: nothing limits */
    neap_machine_limit binding; /* the one that leaves the least */
    uint64_t limit, used;       /* of it; `used` of a group: its anonymous memory */
    uint64_t reserve;           /* a sixteenth of what is left, 16 MiB to 1 GiB, at most half */
} neap_machine_memory_info;
#define NEAP_MACHINE_MEMORY_INFO_INIT NEAP_INIT(neap_machine_memory_info)

/* Looks now, in /proc and /sys below `root` (NULL: those of the system). What is absent or malformed limits
 * nothing. */
NEAP_API void neap_machine_memory(const char *root, neap_machine_memory_info *info);
/* "the limit of a control group"; a static string. */
NEAP_API const char *neap_machine_limit_name(neap_machine_limit limit);

#ifdef __cplusplus
}
#endif
#endif
