/* stats.h - what a run took, as the JSON object of --stats and of bench. */
#ifndef CLI_STATS_H
#define CLI_STATS_H

#include <neap/model.h>
#include <neap/program.h>

#include "cli/cli.h"

typedef struct cli_stats {
    double start_seconds, wall_seconds;
    uint64_t memory_limit, held_bytes_at_end;
    int threads;
    const char *isa;
    neap_memory_info memory;
    uint64_t planned_peak_bytes; /* 0: nothing was planned, the peak is what was measured */
    neap_eval_stats eval;
    neap_session_info session;
    bool program;
    neap_handle_stats handle;
    bool generated;
    double audio_seconds, encode_seconds; /* of transcribe; 0: none */
    neap_generate_result result; /* in bench: medians */
    bool interrupted;
} cli_stats;

/* Notes the process's resident bytes and the time; called first of all. */
void cli_stats_note_start(void);
void cli_stats_begin(cli_stats *stats);
/* Reads the counters; while what the run used is still there. `session` may be NULL. */
void cli_stats_read(cli_stats *stats, const neap_context *ctx, const neap_session *session);
/* The same for a program's handle: counts and threads are the handle's, bytes the context's. */
void cli_stats_read_program(cli_stats *stats, const neap_context *ctx, neap_handle *handle);
/* After everything but the context is freed. */
void cli_stats_end(cli_stats *stats, const neap_context *ctx);
/* The keys of CLI.md's --stats; NULL: out of memory. */
json_t *cli_stats_json(const cli_stats *stats);
/* "stop", "length" or "interrupted". */
const char *cli_finish_reason(const cli_stats *stats);
/* Writes the object to a file; "-": standard output. */
int cli_stats_write(const cli_stats *stats, const char *path);
/* Can the file be written? Asked before the work; nothing is made, so that what is refused leaves nothing. */
int cli_check_writable(const char *option, const char *path);
/* {weights, state, …}: bytes by category. */
json_t *cli_categories_json(const uint64_t bytes[NEAP_MEM_CATEGORIES]);

#endif
