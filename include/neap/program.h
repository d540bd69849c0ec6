/* neap/program.h - ExecuTorch programs (.pte) whose delegates are for the MLX backend.
 *
 * A program is a file of methods. A handle loads one method: constants stay in the file's map and
 * are shared, mutable buffers are the handle's own. Executing walks the method's instructions once
 * for each new set of input shapes, plans the whole and replays the plan afterwards; it holds no
 * more than is alive. Results have the same bits whatever the budget, threads and options.
 *
 * Threads: a program may be used by several handles on several threads, a handle by one thread at a
 * time. Format: ExecuTorch 1.5, MLX delegate schema 1. */
#ifndef NEAP_PROGRAM_H
#define NEAP_PROGRAM_H

#include "plan.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- programs ------------------------------------------------------------------------------- */

typedef struct neap_program neap_program;

/* Maps the file. NEAP_EIO, NEAP_EFORMAT (malformed, with the place), NEAP_EUNSUPPORTED (a newer
 * version, another backend), NEAP_ENOMEM. The program must be closed before its context. */
NEAP_API neap_status neap_program_open(neap_context *ctx, const char *path, neap_program **out);
/* The same over bytes that stay the caller's and must outlive the program. */
NEAP_API neap_status neap_program_open_memory(neap_context *ctx, const void *bytes, uint64_t size,
                                              neap_program **out);
/* Constants that the program does not hold itself, from a .ptd file. */
NEAP_API neap_status neap_program_attach(neap_program *program, const char *path);
/* Its handles must be closed. */
NEAP_API void neap_program_close(neap_program *program);

typedef enum neap_value_kind {
    NEAP_VALUE_NONE,
    NEAP_VALUE_TENSOR,
    NEAP_VALUE_INT,
    NEAP_VALUE_BOOL,
    NEAP_VALUE_DOUBLE,
    NEAP_VALUE_STRING
} neap_value_kind;

/* What a method takes or gives. */
typedef struct neap_value {
    neap_value_kind kind;
    neap_dtype dtype; /* tensors */
    int rank;
    int64_t shape[NEAP_MAX_RANK];
    /* In elements. Inputs must be row-major and lie at a multiple of their element's size; leave
     * `strided` false and strides unset for that. */
    int64_t strides[NEAP_MAX_RANK];
    bool strided;
    bool bounded;     /* of a description: `shape` is an upper bound, smaller extents will do */
    const void *data; /* an input's bytes, read in place; a result's bytes */
    uint64_t bytes;   /* of data */
    int64_t integer;  /* INT, BOOL */
    double real;      /* DOUBLE */
    const char *text; /* STRING */
} neap_value;

NEAP_API int neap_program_methods(const neap_program *program);
/* "forward"; NULL if there is no such method. */
NEAP_API const char *neap_program_method_name(const neap_program *program, int method);
/* -1: none of that name; then neap_context_error names those there are. */
NEAP_API int neap_program_find_method(const neap_program *program, const char *name);
NEAP_API int neap_program_inputs(const neap_program *program, int method);
NEAP_API int neap_program_outputs(const neap_program *program, int method);
/* Kind, dtype and shape of an input or output; NEAP_EINVAL for a number that does not exist. */
NEAP_API neap_status neap_program_input(const neap_program *program, int method, int i,
                                        neap_value *out);
NEAP_API neap_status neap_program_output(const neap_program *program, int method, int i,
                                         neap_value *out);

/* What is in a method, for reports. Each visit returns false to stop. */
typedef struct neap_program_count {
    const char *name; /* a node type, or an operator outside the delegates with its overload */
    int64_t count;
    const char *refusal; /* why it does not run; NULL: it does */
} neap_program_count;
NEAP_API neap_status neap_program_node_types(const neap_program *program, int method,
                                             bool (*visit)(void *user, const neap_program_count *c),
                                             void *user);

typedef struct neap_method_info {
    size_t size;
    int64_t delegates, chains, nodes, constants, buffers; /* over all delegates of the method */
    uint64_t constant_bytes, buffer_bytes;
} neap_method_info;
#define NEAP_METHOD_INFO_INIT NEAP_INIT(neap_method_info)
NEAP_API neap_status neap_program_method_info(const neap_program *program, int method,
                                              neap_method_info *info);

