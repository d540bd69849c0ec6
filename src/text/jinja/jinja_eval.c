/* jinja_eval.c - names and statements: what a template does. */
#include "text/jinja/jinja_eval.h"

#include "base/shown.h"

typedef np_jinja_value value;
typedef np_jinja_node node;
typedef np_jinja_scope scope;

/* ---- names ------------------------------------------------------------------------------------- */

scope *np_jinja_new_scope(np_jinja *j, scope *outer)
{
    scope *s = np_jinja_take(j, 1, sizeof *s);
    if (s)
        s->outer = outer;
    return s;
}

bool np_jinja_set(np_jinja *j, scope *s, np_bytes name, value v)
{
    return np_jinja_put(j, &s->names, np_jinja_text(name), v);
}

bool np_jinja_set_word(np_jinja *j, scope *s, const char *name, value v)
{
    return np_jinja_put(j, &s->names, np_jinja_string(name), v);
}

bool np_jinja_look_up(np_jinja *j, np_bytes name, value *out)
{
    static const char *const refused[] = {"lipsum", "cycler", "joiner", "varargs", "kwargs", "caller", "self"};
    for (const scope *s = j->scope; s; s = s->outer) {
        const value *v = np_jinja_find_name(&s->names, name);
        if (v) {
            *out = *v;
            return true;
        }
        if (!np_jinja_step(j, s->names.n / 16))
            return false;
    }
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        if (np_jinja_is(name, refused[i]))
            return np_jinja_fail(j, NEAP_EUNSUPPORTED, "Jinja's \"%s\"", refused[i]);
    *out = np_jinja_undefined(name);
    return true;
}

/* ---- targets ----------------------------------------------------------------------------------- */

static bool assign_one(np_jinja *j, const node *target, value v)
{
    if (target->kind == NP_JINJA_NAME)
        return np_jinja_set(j, j->scope, target->text, v);
    value of;
    if (!np_jinja_look_up(j, target->b->text, &of))
        return false;
    if (of.kind != NP_JINJA_NAMESPACE)
        return NP_JINJA_RAISE(j, "%s.%s is set, and %s is no namespace", np_show(target->b->text).text,
                              np_show(target->text).text, np_show(target->b->text).text);
    if (target->text.p[0] == '_')
        return NP_JINJA_RAISE(j, "a namespace takes no name with _ before it");
    return np_jinja_put(j, of.dict, np_jinja_text(target->text), v);
}

static bool assign(np_jinja *j, const node *target, value v)
{
    if (target->kind != NP_JINJA_LIST_OF)
        return assign_one(j, target, v);
    np_jinja_list items;
    size_t n = 0;
    if (!np_jinja_items(j, v, &items))
        return false;
    for (const node *t = target->a; t; t = t->next)
        n++;
    if (n != items.n)
        return NP_JINJA_RAISE(j, "%zu values for %zu names", items.n, n);
    n = 0;
    for (const node *t = target->a; t; t = t->next)
        if (!assign_one(j, t, items.at[n++]))
            return false;
    return true;
}

/* ---- blocks ------------------------------------------------------------------------------------ */

/* A body with names of its own, as text. */
static bool capture(np_jinja *j, const node *body, scope *inner, value *out)
{
    const size_t start = j->out->length;
    scope *outer = j->scope;
    np_jinja_flow flow;
    j->scope = inner;
    const bool good = np_jinja_run(j, body, &flow) && np_jinja_taken(j, start, out);
    j->scope = outer;
    return good;
}

/* The filters of a block, from the inside: `of` is what the innermost gets. */
static bool filtered(np_jinja *j, const node *filter, value of, value *out)
{
    *out = of;
    if (!filter)
        return true;
    np_jinja_call call;
    if (!np_jinja_deeper(j))
        return false;
    const bool good = filtered(j, filter->a, of, out) && np_jinja_arguments(j, filter->b, &call);
    j->depth--;
    j->line = filter->line;
    return good && np_jinja_filter(j, filter->text, *out, &call, out);
}

