/* known.c - see known.h. */
#include "models/known.h"

#include <stdio.h>
#include <string.h>

#include "base/shown.h"
#include "models/model.h"

static bool begins(np_bytes text, const char *with)
{
    return text.n >= strlen(with) && memcmp(text.p, with, strlen(with)) == 0;
}

/* ---- what kind of file ------------------------------------------------------------------------
 */

neap_status np_model_check_kind(const neap_model *m)
{
    uint32_t parts = 1, part = 0;
    neap_status status = np_gguf_u32(m->gguf, "split.count", NP_GGUF_OPTIONAL, &parts);
    if (status == NEAP_OK)
        status = np_gguf_u32(m->gguf, "split.no", NP_GGUF_OPTIONAL, &part);
    if (status == NEAP_OK && parts > 1)
        return np_fail(m->ctx, NEAP_EUNSUPPORTED,
                       "%s: part %lld of %lld of a split file; join them: "
                       "llama-gguf-split --merge FIRST-PART OUT.gguf",
                       m->gguf->name, (long long)part + 1, (long long)parts);
    np_bytes type = {0};
    if (status == NEAP_OK)
        status = np_gguf_string(m->gguf, "general.type", NP_GGUF_OPTIONAL, &type);
    if (status == NEAP_OK && type.n && !np_bytes_equal(type, "model"))
        return np_fail(m->ctx, NEAP_EUNSUPPORTED,
                       "%s: key 'general.type' is \"%s\": Neap runs models only", m->gguf->name,
                       np_show(type).text);
    return status;
}

/* ---- keys -------------------------------------------------------------------------------------
 */

/* A key's value for a message. */
static void value_text(const np_gguf_value *v, char *out, size_t room)
{
    double number;
    if (v->is_array)
        snprintf(out, room, "an array of %s", np_gguf_type_name(v->type));
    else if (v->type == NP_GGUF_STRING)
        snprintf(out, room, "\"%s\"", np_show(v->data).text);
    else if (np_gguf_number(v, &number))
        snprintf(out, room, v->type == NP_GGUF_BOOL ? (number != 0 ? "true" : "false") : "%.9g",
                 number);
    else
        snprintf(out, room, "of type %s", np_gguf_type_name(v->type));
}

static bool neutral(const np_key_row *row, const np_gguf_value *v)
{
    double number;
    return row->rule == NP_KEY_ONLY && np_gguf_number(v, &number) &&
           (number == row->a || number == row->b);
}

const np_key_row *np_known_row(const np_key_row *rows, size_t n, np_bytes key)
{
    for (size_t i = 0; i < n; i++)
        if (np_bytes_equal(key, rows[i].name))
            return rows + i;
    return NULL;
}

neap_status np_known_check_key(const np_gguf *g, const np_key_row *row, const np_gguf_value *v)
{
    char text[NP_SHOWN_NAME + 16];
    if (!row)
        return np_fail(g->ctx, NEAP_EUNSUPPORTED,
                       "%s: key '%s' is not known to Neap and may change what the model says",
                       g->name, np_show(v->key).text);
    if (row->rule <= NP_KEY_HARMLESS || neutral(row, v))
        return NEAP_OK;
    value_text(v, text, sizeof text);
    return np_fail(g->ctx, NEAP_EUNSUPPORTED, "%s: key '%s' is %s: %s, which Neap does not do",
                   g->name, row->name, text, row->why);
}

neap_status np_model_check_keys(const neap_model *m)
{
    const np_known *known = m->arch->known;
    neap_status status = NEAP_OK;
    char prefix[40];
    snprintf(prefix, sizeof prefix, "%s.", m->arch->name);
    for (uint32_t i = 0; status == NEAP_OK && i < m->gguf->n_values; i++) {
        const np_gguf_value *v = m->gguf->values + i;
        const np_key_row *row = np_known_row(known->keys, known->n_keys, v->key);
        if (row || begins(v->key, prefix) || begins(v->key, "adapter."))
            status = np_known_check_key(m->gguf, row, v);
    }
    return status;
}

/* ---- tensors ----------------------------------------------------------------------------------
 */

/* The name behind "blk.N.", and N; all of it, and -1, if it does not begin so. */
static np_bytes in_block(np_bytes name, int64_t *block)
{
    uint64_t i = 4, n = 0;
    *block = -1;
    if (!begins(name, "blk."))
        return name;
    for (; i < name.n && i < 14 && name.p[i] >= '0' && name.p[i] <= '9'; i++)
        n = 10 * n + (uint64_t)(name.p[i] - '0');
    if (i == 4 || i >= name.n || name.p[i] != '.')
        return name;
    *block = (int64_t)n;
    return (np_bytes){name.p + i + 1, name.n - i - 1};
}

static neap_status refuse_tensor(const neap_model *m, const np_gguf_tensor *t)
{
    const np_known *known = m->arch->known;
    int64_t block;
    const np_bytes name = in_block(t->name, &block);
    const np_shown shown = np_show(t->name);
    const char *full = shown.text;
    if (block >= m->sizes.layers)
        return np_fail(m->ctx, NEAP_EUNSUPPORTED,
                       "%s: tensor %s lies beyond the %lld blocks that the file names",
                       m->gguf->name, full, (long long)m->sizes.layers);
    for (size_t i = 0; i < known->n_tensors; i++)
        if (np_bytes_equal(name, known->tensors[i].name))
            return np_fail(m->ctx, NEAP_EUNSUPPORTED, "%s: tensor %s: %s, which Neap does not do",
                           m->gguf->name, full, known->tensors[i].why);
    return np_fail(m->ctx, NEAP_EUNSUPPORTED,
                   "%s: tensor %s is not known to Neap and may change what the model says",
                   m->gguf->name, full);
}

neap_status np_model_check_tensors(const neap_model *m)
{
    for (uint32_t i = 0; i < m->gguf->n_tensors; i++)
        if (!m->weights[i])
            return refuse_tensor(m, m->gguf->tensors + i);
    return NEAP_OK;
}
