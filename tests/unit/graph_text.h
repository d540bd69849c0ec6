/* graph_text.h - a graph's instructions as text, in the form of the lists that lie beside the
 * models
 * (*.instr.txt): for comparing, field by field, with what another reader made of the same file. */
#ifndef GRAPH_TEXT_H
#define GRAPH_TEXT_H

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "program/graph.h"

typedef struct graph_text {
    char *text;
    size_t n, capacity;
} graph_text;

__attribute__((format(printf, 2, 3))) static void say(graph_text *t, const char *format, ...)
{
    for (int round = 0; round < 2; round++) {
        va_list args;
        va_start(args, format);
        const int n = vsnprintf(t->text + t->n, t->capacity - t->n, format, args);
        va_end(args);
        if (t->n + (size_t)n < t->capacity) {
            t->n += (size_t)n;
            return;
        }
        t->capacity = 2 * t->capacity + (size_t)n + 4096;
        t->text = realloc(t->text, t->capacity);
        if (!t->text)
            abort();
    }
}

static void say_int(graph_text *t, np_int v)
{
    if (v.is_vid)
        say(t, "{'vid': %d}", v.value);
    else
        say(t, "{'literal': %d}", v.value);
}

/* As Python writes it: the shortest text that reads back the same, whole numbers with ".0". */
static void say_real(graph_text *t, double v)
{
    char text[40];
    if (v > -1e16 && v < 1e16 && v == (double)(int64_t)v) {
        say(t, "%.1f", v);
        return;
    }
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, v);
        if (strtod(text, NULL) == v)
            break;
    }
    say(t, "%s", text);
}

static void say_list(graph_text *t, const np_field *f, const void *p)
{
    const np_tids *tids = p;
    const np_ints *ints = p;
    const np_i32s *numbers = p;
    const np_strings *strings = p; /* all begin with a count */
    say(t, "[");
    for (uint32_t i = 0; i < tids->n; i++) {
        if (i)
            say(t, ", ");
        switch (f->kind) {
        case NP_FIELD_TIDS:
        case NP_FIELD_OUTS:
            say(t, "'tid %d'", tids->at[i]);
            break;
        case NP_FIELD_INTS:
        case NP_FIELD_OPT_INTS:
            say_int(t, ints->at[i]);
            break;
        case NP_FIELD_STRINGS:
            say(t, "'%s'", strings->at[i]);
            break;
        default:
            say(t, "%d", numbers->at[i]);
        }
    }
    say(t, "]");
}

static void say_float(graph_text *t, const np_float *v)
{
    if (v->is_vid) {
        say(t, "vid %u", v->vid);
        return;
    }
    say(t, "{'literal': ");
    say_real(t, v->value);
    say(t, "}");
}

static void say_index(graph_text *t, const np_index *v)
{
    say(t,
        v->kind == NP_INDEX_LITERAL ? "{'literal': %d}"
        : v->kind == NP_INDEX_VID   ? "vid %d"
                                    : "tid %d",
        v->value);
}

static void say_scalar(graph_text *t, const np_field *f, const void *p)
{
    switch (f->kind) {
    case NP_FIELD_OPT_I32:
        say(t, "%d", ((const np_opt_i32 *)p)->value);
        break;
    case NP_FIELD_U64:
        say(t, "%llu", (unsigned long long)*(const uint64_t *)p);
        break;
    case NP_FIELD_F32:
        say_real(t, *(const float *)p);
        break;
    case NP_FIELD_OPT_F32:
        say_real(t, ((const np_opt_f32 *)p)->value);
        break;
    case NP_FIELD_BOOL:
        say(t, *(const bool *)p ? "True" : "False");
        break;
    case NP_FIELD_DTYPE:
        say(t, "%s", neap_dtype_describe(*(const neap_dtype *)p)->name);
        break;
    case NP_FIELD_OPT_DTYPE:
        say(t, "%s", neap_dtype_describe(((const np_opt_dtype *)p)->value)->name);
        break;
    default:
        say(t, "%d", *(const int32_t *)p);
    }
}

static void say_field(graph_text *t, const np_field *f, const char *fields)
{
    const void *p = fields + f->offset;
    switch (f->kind) {
    case NP_FIELD_TID:
    case NP_FIELD_OPT_TID:
    case NP_FIELD_OUT:
        say(t, "tid %d", *(const int32_t *)p);
        break;
    case NP_FIELD_OUT_VID:
    case NP_FIELD_OPT_VID:
        say(t, "vid %d", *(const int32_t *)p);
        break;
    case NP_FIELD_INT:
    case NP_FIELD_OPT_INT:
        if (((const np_int *)p)->is_vid)
            say(t, "vid %d", ((const np_int *)p)->value);
        else
            say_int(t, *(const np_int *)p);
        break;
    case NP_FIELD_FLOAT:
        say_float(t, p);
        break;
    case NP_FIELD_VID_OR_TID:
        say(t, ((const np_vid_or_tid *)p)->is_vid ? "vid %u" : "tid %u",
            ((const np_vid_or_tid *)p)->number);
        break;
    case NP_FIELD_INDEX:
        say_index(t, p);
        break;
    case NP_FIELD_STRING:
    case NP_FIELD_OPT_STRING:
        say(t, "%s", *(const char *const *)p);
        break;
    case NP_FIELD_TIDS:
    case NP_FIELD_OUTS:
    case NP_FIELD_INTS:
    case NP_FIELD_OPT_INTS:
    case NP_FIELD_STRINGS:
    case NP_FIELD_I32S:
    case NP_FIELD_OPT_I32S:
    case NP_FIELD_I8S:
        say_list(t, f, p);
        break;
    default:
        say_scalar(t, f, p);
    }
}

static bool is_absent(const np_field *f, const char *fields)
{
    const void *p = fields + f->offset;
    switch (f->kind) {
    case NP_FIELD_OPT_TID:
    case NP_FIELD_OPT_VID:
        return *(const int32_t *)p < 0;
    case NP_FIELD_OPT_I32:
        return !((const np_opt_i32 *)p)->present;
    case NP_FIELD_OPT_F32:
        return !((const np_opt_f32 *)p)->present;
    case NP_FIELD_OPT_DTYPE:
        return !((const np_opt_dtype *)p)->present;
    case NP_FIELD_OPT_STRING:
        return !*(const char *const *)p;
    default:
        return false;
    }
}

/* One line an instruction: "chain 0 [3] AddNode a: tid 1; b: tid 2; out: tid 3". Absent fields are
 * left out. The caller frees text. */
static graph_text text_of_graph(const np_mlx_graph *g)
{
    graph_text t = {0};
    for (uint32_t c = 0; c < g->n_chains; c++)
        for (uint32_t i = 0; i < g->chains[c].n; i++) {
            const np_instruction *n = g->chains[c].nodes + i;
            const np_node_type *type = np_node_type_of(n->number);
            say(&t, "chain %u [%u] %s", c, i, type->name);
            for (uint32_t k = 0; k < type->n_fields; k++)
                if (!is_absent(type->fields + k, n->fields)) {
                    say(&t, "; %s: ", type->fields[k].name);
                    say_field(&t, type->fields + k, n->fields);
                }
            say(&t, "\n");
        }
    return t;
}

#endif
