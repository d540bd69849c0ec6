/* token_names.c - which tokens end a text. A GGUF file's types are often wrong about them, so names
 * decide, the same as llama.cpp's: a token with such a name is a control token whatever its type. */
#include "text/tokenizer.h"

static bool is_one_of(np_bytes piece, const char *const *names)
{
    for (; *names; names++)
        if (strlen(*names) == piece.n && memcmp(*names, piece.p, piece.n) == 0)
            return true;
    return false;
}

static bool is(np_bytes piece, const char *name)
{
    return is_one_of(piece, (const char *const[]){name, NULL});
}

static const char *const end_names[] = {
    "<|eot_id|>",    "<|im_end|>",      "<|end|>",   "<|return|>",
    "<|call|>",      "<|flush|>",       "<|calls|>", "<end_of_turn>",
    "<|endoftext|>", "</s>",            "<|eom_id|>", "<EOT>",
    "_<EOT>",        "[EOT]",           "[EOS]",     "<|end_of_text|>",
    "<end_of_utterance>", "<eos>",      "<turn|>",   "<|tool_response>",
    "<｜end▁of▁sentence｜>", "[e~[", NULL};

/* What is between files in training data: where one of these comes, a text has ended. */
static const char *const pad_names[] = {"<|fim_pad|>", "<fim-pad>", "<fim_pad>",
                                        "<PAD>",       "[PAD]",     NULL};
static const char *const repository_names[] = {"<|fim_repo|>", "<|repo_name|>", "<fim-repo>",
                                               "<REPO>",       "<reponame>",    NULL};
static const char *const file_names[] = {"<|file_sep|>", NULL};

/* Control tokens by name that end nothing. */
static const char *const infill_names[] = {
    "<|fim_prefix|>", "<fim-prefix>",    "<fim_prefix>",    "<｜fim▁begin｜>", "<PRE>",
    "▁<PRE>",         "<|code_prefix|>", "<|prefix|>",      "<|fim_suffix|>",  "<fim-suffix>",
    "<fim_suffix>",   "<｜fim▁hole｜>",  "<SUF>",           "▁<SUF>",          "<|code_suffix|>",
    "<|suffix|>",     "<|fim_middle|>",  "<fim-middle>",    "<fim_middle>",    "<｜fim▁end｜>",
    "<MID>",          "▁<MID>",          "<|code_middle|>", "<|middle|>",      NULL};

/* gpt-oss: shown, as the text between them has no meaning without. */
static const char *const shown_names[] = {"<|channel|>", "<|message|>", "<|start|>",
                                          "<|constrain|>", NULL};

bool np_is_end_name(np_bytes piece)
{
    return is_one_of(piece, end_names);
}

static void set_type(neap_tokenizer *t, int64_t id, np_token_type type)
{
    t->type[id] = (uint16_t)((t->type[id] & ~NP_TOKEN_TYPE_MASK) | type);
}

static bool ends_by_name(np_bytes piece, const np_vocab *v)
{
    return is_one_of(piece, end_names) || (v->fim_pad < 0 && is_one_of(piece, pad_names)) ||
           (v->fim_rep < 0 && is_one_of(piece, repository_names)) ||
           (v->fim_sep < 0 && is_one_of(piece, file_names));
}

typedef struct seen {
    bool returns, calls, flushes, no_s;
    int64_t end, s;
} seen;

static void note(seen *s, np_bytes piece, int64_t id)
{
    s->returns = s->returns || is(piece, "<|return|>");
    s->calls = s->calls || is(piece, "<|call|>") || is(piece, "<|calls|>");
    s->flushes = s->flushes || is(piece, "<|flush|>");
    s->no_s = s->no_s || is(piece, "<|tool_response>") || is(piece, "<|plamo:eos|>");
    s->end = is(piece, "<|end|>") ? id : s->end;
    s->s = is(piece, "</s>") ? id : s->s;
}

/* In some vocabularies a name on the list means something else. */
static void take_back(neap_tokenizer *t, bool own)
{
    seen s = {.end = -1, .s = -1};
    for (uint32_t id = 0; id < t->n_tokens; id++)
        if (t->type[id] & NP_TOKEN_END)
            note(&s, np_token_piece(t, (int32_t)id), id);
    if (s.end >= 0 && s.calls && (s.returns || s.flushes)) {
        t->type[s.end] &= (uint16_t)~NP_TOKEN_END;
        if (!own)
            set_type(t, s.end, NP_TOKEN_USER_DEFINED);
    }
    if (s.s >= 0 && s.no_s) {
        t->type[s.s] &= (uint16_t)~NP_TOKEN_END;
        if (!own)
            set_type(t, s.s, NP_TOKEN_NORMAL);
    }
}

/* A tokenizer.json says itself what is special; there names only say what ends a text. */
void np_tokenizer_mark_ends(neap_tokenizer *t, const np_vocab *v)
{
    const int64_t named[] = {v->eos, v->eot, v->eom, v->fim_pad, v->fim_rep, v->fim_sep};
    bool own = v->rules != NULL;
    for (uint32_t id = 0; id < t->n_tokens; id++) {
        np_bytes piece = np_token_piece(t, (int32_t)id);
        np_token_type type = np_token_type_of(t, (int32_t)id);
        bool end = ends_by_name(piece, v);
        if (end && (!own || type == NP_TOKEN_CONTROL || type == NP_TOKEN_USER_DEFINED))
            t->type[id] |= NP_TOKEN_END;
        if (!own && (end || is_one_of(piece, infill_names)))
            set_type(t, id, NP_TOKEN_CONTROL);
        if (!own && is_one_of(piece, shown_names))
            set_type(t, id, NP_TOKEN_USER_DEFINED);
    }
    for (size_t i = 0; i < sizeof named / sizeof *named; i++)
        if (named[i] >= 0)
            t->type[named[i]] |= NP_TOKEN_END;
    take_back(t, own);
}
