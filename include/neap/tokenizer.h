/* neap/tokenizer.h - text to token ids and back, and conversations to prompt text.
 *
 * A tokenizer is immutable once made, so several contexts (threads) may use one at the same time;
 * each call takes the context whose ledger holds its buffers and whose error it sets. Text is bytes
 * with a length, normally UTF-8; other bytes are encoded too and never an error. */
#ifndef NEAP_TOKENIZER_H
#define NEAP_TOKENIZER_H

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- growing results ------------------------------------------------------------------------ */

/* Start both zeroed, as {0}. Calls append; `data` may move. Bytes are on the context's ledger
 * (host); free with the same context. After a failed call the earlier contents are still there. */
typedef struct neap_ids {
    int32_t *data;
    size_t count, capacity; /* elements */
} neap_ids;

typedef struct neap_text {
    char *data; /* not terminated */
    size_t length, capacity; /* bytes */
} neap_text;

/* Room for `count` elements in all, so that appending that many takes nothing more. */
NEAP_API neap_status neap_ids_reserve(neap_context *ctx, neap_ids *ids, size_t count);
NEAP_API neap_status neap_ids_append(neap_context *ctx, neap_ids *ids, const int32_t *values,
                                     size_t count);
NEAP_API neap_status neap_text_append(neap_context *ctx, neap_text *text, const void *bytes,
                                      size_t length);
NEAP_API void neap_ids_free(neap_context *ctx, neap_ids *ids);
NEAP_API void neap_text_free(neap_context *ctx, neap_text *text);

/* ---- tokens --------------------------------------------------------------------------------- */

typedef struct neap_tokenizer neap_tokenizer;

/* Opens a Hugging Face tokenizer.json, or the vocabulary of a GGUF file. Beside a tokenizer.json,
 * tokenizer_config.json is read too if it is there: its `bos_token` and `eos_token` say which tokens
 * those are; otherwise they are what the file puts round a text and a token with a known end name. Its
 * chat templates are kept: neap_tokenizer_chat_template.
 * BPE over bytes or characters. NEAP_EIO, NEAP_EFORMAT (names file, line and byte), NEAP_EUNSUPPORTED (names
 * the part of the file), NEAP_ELIMIT, NEAP_ENOMEM. A model's own tokenizer: neap_model_tokenizer. */
NEAP_API neap_status neap_tokenizer_open(neap_context *ctx, const char *path, neap_tokenizer **out);
NEAP_API void neap_tokenizer_free(neap_tokenizer *tokenizer); /* one from neap_tokenizer_open */

NEAP_API int32_t neap_tokenizer_size(const neap_tokenizer *tokenizer); /* ids are 0 .. size-1 */
NEAP_API int32_t neap_tokenizer_bos(const neap_tokenizer *tokenizer);  /* -1: the file has none */
NEAP_API int32_t neap_tokenizer_eos(const neap_tokenizer *tokenizer);  /* -1: the file has none */

/* Does this id end a text? The file's end-of-sequence and end-of-turn ids, and control tokens that
 * go by a known end name ("<|endoftext|>", "<|im_end|>", "<|eot_id|>" ...). */
NEAP_API bool neap_tokenizer_is_end(const neap_tokenizer *tokenizer, int32_t id);

/* Control and unknown tokens: not part of the text, not printed unless asked for. */
NEAP_API bool neap_tokenizer_is_special(const neap_tokenizer *tokenizer, int32_t id);

/* The id of the special or user-defined token with exactly this text, or -1. */
NEAP_API int32_t neap_tokenizer_special(const neap_tokenizer *tokenizer, const char *text,
                                        size_t length);

/* ---- encode --------------------------------------------------------------------------------- */

enum {
    NEAP_ENCODE_PLAIN = 1,  /* do not recognise control tokens in the text: it is only text */
    NEAP_ENCODE_NO_BOS = 2, /* no BOS, EOS and the like round the text although the file asks for
                               them (a rendered chat has its own) */
};

/* Appends the ids of `length` bytes. Control tokens written in the text become their ids, the
 * leftmost and then longest first; BOS and EOS are added if the file says so. User-defined tokens
 * are recognised always. A byte for which the vocabulary has no token becomes the unknown token,
 * or nothing if there is none (as the vocabulary's own tokenizer does).
 * NEAP_EINVAL, NEAP_ENOMEM, NEAP_ELIMIT (a text over 1 GiB, or one that the pre-tokenizer's pattern
 * cannot split within its step limit); on an error `ids` is as before. */
