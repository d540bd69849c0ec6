/* jinja.c - a template and a conversation become text. */
#include "text/jinja/jinja.h"

#include "text/jinja/jinja_eval.h"

typedef np_jinja_value value;

/* A template that does something for every byte of a long conversation is still let through. */
enum { LEAST_STEPS = 4 << 20, STEPS_A_BYTE = 64, LEAST_BYTES = 64 << 20, BYTES_A_BYTE = 64 };

static bool make_messages(np_jinja *j, const np_chat_input *input, value *out)
{
    if (!np_jinja_new_list(j, input->count, NP_JINJA_PLAIN, out))
        return false;
    for (size_t i = 0; i < input->count; i++) {
        const neap_chat_message *m = &input->messages[i];
        np_jinja_dict *dict = np_jinja_take(j, 1, sizeof *dict);
        const np_bytes content = {(const uint8_t *)m->content, m->content_length};
        if (!dict || !np_jinja_put(j, dict, np_jinja_string("role"), np_jinja_string(m->role)) ||
            !np_jinja_put(j, dict, np_jinja_string("content"),
                          content.n ? np_jinja_text(content) : np_jinja_string("")))
            return false;
        out->list->at[i] = (value){.kind = NP_JINJA_DICT, .dict = dict};
    }
    return true;
}

/* The names that a template finds. */
static bool set_context(np_jinja *j, const np_chat_input *input)
{
    value messages;
    np_jinja_scope *given = np_jinja_new_scope(j, NULL);
    if (!given || !np_jinja_set_functions(j, given) || !make_messages(j, input, &messages) ||
        !np_jinja_set_word(j, given, "messages", messages) ||
        !np_jinja_set_word(j, given, "tools", NP_JINJA_NOTHING) ||
        !np_jinja_set_word(j, given, "documents", NP_JINJA_NOTHING) ||
        !np_jinja_set_word(j, given, "add_generation_prompt", np_jinja_yes(input->add_generation_prompt)) ||
        (input->bos && !np_jinja_set_word(j, given, "bos_token", np_jinja_text(*input->bos))) ||
        (input->eos && !np_jinja_set_word(j, given, "eos_token", np_jinja_text(*input->eos))))
        return false;
    j->scope = np_jinja_new_scope(j, given);
    return j->scope != NULL;
}

neap_status np_jinja_render(neap_context *ctx, np_bytes text, const np_chat_input *input, neap_text *out)
{
    const np_jinja_node *body;
    np_jinja_flow flow;
    const size_t length = out->length;
    uint64_t bytes = text.n;
    for (size_t i = 0; i < input->count; i++)
        bytes += input->messages[i].content_length;
    if (bytes > (uint64_t)1 << 40)
        return np_fail(ctx, NEAP_ELIMIT, "chat: a conversation of %llu bytes", (unsigned long long)bytes);
    np_jinja j = {.ctx = ctx, .memory = {.ctx = ctx}, .out = out};
    j.most_steps = LEAST_STEPS + STEPS_A_BYTE * bytes;
    j.most_bytes = LEAST_BYTES + BYTES_A_BYTE * bytes + length;
    const bool good = np_jinja_parse(&j, text, &body) && set_context(&j, input) && np_jinja_run(&j, body, &flow);
    np_blocks_free(&j.memory);
    if (good)
        return NEAP_OK;
    out->length = length;
    return neap_context_status(ctx);
}