static bool run_block(np_jinja *j, const node *n)
{
    value v;
    scope *inner = np_jinja_new_scope(j, j->scope);
    if (!inner || !capture(j, n->c, inner, &v) || !filtered(j, n->b, v, &v))
        return false;
    return n->kind == NP_JINJA_SET_BLOCK ? assign(j, n->a, v) : np_jinja_print(j, v);
}

static bool run_with(np_jinja *j, const node *n, np_jinja_flow *flow)
{
    scope *outer = j->scope, *inner = np_jinja_new_scope(j, outer);
    if (!inner)
        return false;
    for (const node *part = n->a; part; part = part->next) {
        value v;
        if (!np_jinja_eval(j, part->b, &v))
            return false;
        j->scope = inner;
        const bool good = assign(j, part->a, v);
        j->scope = outer;
        if (!good)
            return false;
    }
    j->scope = inner;
    const bool good = np_jinja_run(j, n->c, flow);
    j->scope = outer;
    return good;
}

/* ---- macros ------------------------------------------------------------------------------------ */

static bool define_macro(np_jinja *j, const node *n)
{
    np_jinja_macro *macro = np_jinja_take(j, 1, sizeof *macro);
    if (!macro)
        return false;
    *macro = (np_jinja_macro){n, j->scope};
    return np_jinja_set(j, j->scope, n->text, (value){.kind = NP_JINJA_MACRO, .macro = macro});
}

static const value *named_argument(const np_jinja_call *call, np_bytes name)
{
    for (size_t i = 0; i < call->n_named; i++)
        if (np_jinja_same_bytes(call->named[i].key.text, name))
            return &call->named[i].value;
    return NULL;
}

/* Puts the arguments into the macro's scope; defaults see the parameters before them. */
static bool bind_macro(np_jinja *j, const np_jinja_macro *macro, const np_jinja_call *call)
{
    size_t i = 0, used = 0;
    for (const node *p = macro->definition->a; p; p = p->next, i++) {
        const value *named = named_argument(call, p->text);
        value v = np_jinja_undefined(p->text);
        if (named && i < call->n)
            return NP_JINJA_RAISE(j, "%s gets \"%s\" twice", np_show(macro->definition->text).text,
                                  np_show(p->text).text);
        used += named != NULL;
        if (i < call->n)
            v = call->at[i];
        else if (named)
            v = *named;
        else if (p->a && !np_jinja_eval(j, p->a, &v))
            return false;
        if (!np_jinja_set(j, j->scope, p->text, v))
            return false;
    }
    if (i < call->n)
        return NP_JINJA_RAISE(j, "%s takes no more than %zu arguments", np_show(macro->definition->text).text, i);
    return used == call->n_named ||
           NP_JINJA_RAISE(j, "%s gets an argument that it does not know", np_show(macro->definition->text).text);
}

bool np_jinja_call_macro(np_jinja *j, const np_jinja_macro *macro, const np_jinja_call *call, value *out)
{
    scope *caller = j->scope, *inner = np_jinja_new_scope(j, macro->home);
    if (!inner || !np_jinja_deeper(j))
        return false;
    j->scope = inner;
    bool good = bind_macro(j, macro, call);
    j->scope = caller;
    good = good && capture(j, macro->definition->c, inner, out);
    j->depth--;
    return good;
}

/* ---- loops ------------------------------------------------------------------------------------- */

/* Leaves the items for which the loop's condition holds. */
static bool select_items(np_jinja *j, const node *n, np_jinja_list *items)
{
    size_t kept = 0;
    value *at = np_jinja_take(j, items->n, sizeof *at);
    scope *outer = j->scope, *inner = np_jinja_new_scope(j, outer);
    bool good = at && inner;
    for (size_t i = 0; good && i < items->n; i++) {
        value v;
        inner->names.n = 0;
        j->scope = inner;
        good = assign(j, n->a, items->at[i]) && np_jinja_eval(j, n->d, &v);
        j->scope = outer;
        if (good && np_jinja_truth(v))
            at[kept++] = items->at[i];
    }
    *items = (np_jinja_list){.at = at, .n = kept};
    return good;
}