NEAP_API neap_status neap_tokenizer_encode(neap_context *ctx, const neap_tokenizer *tokenizer,
                                           const char *text, size_t length, unsigned flags,
                                           neap_ids *ids);

/* ---- decode --------------------------------------------------------------------------------- */

enum { NEAP_DECODE_SPECIAL = 1 }; /* print control tokens too */

/* Appends the bytes of one token as they are: perhaps a part of a character. Special tokens give
 * their text. NEAP_EINVAL for an id outside the vocabulary, NEAP_ENOMEM. */
NEAP_API neap_status neap_tokenizer_token_bytes(neap_context *ctx, const neap_tokenizer *tokenizer,
                                                int32_t id, neap_text *out);

/* Appends the text of `count` ids as valid UTF-8: the same as a stream's deltas put together. */
NEAP_API neap_status neap_tokenizer_decode(neap_context *ctx, const neap_tokenizer *tokenizer,
                                           const int32_t *ids, size_t count, unsigned flags,
                                           neap_text *out);

/* Ids one at a time to valid UTF-8, never half a character: the bytes of an unfinished one wait for
 * the next id. Invalid bytes give one U+FFFD for each maximal part of a character. */
typedef struct neap_text_stream {
    const neap_tokenizer *tokenizer;
    unsigned flags;          /* NEAP_DECODE_* */
    unsigned char waiting[4]; /* bytes of an unfinished character */
    int n_waiting;
    bool started; /* a first byte was seen: some vocabularies leave a space before it out */
} neap_text_stream;

NEAP_API void neap_text_stream_init(neap_text_stream *stream, const neap_tokenizer *tokenizer,
                                    unsigned flags);
/* Appends what is now complete; perhaps nothing. NEAP_EINVAL for a bad id, NEAP_ENOMEM. */
NEAP_API neap_status neap_text_stream_push(neap_context *ctx, neap_text_stream *stream, int32_t id,
                                           neap_text *out);
/* Flushes an unfinished character (one U+FFFD); the stream can then be used again. */
NEAP_API neap_status neap_text_stream_finish(neap_context *ctx, neap_text_stream *stream,
                                             neap_text *out);

/* ---- chat ----------------------------------------------------------------------------------- */

typedef struct neap_chat_message {
    const char *role; /* "system", "user", "assistant", or what the template knows; terminated */
    const char *content;
    size_t content_length; /* bytes */
} neap_chat_message;

/* Appends what a Jinja template makes of a conversation, as Hugging Face's transformers would: the
 * template finds `messages` (each with role and content), `add_generation_prompt`, `bos_token` and
 * `eos_token` if the vocabulary has them, and `tools` and `documents`, which are none. With no template
 * (length 0) it is ChatML if the vocabulary has <|im_start|> and <|im_end|>, else NEAP_EUNSUPPORTED.
 * Encode the result with NEAP_ENCODE_NO_BOS. Work and memory are bounded, whatever the template says;
 * docs/formats.md lists what of the language is there. On an error `out` is as before:
 * NEAP_EFORMAT: the template is wrong, or does with a value what cannot be done; NEAP_EINVAL: it
 * refuses the conversation (raise_exception, whose text is the message), or there are no messages;
 * NEAP_EUNSUPPORTED: a part of the language that is not there, by its name; NEAP_ELIMIT; NEAP_ENOMEM. */
NEAP_API neap_status neap_chat_render(neap_context *ctx, const neap_tokenizer *tokenizer,
                                      const char *chat_template, size_t template_length,
                                      const neap_chat_message *messages, size_t count,
                                      bool add_generation_prompt, neap_text *out);

/* The chat template of the tokenizer's file, not terminated: a GGUF file's `tokenizer.chat_template`, or
 * beside a tokenizer.json chat_template.jinja, else `chat_template` of tokenizer_config.json. With a name
 * one of the file's further templates (`tokenizer.chat_template.NAME`). NULL and a length of 0: none. */
NEAP_API const char *neap_tokenizer_chat_template(const neap_tokenizer *tokenizer, const char *name,
                                                  size_t *length);

/* The text of a well-known template, terminated and static ("chatml", "llama3", "gemma" ...); NULL and
 * a length of 0 for another name. */
NEAP_API const char *neap_chat_template_named(const char *name, size_t *length);
/* The names of those, index 0, 1 ...; NULL behind the last. */
NEAP_API const char *neap_chat_template_name(size_t index);

#ifdef __cplusplus
}
#endif
#endif
