/* jinja_json.c - the filter `tojson` as chat templates have it: Python's json.dumps. */
#include <stdio.h>
#include <stdlib.h>

#include "text/jinja/jinja_eval.h"

typedef np_jinja_value value;

typedef struct writer {
    np_jinja *j;
    bool ascii, sorted, lines;
    np_bytes indent, between, colon;
} writer;

static bool write_string(const writer *w, np_bytes text)
{
    static const char from[] = "\"\\\n\r\t\f\b", to[] = "\"\\nrtfb";
    bool good = np_jinja_write_string(w->j, "\"");
    uint32_t code;
    for (size_t at = 0, n; good && at < text.n; at += n) {
        n = np_jinja_char(text.p + at, text.n - at, &code);
        char escape[16] = "";
        const char *known = code && code < 0x80 ? strchr(from, (int)code) : NULL;
        if (known)
            snprintf(escape, sizeof escape, "\\%c", to[known - from]);
        else if (code < 32 || (w->ascii && code >= 0x7F && code < 0x10000))
            snprintf(escape, sizeof escape, "\\u%04x", (unsigned)code);
        else if (w->ascii && code >= 0x10000)
            snprintf(escape, sizeof escape, "\\u%04x\\u%04x", (unsigned)(0xD800 + ((code - 0x10000) >> 10)),
                     (unsigned)(0xDC00 + ((code - 0x10000) & 0x3FF)));
        good = *escape ? np_jinja_write_string(w->j, escape) : np_jinja_write(w->j, text.p + at, n);
    }
    return good && np_jinja_write_string(w->j, "\"");
}

static bool write_line(const writer *w, int depth)
{
    bool good = !w->lines || np_jinja_write_string(w->j, "\n");
    for (int i = 0; good && w->lines && i < depth; i++)
        good = np_jinja_write(w->j, w->indent.p, w->indent.n);
    return good;
}

static bool write_scalar(const writer *w, value v)
{
    char text[40];
    switch (v.kind) {
    case NP_JINJA_NONE:
        return np_jinja_write_string(w->j, "null");
    case NP_JINJA_BOOL:
        return np_jinja_write_string(w->j, v.yes ? "true" : "false");
    case NP_JINJA_INT:
        snprintf(text, sizeof text, "%lld", (long long)v.whole);
        return np_jinja_write_string(w->j, text);
    case NP_JINJA_FLOAT:
        np_jinja_float_text(v.real, text);
        if (!strcmp(text, "nan"))
            strcpy(text, "NaN");
        else if (strstr(text, "inf"))
            strcpy(text, v.real < 0 ? "-Infinity" : "Infinity");
        return np_jinja_write_string(w->j, text);
    case NP_JINJA_STRING:
        return write_string(w, v.text);
    default:
        return NP_JINJA_RAISE(w->j, "tojson of a %s", np_jinja_type(v));
    }
}

static bool write_key(const writer *w, value key)
{
    if (np_jinja_is_string(key))
        return write_string(w, key.text);
    if (key.kind == NP_JINJA_LIST)
        return NP_JINJA_RAISE(w->j, "tojson of a dict with a key that is a %s", np_jinja_type(key));
    return np_jinja_write_string(w->j, "\"") && write_scalar(w, key) && np_jinja_write_string(w->j, "\"");
}

static bool write_value(const writer *w, value v, int depth);

static bool write_dict(const writer *w, const np_jinja_dict *d, int depth)
{
    size_t *order = np_jinja_take(w->j, d->n, sizeof *order);
    bool good = order && np_jinja_write_string(w->j, "{");
    for (size_t i = 0; good && i < d->n; i++) { /* in place of the ones behind it, if sorted */
        size_t at = i;
        for (int less = -1; good && w->sorted && at > 0; at--) {
            good = np_jinja_order(w->j, d->at[i].key, d->at[order[at - 1]].key, &less);
            if (!good || less >= 0)
                break;
            order[at] = order[at - 1];
        }
        order[at] = i;
    }
    for (size_t i = 0; good && i < d->n; i++) {
        const np_jinja_pair *p = &d->at[order[i]];
        good = (i == 0 || np_jinja_write(w->j, w->between.p, w->between.n)) && write_line(w, depth + 1) &&
               write_key(w, p->key) && np_jinja_write(w->j, w->colon.p, w->colon.n) &&
               write_value(w, p->value, depth + 1);
    }
    return good && (d->n == 0 || write_line(w, depth)) && np_jinja_write_string(w->j, "}");
}

static bool write_list(const writer *w, const np_jinja_list *l, int depth)
{
    bool good = np_jinja_write_string(w->j, "[");
    for (size_t i = 0; good && i < l->n; i++)
        good = (i == 0 || np_jinja_write(w->j, w->between.p, w->between.n)) && write_line(w, depth + 1) &&
               write_value(w, l->at[i], depth + 1);
    return good && (l->n == 0 || write_line(w, depth)) && np_jinja_write_string(w->j, "]");
}

static bool write_value(const writer *w, value v, int depth)
{
    if (depth > NP_JINJA_NESTING)
        return np_jinja_fail(w->j, NEAP_ELIMIT, "lists nested over %d deep", NP_JINJA_NESTING);
    if (v.kind == NP_JINJA_DICT)
        return write_dict(w, v.dict, depth);
    if (v.kind == NP_JINJA_LIST && (v.form == NP_JINJA_PLAIN || v.form == NP_JINJA_TUPLE))
        return write_list(w, v.list, depth);
    return write_scalar(w, v);
}

static bool read_indent(writer *w, value indent)
{
    int64_t width;
    if (indent.kind == NP_JINJA_ABSENT || indent.kind == NP_JINJA_NONE)
        return true;
    w->lines = true;
    w->between = (np_bytes){(const uint8_t *)",", 1};
    if (np_jinja_is_string(indent)) {
        w->indent = indent.text;
        return true;
    }
    if (!np_jinja_as_whole(indent, &width))
        return NP_JINJA_RAISE(w->j, "tojson with indent=%s", np_jinja_type(indent));
    width = width < 0 ? 0 : width;
    uint8_t *spaces = np_jinja_take(w->j, (uint64_t)width, 1);
    if (spaces)
        memset(spaces, ' ', (size_t)width);
    w->indent = (np_bytes){spaces, (uint64_t)width};
    return spaces != NULL;
}

static bool read_separators(writer *w, value separators)
{
    np_jinja_list items;
    if (separators.kind == NP_JINJA_ABSENT || separators.kind == NP_JINJA_NONE)
        return true;
    if (!np_jinja_items(w->j, separators, &items))
        return false;
    if (items.n != 2 || !np_jinja_is_string(items.at[0]) || !np_jinja_is_string(items.at[1]))
        return NP_JINJA_RAISE(w->j, "tojson with separators that are not two strings");
    w->between = items.at[0].text;
    w->colon = items.at[1].text;
    return true;
}

/* ensure_ascii, indent, separators, sort_keys */
bool np_jinja_to_json(np_jinja *j, value v, const value *at, value *out)
{
    writer w = {.j = j, .ascii = np_jinja_truth(at[0]), .sorted = np_jinja_truth(at[3])};
    w.between = (np_bytes){(const uint8_t *)", ", 2};
    w.colon = (np_bytes){(const uint8_t *)": ", 2};
    const size_t start = j->out->length;
    return read_indent(&w, at[1]) && read_separators(&w, at[2]) && write_value(&w, v, 0) &&
           np_jinja_taken(j, start, out);
}
