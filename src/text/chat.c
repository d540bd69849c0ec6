/* chat.c - the prompt text of a conversation, in the format of the model's template. */
#include <assert.h>

#include "base/utf8.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

static const np_chat_style styles[] = {
#define NP_CHAT_STYLE(name_, ...) {.name = #name_, __VA_ARGS__},
#define NP_CHAT_TEMPLATE(fingerprint, style)
#include "text/chat_templates.def"
#undef NP_CHAT_STYLE
#undef NP_CHAT_TEMPLATE
};

static const struct {
    uint64_t fingerprint;
    const char *style;
} templates[] = {
#define NP_CHAT_STYLE(...)
#define NP_CHAT_TEMPLATE(fingerprint, style) {fingerprint, #style},
#include "text/chat_templates.def"
#undef NP_CHAT_STYLE
#undef NP_CHAT_TEMPLATE
};

const np_chat_style *np_chat_style_named(const char *name)
{
    for (size_t i = 0; i < sizeof styles / sizeof styles[0]; i++)
        if (strcmp(styles[i].name, name) == 0)
            return &styles[i];
    return NULL;
}

const np_chat_style *np_chat_style_of(uint64_t fingerprint)
{
    for (size_t i = 0; i < sizeof templates / sizeof templates[0]; i++)
        if (templates[i].fingerprint == fingerprint)
            return np_chat_style_named(templates[i].style);
    return NULL;
}

/* ---- rendering ------------------------------------------------------------------------------ */

/* White space as Python's str.strip has it, which Jinja's `trim` is. */
static bool is_space(uint32_t code)
{
    return (code >= 9 && code <= 13) || (code >= 28 && code <= 32) || code == 0x85 ||
           code == 0xA0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 ||
           code == 0x2029 || code == 0x202F || code == 0x205F || code == 0x3000;
}

static np_bytes trimmed(np_bytes text)
{
    size_t n;
    while (text.n && np_utf8_next(text.p, text.n, &n) == NP_UTF8_CHAR &&
           is_space(np_utf8_decode(text.p, n))) {
        text.p += n;
        text.n -= n;
    }
    while (text.n) {
        size_t back = 1;
        while (back < 4 && back < text.n && (text.p[text.n - back] & 0xC0) == 0x80)
            back++;
        const uint8_t *last = text.p + text.n - back;
        if (np_utf8_next(last, back, &n) != NP_UTF8_CHAR || n != back ||
            !is_space(np_utf8_decode(last, n)))
            break;
        text.n -= back;
    }
    return text;
}

typedef struct renderer {
    neap_context *ctx;
    const np_chat_style *style;
    neap_text *out;
} renderer;

static bool put_string(const renderer *r, const char *text)
{
    return np_text_append(r->ctx, r->out, text, strlen(text));
}

static bool put_turn(const renderer *r, const char *role, const char *prefix, np_bytes content)
{
    if (r->style->trim)
        content = trimmed(content);
    return put_string(r, r->style->before_role) && put_string(r, role) &&
           put_string(r, r->style->after_role) && put_string(r, prefix) &&
           np_text_append(r->ctx, r->out, content.p, content.n) &&
           put_string(r, r->style->after_content);
}

static bool is_system(const neap_chat_message *m)
{
    return strcmp(m->role, "system") == 0;
}

static bool render(const renderer *r, const neap_tokenizer *t, const neap_chat_message *messages,
                   size_t count, bool add_generation_prompt)
{
    const np_chat_style *s = r->style;
    static const uint8_t nothing[] = "";
    if (s->bos && t->bos >= 0 && neap_tokenizer_token_bytes(r->ctx, t, t->bos, r->out) != NEAP_OK)
        return false;
    if (!is_system(&messages[0])) {
        const char *system = s->default_system ? s->default_system : "";
        np_bytes content = {(const uint8_t *)system, strlen(system)};
        if ((s->default_system || s->system_prefix) &&
            !put_turn(r, "system", s->system_prefix ? s->system_prefix : "", content))
            return false;
    }
    for (size_t i = 0; i < count; i++) {
        np_bytes content = {(const uint8_t *)messages[i].content, messages[i].content_length};
        if (content.n == 0)
            content.p = nothing;
        const char *prefix =
            i == 0 && is_system(&messages[0]) && s->system_prefix ? s->system_prefix : "";
        if (!put_turn(r, messages[i].role, prefix, content))
            return false;
    }
    return !(add_generation_prompt || s->always_generate) || put_string(r, s->generation);
}

static neap_status choose_style(neap_context *ctx, const neap_tokenizer *t, const char *text,
                                size_t length, const np_chat_style **out)
{
    if (length > 0) {
        uint64_t fingerprint = np_chat_fingerprint(text, length);
        *out = np_chat_style_of(fingerprint);
        if (*out)
            return NEAP_OK;
        return np_fail(ctx, NEAP_EUNSUPPORTED,
                       "the file's chat template (fingerprint %016llx) is not one of those known; "
                       "write the prompt with its tags yourself (--raw)",
                       (unsigned long long)fingerprint);
    }
    *out = np_chat_style_named("chatml");
    assert(*out);
    if (neap_tokenizer_special(t, "<|im_start|>", 12) >= 0 &&
        neap_tokenizer_special(t, "<|im_end|>", 10) >= 0)
        return NEAP_OK;
    return np_fail(ctx, NEAP_EUNSUPPORTED,
                   "the file has no chat template and no ChatML tokens; use --raw");
}

neap_status np_chat_render_style(neap_context *ctx, const neap_tokenizer *tokenizer,
                                 const np_chat_style *style, const neap_chat_message *messages,
                                 size_t count, bool add_generation_prompt, neap_text *out)
{
    if (count == 0)
        return np_fail(ctx, NEAP_EINVAL, "chat: no messages");
    for (size_t i = 0; i < count; i++) {
        const char *role = messages[i].role ? messages[i].role : "";
        if (strcmp(role, "system") != 0 && strcmp(role, "user") != 0 &&
            strcmp(role, "assistant") != 0)
            return np_fail(
                ctx, NEAP_EINVAL,
                "chat: message %zu has role \"%.40s\", expected system, user or assistant", i,
                role);
    }
    size_t length = out->length;
    const renderer r = {ctx, style, out};
    if (!render(&r, tokenizer, messages, count, add_generation_prompt)) {
        out->length = length;
        return NEAP_ENOMEM;
    }
    return NEAP_OK;
}

neap_status neap_chat_render(neap_context *ctx, const neap_tokenizer *tokenizer,
                             const char *chat_template, size_t template_length,
                             const neap_chat_message *messages, size_t count,
                             bool add_generation_prompt, neap_text *out)
{
    const np_chat_style *style;
    neap_status status = choose_style(ctx, tokenizer, chat_template, template_length, &style);
    if (status != NEAP_OK)
        return status;
    return np_chat_render_style(ctx, tokenizer, style, messages, count, add_generation_prompt, out);
}
