/* chat.c - the prompt text of a conversation: which template, and what it gets. */
#include <assert.h>

#include "base/shown.h"
#include "text/jinja/jinja.h"
#include "text/tokenizer.h"

static const struct {
    const char *name, *text;
} templates[] = {
#define NP_CHAT_TEMPLATE(name, text) {name, text},
#include "text/chat_templates.def"
#undef NP_CHAT_TEMPLATE
};

const char *neap_chat_template_name(size_t index)
{
    return index < sizeof templates / sizeof templates[0] ? templates[index].name : NULL;
}

const char *neap_chat_template_named(const char *name, size_t *length)
{
    for (size_t i = 0; name && i < sizeof templates / sizeof templates[0]; i++)
        if (strcmp(templates[i].name, name) == 0) {
            *length = strlen(templates[i].text);
            return templates[i].text;
        }
    *length = 0;
    return NULL;
}

neap_status np_tokenizer_add_template(neap_tokenizer *t, np_bytes name, np_bytes text, bool copied)
{
    if (name.n == 0 && !copied) {
        t->chat_template = text;
        return NEAP_OK;
    }
    t->kept.ctx = t->ctx;
    np_chat_template *added = np_blocks_take(&t->kept, sizeof *added);
    if (copied && added) {
        name.p = name.n ? (const uint8_t *)np_blocks_string(&t->kept, name) : NULL;
        text.p = (const uint8_t *)np_blocks_string(&t->kept, text);
    }
    if (!added || (copied && (!text.p || (name.n && !name.p))))
        return NEAP_ENOMEM;
    *added = (np_chat_template){t->templates, name, text};
    t->templates = added;
    return NEAP_OK;
}

const char *neap_tokenizer_chat_template(const neap_tokenizer *t, const char *name, size_t *length)
{
    const np_bytes wanted = {(const uint8_t *)name, name ? strlen(name) : 0};
    for (const np_chat_template *c = t->templates; c; c = c->next)
        if (c->name.n == wanted.n && (wanted.n == 0 || memcmp(c->name.p, wanted.p, wanted.n) == 0)) {
            *length = c->text.n;
            return (const char *)c->text.p;
        }
    *length = name ? 0 : t->chat_template.n;
    return *length ? (const char *)t->chat_template.p : NULL;
}

/* The template of a file that has none. */
static neap_status default_template(neap_context *ctx, const neap_tokenizer *t, np_bytes *out)
{
    size_t length;
    const char *text = neap_chat_template_named("chatml", &length);
    assert(text);
    *out = (np_bytes){(const uint8_t *)text, length};
    if (neap_tokenizer_special(t, "<|im_start|>", 12) >= 0 &&
        neap_tokenizer_special(t, "<|im_end|>", 10) >= 0)
        return NEAP_OK;
    return np_fail(ctx, NEAP_EUNSUPPORTED,
                   "the file has no chat template and no ChatML tokens; name one (--chat-template), or write "
                   "the prompt with its tags yourself (--raw)");
}

static neap_status check_messages(neap_context *ctx, const neap_chat_message *messages, size_t count)
{
    if (count == 0)
        return np_fail(ctx, NEAP_EINVAL, "chat: no messages");
    for (size_t i = 0; i < count; i++)
        if (!messages[i].role || (!messages[i].content && messages[i].content_length))
            return np_fail(ctx, NEAP_EINVAL, "chat: message %zu has no role or no content", i);
    return NEAP_OK;
}

/* Appends a token's text, if the vocabulary has the token. */
static bool token_text(neap_context *ctx, const neap_tokenizer *t, int32_t id, neap_text *room)
{
    return id < 0 || neap_tokenizer_token_bytes(ctx, t, id, room) == NEAP_OK;
}

static neap_status render(neap_context *ctx, const neap_tokenizer *t, np_bytes text, np_chat_input *input,
                          neap_text *out)
{
    neap_text room = {0}; /* both tokens' texts */
    neap_status status = NEAP_ENOMEM;
    if (token_text(ctx, t, t->bos, &room)) {
        const size_t middle = room.length;
        if (token_text(ctx, t, t->eos, &room)) {
            const uint8_t *texts = room.data ? (const uint8_t *)room.data : (const uint8_t *)"";
            const np_bytes bos = {texts, middle}, eos = {texts + middle, room.length - middle};
            input->bos = t->bos >= 0 ? &bos : NULL;
            input->eos = t->eos >= 0 ? &eos : NULL;
            status = np_jinja_render(ctx, text, input, out);
        }
    }
    neap_text_free(ctx, &room);
    return status;
}

static neap_status chat_render(neap_context *ctx, const neap_tokenizer *tokenizer,
                             const char *chat_template, size_t template_length,
                             const neap_chat_message *messages, size_t count,
                             bool add_generation_prompt, neap_text *out)
{
    np_bytes text = {(const uint8_t *)chat_template, template_length};
    neap_status status = check_messages(ctx, messages, count);
    if (status == NEAP_OK && template_length == 0)
        status = default_template(ctx, tokenizer, &text);
    if (status != NEAP_OK)
        return status;
    np_chat_input input = {
        .messages = messages,
        .count = count,
        .add_generation_prompt = add_generation_prompt,
    };
    return render(ctx, tokenizer, text, &input, out);
}

neap_status neap_chat_render(neap_context *ctx, const neap_tokenizer *tokenizer,
                             const char *chat_template, size_t template_length,
                             const neap_chat_message *messages, size_t count,
                             bool add_generation_prompt, neap_text *out)
{
    return NP_CALL(ctx,
                   tokenizer && out && (chat_template || template_length == 0) && (messages || count == 0),
                   chat_render(ctx, tokenizer, chat_template, template_length, messages, count,
                               add_generation_prompt, out));
}
