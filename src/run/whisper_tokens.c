/* whisper_tokens.c - finds the tokens that Whisper's decoding is made of, by their text. */
#include <stdio.h>
#include <string.h>

#include "run/whisper_decode.h"

static int32_t special(const neap_tokenizer *t, const char *text)
{
    return neap_tokenizer_special(t, text, strlen(text));
}

/* ---- special tokens ------------------------------------------------------------------------- */

static void find_special(const neap_tokenizer *t, np_whisper_tokens *out)
{
    out->end = special(t, "<|endoftext|>");
    out->start = special(t, "<|startoftranscript|>");
    out->previous = special(t, "<|startofprev|>");
    out->translate = special(t, "<|translate|>");
    out->transcribe = special(t, "<|transcribe|>");
    out->start_lm = special(t, "<|startoflm|>");
    out->no_speech = special(t, "<|nospeech|>");
    if (out->no_speech < 0)
        out->no_speech = special(t, "<|nocaptions|>");
    out->no_timestamps = special(t, "<|notimestamps|>");
    out->timestamp = special(t, "<|0.00|>");
    if (out->timestamp < 0)
        out->timestamp = out->no_timestamps + 1;
}

/* An optional one beyond the scores is none. */
static int32_t within(int32_t id, int32_t vocabulary)
{
    return id < vocabulary ? id : -1;
}

/* Vocabularies of English-only models list languages too, but have one merged token less. */
enum { ENGLISH_ONLY_END = 50256 };

static neap_status check_special(neap_context *ctx, np_whisper_tokens *out)
{
    const struct {
        const char *name;
        int32_t id;
    } needed[] = {
        {"<|endoftext|>",         out->end          },
        {"<|startoftranscript|>", out->start        },
        {"<|translate|>",         out->translate    },
        {"<|transcribe|>",        out->transcribe   },
        {"<|notimestamps|>",      out->no_timestamps},
    };
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        if (needed[i].id < 0 || needed[i].id >= out->vocabulary)
            return np_fail(ctx, NEAP_EUNSUPPORTED,
                           "tokenizer: %s is %d, expected a token below the decoder's %d scores: "
                           "not a vocabulary of Whisper",
                           needed[i].name, needed[i].id, out->vocabulary);
    if (out->end > out->start || out->translate <= out->start || out->timestamp < out->start)
        return np_fail(ctx, NEAP_EUNSUPPORTED,
                       "tokenizer: the special tokens are not in Whisper's order");
    out->previous = within(out->previous, out->vocabulary);
    out->start_lm = within(out->start_lm, out->vocabulary);
    out->no_speech = within(out->no_speech, out->vocabulary);
    const int32_t beyond = out->vocabulary - out->timestamp;
    out->timestamps = beyond < NP_WHISPER_TICKS + 1 ? (beyond < 0 ? 0 : beyond)
                                                    : NP_WHISPER_TICKS + 1;
    out->language = out->start + 1;
    out->languages = out->end == ENGLISH_ONLY_END ? 0 : out->translate - out->language;
    return NEAP_OK;
}

/* ---- symbols that are not spoken ------------------------------------------------------------ */

static bool is_suppressed(const np_whisper_tokens *out, int32_t id)
{
    for (int32_t i = 0; i < out->suppressed_count; i++)
        if (out->suppressed[i] == id)
            return true;
    return false;
}

/* The first id of a text, if it is the only one or `part` will do. */
static neap_status suppress(neap_context *ctx, const neap_tokenizer *t, const char *text, bool part,
                            neap_ids *ids, np_whisper_tokens *out)
{
    ids->count = 0;
    const neap_status status = neap_tokenizer_encode(
        ctx, t, text, strlen(text), NEAP_ENCODE_PLAIN | NEAP_ENCODE_NO_BOS, ids);
    if (status != NEAP_OK || ids->count == 0 || (ids->count > 1 && !part))
        return status;
    const int32_t id = ids->data[0];
    if (out->suppressed_count < NP_WHISPER_SUPPRESSED && id < out->vocabulary &&
        !is_suppressed(out, id))
        out->suppressed[out->suppressed_count++] = id;
    return NEAP_OK;
}

/* Whisper's own list. A dash and an apostrophe may stand inside words, so not at their start. */
static neap_status find_suppressed(neap_context *ctx, const neap_tokenizer *t, neap_ids *ids,
                                   np_whisper_tokens *out)
{
    static const char *const symbols[] = {
        "\"", "#", "(", ")", "*", "+", "/", ":", ";", "<", "=", ">", "@", "[", "\\", "]", "^", "_",
        "`", "{", "|", "}", "~", "「", "」", "『", "』", "<<", ">>", "<<<", ">>>", "--", "---", "-(",
        "-[", "('", "(\"", "((", "))", "(((", ")))", "[[", "]]", "{{", "}}", "♪♪", "♪♪♪"};
    static const char *const notes[] = {"♩", "♪", "♫", "♬", "♭", "♮", "♯"}; /* any part of them */
    enum { SYMBOLS = sizeof symbols / sizeof *symbols, NOTES = sizeof notes / sizeof *notes };
    neap_status status = suppress(ctx, t, " -", true, ids, out);
    if (status == NEAP_OK)
        status = suppress(ctx, t, " '", true, ids, out);
    for (int i = 0; i < SYMBOLS + NOTES && status == NEAP_OK; i++) {
        char text[16];
        snprintf(text, sizeof text, " %s", i < SYMBOLS ? symbols[i] : notes[i - SYMBOLS]);
        status = suppress(ctx, t, text + 1, i >= SYMBOLS, ids, out);
        if (status == NEAP_OK)
            status = suppress(ctx, t, text, i >= SYMBOLS, ids, out);
    }
    return status;
}

neap_status np_whisper_find_tokens(neap_context *ctx, const neap_tokenizer *tokenizer,
                                   int32_t vocabulary, np_whisper_tokens *out)
{
    *out = (np_whisper_tokens){.vocabulary = vocabulary, .blank = -1};
    find_special(tokenizer, out);
    neap_status status = check_special(ctx, out);
    neap_ids ids = {0};
    if (status == NEAP_OK)
        status = neap_tokenizer_encode(ctx, tokenizer, " ", 1,
                                       NEAP_ENCODE_PLAIN | NEAP_ENCODE_NO_BOS, &ids);
    if (status == NEAP_OK && ids.count == 1)
        out->blank = ids.data[0];
    if (status == NEAP_OK)
        status = find_suppressed(ctx, tokenizer, &ids, out);
    neap_ids_free(ctx, &ids);
    return status;
}

/* ---- languages ------------------------------------------------------------------------------ */

int32_t np_whisper_find_language(const np_whisper_tokens *tokens, const neap_tokenizer *tokenizer,
                                 const char *code, size_t length)
{
    char text[24];
    const int n = snprintf(text, sizeof text, "<|%.*s|>", (int)(length < 16 ? length : 16), code);
    const int32_t id = length > 16 ? -1 : neap_tokenizer_special(tokenizer, text, (size_t)n);
    return id >= tokens->language && id < tokens->language + tokens->languages ? id : -1;
}

int32_t np_whisper_hear_language(const np_whisper_tokens *tokens, const float *scores)
{
    int32_t best = -1;
    for (int32_t i = 0; i < tokens->languages; i++)
        if (best < 0 || scores[tokens->language + i] > scores[best])
            best = tokens->language + i;
    return best;
}
