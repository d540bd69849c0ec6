/* speech_text.h - what was heard, as text, lines with times, subtitles, ids or JSON. */
#ifndef CLI_SPEECH_TEXT_H
#define CLI_SPEECH_TEXT_H

#include <neap/audio.h>

#include "cli/cli.h"

typedef enum cli_speech_form {
    CLI_SPEECH_TEXT,   /* a line a segment */
    CLI_SPEECH_TIMES,  /* "[00:00.000 --> 00:02.500] text" */
    CLI_SPEECH_SRT,
    CLI_SPEECH_TOKENS, /* one JSON array of ids, timestamps among them */
    CLI_SPEECH_JSON
} cli_speech_form;

typedef struct cli_speech_text {
    cli_speech_form form;
    int64_t count; /* segments or ids so far */
    int error;     /* errno of standard output's first failure */
    json_t *segments, *windows, *text; /* of JSON */
    char language[16];
    double no_speech; /* the largest */
} cli_speech_text;

void cli_speech_begin(cli_speech_text *speech, cli_speech_form form);
/* Prints what can be printed now. false: standard output takes no more. */
bool cli_speech_add(cli_speech_text *speech, const neap_speech_window *window);
/* The rest; `seconds`: of the recording. Returns the exit status. */
int cli_speech_end(cli_speech_text *speech, double seconds);
void cli_speech_free(cli_speech_text *speech);

/* The way of `transcribe` and `plan transcribe`. */
int cli_transcribe(bool plan, int argc, char **argv);

#endif