/* ---- caches outside the graph ----------------------------------------------------------------- */

/* Keys and values of one sequence, for programs that say UpdateAndAttend: a host's cache that is no
 * part of the file. Flat: every position is kept, room doubles from `initial` up to the capacity.
 * Ring (window > 0): the last `window` positions; a call may bring at most `max_write`. */
typedef struct neap_sequence_cache neap_sequence_cache;
typedef struct neap_sequence_cache_options {
    size_t size;
    int64_t capacity, layers, kv_heads, head_dim; /* positions; required */
    neap_dtype dtype;                             /* f32, f16 or bf16 */
    int64_t initial;                              /* positions at first; at most the capacity */
    int64_t window, max_write;                    /* ring; max_write 0 = window */
} neap_sequence_cache_options;
#define NEAP_SEQUENCE_CACHE_OPTIONS_INIT \
    NEAP_INIT_WITH(neap_sequence_cache_options, NEAP_SET(dtype, NEAP_F32), NEAP_SET(initial, 512))
/* Registers the cache under `key`, which the option cache_key of a handle names. The program owns
 * it. NEAP_EINVAL names the field and its range. */
NEAP_API neap_status neap_program_install_cache(neap_program *program, const char *key,
                                                const neap_sequence_cache_options *options);

/* ---- handles -------------------------------------------------------------------------------- */

typedef struct neap_handle neap_handle;

/* A runtime option of a handle, checked at load: the error names key, value and range.
 *   eval_threshold_bytes       int, 0 or more (0: off). A threshold, not a limit: evaluates what is
 *                              pending each time the instructions' largest tensors add up to it.
 *   clear_cache_interval       int, 0 or more: every N-th execute gives cached bytes back.
 *   skip_mutable_buffer_init   bool: buffers come with the sessions only.
 *   cache_key                  string: a cache that was installed. */
typedef enum neap_option_kind { NEAP_OPTION_INT, NEAP_OPTION_BOOL, NEAP_OPTION_STRING } neap_option_kind;
typedef struct neap_option {
    const char *key;
    neap_option_kind kind;
    int64_t integer; /* INT; BOOL: 0 or 1 */
    const char *text;
} neap_option;
/* Kind of an option by its key; false: there is none such. */
NEAP_API bool neap_option_kind_of(const char *key, neap_option_kind *out);

typedef struct neap_handle_options {
    size_t size;
    int threads;           /* 0 = as the program's context */
    uint64_t memory_limit; /* of the handle; 0 = none of its own */
    uint64_t seed;         /* of draws that the program does not seed */
    int n_options;
    const neap_option *options;
} neap_handle_options;
#define NEAP_HANDLE_OPTIONS_INIT NEAP_INIT(neap_handle_options)
/* Loads a method and runs its init chains. NEAP_EINVAL (options, method), NEAP_EFORMAT,
 * NEAP_EUNSUPPORTED (names the node or operator), NEAP_ENOMEM. */
NEAP_API neap_status neap_handle_open(neap_program *program, int method,
                                      const neap_handle_options *options, neap_handle **out);
NEAP_API void neap_handle_close(neap_handle *handle);
/* The handle's own context: its ledger, limit and error. */
NEAP_API neap_context *neap_handle_context(neap_handle *handle);

/* Runs the method. Inputs are read in place and must stay until it returns. Results: if outputs[i]
 * comes with data, `bytes` of room, the result is copied there (NEAP_EINVAL if it does not fit);
 * if data is NULL, or what the last execute left there, it points afterwards to memory of the handle
 * that the next call, a plan too, takes back. kind, dtype, shape and bytes are set. NEAP_EINVAL
 * names the input that is wrong; NEAP_ENOMEM names what would do. */
NEAP_API neap_status neap_handle_execute(neap_handle *handle, int n_inputs,
                                         const neap_value *inputs, int n_outputs,
                                         neap_value *outputs);