static bool run_items(np_jinja *j, const node *n, np_jinja_loop *loop)
{
    scope *outer = j->scope, *inner = np_jinja_new_scope(j, outer);
    bool good = inner != NULL;
    np_jinja_flow flow = NP_JINJA_ON;
    for (; good && loop->index < loop->items.n && flow != NP_JINJA_LEAVE; loop->index++) {
        inner->names.n = 0; /* each turn starts anew */
        j->scope = inner;
        good = np_jinja_step(j, 1) &&
               np_jinja_set_word(j, inner, "loop", (value){.kind = NP_JINJA_LOOP, .loop = loop}) &&
               assign(j, n->a, loop->items.at[loop->index]) && np_jinja_run(j, n->c, &flow);
    }
    j->scope = outer;
    return good;
}

static bool run_for(np_jinja *j, const node *n, np_jinja_flow *flow)
{
    value over;
    np_jinja_loop *loop = np_jinja_take(j, 1, sizeof *loop);
    if (!loop || !np_jinja_eval(j, n->b, &over) || !np_jinja_items(j, over, &loop->items) ||
        (n->d && !select_items(j, n, &loop->items)))
        return false;
    if (loop->items.n == 0 && n->e) {
        scope *outer = j->scope;
        if (!(j->scope = np_jinja_new_scope(j, outer)))
            return false;
        const bool good = np_jinja_run(j, n->e, flow);
        j->scope = outer;
        return good;
    }
    return run_items(j, n, loop);
}

/* ---- statements -------------------------------------------------------------------------------- */

static bool run_if(np_jinja *j, const node *n, np_jinja_flow *flow)
{
    for (; n; n = n->c) {
        value condition;
        if (n->kind == NP_JINJA_BODY)
            return np_jinja_run(j, n->a, flow);
        if (!np_jinja_eval(j, n->a, &condition))
            return false;
        if (np_jinja_truth(condition))
            return np_jinja_run(j, n->b, flow);
    }
    return true;
}

static bool run_one(np_jinja *j, const node *n, np_jinja_flow *flow)
{
    value v;
    switch (n->kind) {
    case NP_JINJA_DATA:
        return np_jinja_write(j, n->text.p, n->text.n);
    case NP_JINJA_OUTPUT:
        return np_jinja_eval(j, n->a, &v) && np_jinja_print(j, v);
    case NP_JINJA_IF:
        return run_if(j, n, flow);
    case NP_JINJA_FOR:
        return run_for(j, n, flow);
    case NP_JINJA_SET:
        return np_jinja_eval(j, n->b, &v) && assign(j, n->a, v);
    case NP_JINJA_SET_BLOCK:
    case NP_JINJA_FILTER_BLOCK:
    case NP_JINJA_SCOPE:
        return run_block(j, n);
    case NP_JINJA_MACRO_DEF:
        return define_macro(j, n);
    case NP_JINJA_WITH:
        return run_with(j, n, flow);
    default:
        *flow = n->kind == NP_JINJA_BREAK ? NP_JINJA_LEAVE : NP_JINJA_AGAIN;
        return true;
    }
}

bool np_jinja_run(np_jinja *j, const node *body, np_jinja_flow *flow)
{
    bool good = np_jinja_deeper(j);
    *flow = NP_JINJA_ON;
    for (; good && body && *flow == NP_JINJA_ON; body = body->next) {
        j->line = body->line;
        good = np_jinja_step(j, 1) && run_one(j, body, flow);
    }
    j->depth--;
    return good;
}
