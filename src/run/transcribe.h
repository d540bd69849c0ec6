/* transcribe.h - the inside of a transcriber: three programs, and who holds what when.
 *
 *   hear     encoder.pte: features -> hidden, which is copied; then its handle is closed
 *   prepare  cross_kv.pte: hidden -> keys and values, which stay in its handle; hidden is freed
 *   say      decoder.pte: one id after the other over those; then both handles are closed
 *
 * Every window opens, plans, runs and closes in this order, and opening a transcriber goes through
 * the same order without running. So what is held at each moment is known beforehand. */
#ifndef NP_TRANSCRIBE_H
#define NP_TRANSCRIBE_H

#include "neap/audio.h"
#include "neap/program.h"
#include "run/whisper_window.h"

typedef enum np_part { NP_HEAR, NP_PREPARE, NP_SAY, NP_PARTS } np_part;

enum { NP_CROSS_MOST = 256, NP_SPEECH_TEXT_ROOM = 8192 };

typedef struct np_part_program {
    neap_program *program;
    int method;
    neap_handle *handle; /* NULL: closed */
    uint64_t budget;     /* of each of its plans, as neap_handle_set_plan_budget has it */
    uint64_t peak, plan_bytes; /* when it was planned last: all that is held, its fullest plan */
} np_part_program;

struct neap_transcriber {
    neap_context *ctx;
    int threads;
    neap_tokenizer *tokenizer;
    np_whisper_tokens tokens;
    neap_mel *mel;
    np_part_program parts[NP_PARTS];
    neap_value features, hidden; /* what the encoder takes and gives */
    int n_cross;
    neap_value decoder_inputs[2 + NP_CROSS_MOST]; /* id, position, keys and values */
    neap_value cross[NP_CROSS_MOST];
    int64_t id, position; /* the decoder's first two inputs, as i64 or i32 */
    int32_t id32, position32;
    int32_t positions;
    float *samples; /* [NEAP_MEL_SAMPLES] */
    float *scores;  /* [vocabulary] */
    neap_text measured, heard; /* work space, and the text of a window */
    np_whisper_window window;
    np_whisper_decoder decoder;
    np_whisper_cut cut;
    neap_speech_segment segments[NP_WHISPER_SEGMENTS];
    int32_t previous[NP_WHISPER_PREVIOUS_TOKENS];
    int32_t previous_count;
    np_part peak_part;
    neap_transcriber_info info;
    neap_handle_stats stats; /* of handles that are closed */
};

extern const char *const np_part_files[NP_PARTS];

/* Opens and plans a part's handle, always in the same way: so what is held afterwards is too. Errors
 * are stored in the transcriber's context. */
neap_status np_part_open(neap_transcriber *t, np_part part, neap_execution_plan *plan);
/* What is alive at the peak of an open part. */
neap_status np_part_plan(neap_transcriber *t, np_part part, neap_execution_plan *plan,
                         bool (*visit)(void *user, const neap_plan_alive *alive), void *user);
neap_status np_part_visit(neap_transcriber *t, np_part part, neap_plan_visit *visit, void *user);
void np_part_close(neap_transcriber *t, np_part part);
/* The error of a part's own context becomes that of the transcriber's. */
neap_status np_part_failed(neap_transcriber *t, np_part part, neap_status status);
/* Bytes of a tensor with this shape. */
uint64_t np_value_bytes(const neap_value *value);

/* Walks through a window without running, until it fits into the limit, and fills t->info
 * (transcribe_plan.c). NEAP_ENOMEM names the least that would do. */
neap_status np_transcriber_plan(neap_transcriber *t, uint64_t limit, bool want_least);

#endif