/* Mutable buffers (of the active session) and sequence caches to zero; draws start again. */
NEAP_API neap_status neap_handle_reset(neap_handle *handle);

/* What an execution with these inputs will need. Data may be NULL where no shape depends on it.
 * Runs nothing of the method (its init chains ran at load). */
typedef struct neap_execution_plan {
    size_t size;
    uint64_t planned_peak_bytes; /* of the program's context, all in */
    uint64_t least_bytes;        /* the smallest limit that will do with plans like these; of
                                  * neap_handle_fit: with any plans */
    uint64_t arena_bytes, scratch_bytes, largest_live_bytes, output_bytes, held_bytes;
    uint64_t by_category[NEAP_MEM_CATEGORIES]; /* at the peak */
    int64_t steps, peak_step, evaluations;
    double plan_seconds;
    uint64_t run_bytes;  /* the peak without what was held before, to load and to plan */
    uint64_t plan_bytes; /* of run_bytes, arena and results of the plan that holds the most */
    uint64_t plan_budget; /* as set for each plan; 0: none */
} neap_execution_plan;
#define NEAP_EXECUTION_PLAN_INIT NEAP_INIT(neap_execution_plan)
NEAP_API neap_status neap_handle_plan(neap_handle *handle, int n_inputs, const neap_value *inputs,
                                      neap_execution_plan *plan,
                                      bool (*visit)(void *user, const neap_plan_alive *alive),
                                      void *user);
/* From now on each of the handle's plans takes at most that many bytes for arena and results, and of
 * those that do is the fastest; the least there is if none does. 0: as the context's plan options say.
 * Plans that were made are dropped. */
NEAP_API neap_status neap_handle_set_plan_budget(neap_handle *handle, uint64_t bytes);

/* Plans everything that will be executed: neap_handle_plan, of one call or of several. */
typedef neap_status neap_plan_all(void *user, neap_execution_plan *plan);
/* Chooses that budget so that everything fits into `limit` bytes of the program's context and is as
 * fast as it can be. `plan`: what `all` told of the plans that cost no time; afterwards what it told
 * last, with the least_bytes of the smallest plans. If those at first fit, or `limit` is 0, they
 * are made again and only least_bytes is found. NEAP_ENOMEM names it if even that is over the limit.
 * The limit is not set. Bits of results do not change.
 * Without this and the budget above, the first execute under a limit (of the handle's context or
 * one around it) does the same with its inputs; what is executed later is planned within the budget
 * that was found. */
NEAP_API neap_status neap_handle_fit(neap_handle *handle, uint64_t limit, neap_plan_all *all,
                                     void *user, neap_execution_plan *plan);
/* The plans of that execution, as neap_handle_plan finds them. */
NEAP_API neap_status neap_handle_visit_plans(neap_handle *handle, int n_inputs,
                                             const neap_value *inputs, neap_plan_visit *visit,
                                             void *user);

typedef struct neap_handle_stats {
    size_t size;
    uint64_t executes, evaluations, barriers, internal_evaluations, accounting_calls;
    uint64_t pending_bytes; /* of the threshold's counter, after the last execute or init chain */
    uint64_t init_barriers;
    uint64_t plans, plan_hits, steps;
    double plan_seconds;
} neap_handle_stats;
#define NEAP_HANDLE_STATS_INIT NEAP_INIT(neap_handle_stats)
NEAP_API void neap_handle_tell(const neap_handle *handle, neap_handle_stats *stats);

/* ---- sessions ------------------------------------------------------------------------------- */

/* Several sets of mutable buffers for one handle. Session 0 is there from the start (but with
 * skip_mutable_buffer_init); a session's bytes are taken at its first execute. */
NEAP_API neap_status neap_handle_session_new(neap_handle *handle, int *session);
NEAP_API neap_status neap_handle_session_use(neap_handle *handle, int session);
NEAP_API neap_status neap_handle_session_free(neap_handle *handle, int session);
NEAP_API uint64_t neap_handle_session_bytes(const neap_handle *handle);

#ifdef __cplusplus
}
#endif
#endif
