/* handle_options.c - the runtime options of a handle. */
#include <stdio.h>
#include <string.h>

#include "program/handle.h"

typedef struct option_row {
    const char *key;
    neap_option_kind kind;
    const char *range;
} option_row;

enum { CLEAR_INTERVAL, THRESHOLD, SKIP_BUFFERS, CACHE_KEY };
static const option_row rows[] = {
    [CLEAR_INTERVAL] = {"clear_cache_interval", NEAP_OPTION_INT, "an integer, 0 or more (0: never)"},
    [THRESHOLD] = {"eval_threshold_bytes", NEAP_OPTION_INT, "an integer, 0 to 2^63-1 (0: off)"},
    [SKIP_BUFFERS] = {"skip_mutable_buffer_init", NEAP_OPTION_BOOL, "true or false"},
    [CACHE_KEY] = {"cache_key", NEAP_OPTION_STRING, "the key of an installed cache, 1 to 63 bytes"},
};
enum { ROWS = sizeof rows / sizeof *rows };

bool neap_option_kind_of(const char *key, neap_option_kind *out)
{
    for (int i = 0; key && i < ROWS; i++) {
        if (strcmp(rows[i].key, key) == 0) {
            *out = rows[i].kind;
            return true;
        }
    }
    return false;
}

static const char *kind_name(neap_option_kind kind)
{
    return kind == NEAP_OPTION_INT    ? "an integer"
           : kind == NEAP_OPTION_BOOL ? "true or false"
                                      : "a string";
}

static const char *shown(const neap_option *o, char *text, size_t size)
{
    if (o->kind == NEAP_OPTION_INT)
        snprintf(text, size, "%lld", (long long)o->integer);
    else if (o->kind == NEAP_OPTION_BOOL)
        snprintf(text, size, "%s", o->integer ? "true" : "false");
    else
        snprintf(text, size, "\"%.80s\"", o->text ? o->text : "");
    return text;
}

static neap_status refuse(neap_context *ctx, const neap_option *o, const option_row *row)
{
    char text[100];
    if (o->kind != row->kind)
        return np_fail(ctx, NEAP_EINVAL, "option %s: %s is %s, expected %s", row->key,
                       shown(o, text, sizeof text), kind_name(o->kind), row->range);
    return np_fail(ctx, NEAP_EINVAL, "option %s: %s, expected %s", row->key,
                   shown(o, text, sizeof text), row->range);
}

static neap_status read_one(neap_program *p, neap_context *ctx, const neap_option *o,
                            np_run_options *out)
{
    int i = 0;
    while (i < ROWS && (!o->key || strcmp(rows[i].key, o->key) != 0))
        i++;
    if (i == ROWS)
        return np_fail(ctx, NEAP_EINVAL,
                       "option %.63s: unknown; there are clear_cache_interval, "
                       "eval_threshold_bytes, skip_mutable_buffer_init, cache_key",
                       o->key ? o->key : "(none)");
    const option_row *row = &rows[i];
    size_t length = o->kind == NEAP_OPTION_STRING && o->text ? strlen(o->text) : 0;
    if (o->kind != row->kind || (o->kind == NEAP_OPTION_INT && o->integer < 0) ||
        (o->kind == NEAP_OPTION_STRING && (length == 0 || length > 63)))
        return refuse(ctx, o, row);
    switch (i) {
    case CLEAR_INTERVAL:
        out->clear_interval = o->integer;
        break;
    case THRESHOLD:
        out->threshold = (uint64_t)o->integer;
        break;
    case SKIP_BUFFERS:
        out->skip_buffers = o->integer != 0;
        break;
    default:
        out->cache = np_cache_find(&p->caches, o->text);
        if (!out->cache)
            return np_fail(ctx, NEAP_EINVAL, "option cache_key: no cache is installed as \"%s\"",
                           o->text);
    }
    return NEAP_OK;
}

neap_status np_options_read(neap_program *p, neap_context *ctx, const neap_handle_options *o,
                            np_run_options *out)
{
    memset(out, 0, sizeof *out);
    if (o->n_options < 0 || (o->n_options > 0 && !o->options))
        return np_fail(ctx, NEAP_EINVAL, "options: %d of them, expected 0 or more", o->n_options);
    for (int i = 0; i < o->n_options; i++) {
        neap_status status = read_one(p, ctx, &o->options[i], out);
        if (status != NEAP_OK)
            return status;
    }
    return NEAP_OK;
}
