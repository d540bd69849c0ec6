/* portable.c - the table of operators outside delegates, and a call of one: its arguments are
 * checked, its builder makes nodes. Arguments in a call: those of the row, the results, and once more
 * the result (or the list of results), which older writers leave out. */
#include "program/portable.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "ops/support.h"

static bool build_unary(np_portable_call *c)
{
    return np_portable_give(c, c->row->unary(np_portable_tensor(c, 0)));
}

static bool build_binary(np_portable_call *c)
{
    neap_array *a = np_portable_tensor(c, 0);
    return np_portable_give(c, c->row->binary(a, np_portable_tensor(c, 1)));
}

static const np_portable rows[] = {
#define OP(n, o, a, r, b)                                                                          \
    {.name = n, .overload = o, .arguments = a, .results = r, .build = np_portable_##b},
#define LIST(n, o, a, b)                                                                           \
    {.name = n, .overload = o, .arguments = a, .list = true, .build = np_portable_##b},
#define INTO(n, o, a, b)                                                                           \
    {.name = n, .overload = o, .arguments = a, .into_first = true, .build = np_portable_##b},
#define NUMBER(n, o, a, b)                                                                         \
    {.name = n, .overload = o, .arguments = a, .number = true, .build = np_portable_##b},
#define DIRECT(n, o, a, b)                                                                         \
    {.name = n, .overload = o, .arguments = a, .direct = true, .build = np_portable_##b},
#define UNARY(n, o, f)                                                                             \
    {.name = n, .overload = o, .arguments = "T", .results = 1, .build = build_unary, .unary = f},
#define BINARY(n, o, a, f)                                                                         \
    {.name = n, .overload = o, .arguments = a, .results = 1, .build = build_binary, .binary = f},
#define REFUSED(n, o, w) {.name = n, .overload = o, .why = w},
#include "program/portable.def"
#include "program/portable_undef.h"
};

const np_portable *np_portable_find(const np_pte_operator *op)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i].name, op->name) == 0 && strcmp(rows[i].overload, op->overload) == 0)
            return &rows[i];
    return NULL;
}

bool np_portable_writes_first(const np_portable *p)
{
    return p && p->into_first;
}

const char *np_portable_refusal(const np_portable *p)
{
    return !p ? "unknown" : p->build ? NULL : p->why;
}

/* ---- checks ------------------------------------------------------------------------------------- */

bool np_portable_fail(np_portable_call *c, neap_status status, const char *format, ...)
{
    char text[200];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    np_fail(c->h->ctx, status, "%s", text);
    return false;
}

static uint32_t arguments(const np_portable *p)
{
    return (uint32_t)strlen(p->arguments);
}

/* The value number of a result. */
static int32_t result_value(const np_portable *p, const np_pte_method *m,
                            const np_pte_instruction *in, uint32_t i)
{
    if (p->into_first)
        return in->args[0];
    if (p->list)
        return (int32_t)m->values[in->args[in->n_args - 1]].list.at[i];
    return in->args[arguments(p) + i];
}

static uint32_t results(const np_portable *p, const np_pte_method *m, const np_pte_instruction *in)
{
    return p->into_first || p->number ? 1
           : p->list                  ? m->values[in->args[in->n_args - 1]].list.n
                                      : p->results;
}

static bool fits(char kind, np_pte_kind k)
{
    const char lower = (char)(kind | 32);
    const bool number = k == NP_PTE_INT || k == NP_PTE_BOOL || k == NP_PTE_DOUBLE;
    if (kind == '_' || (kind == lower && k == NP_PTE_NULL))
        return true;
    switch (lower) {
    case 't': return k == NP_PTE_TENSOR;
    case 's': return number;
    case 'i': return k == NP_PTE_INT || k == NP_PTE_BOOL;
    case 'b': return k == NP_PTE_BOOL || k == NP_PTE_INT;
    case 'd': return number;
    case 'x': return k == NP_PTE_STRING;
    case 'j': return k == NP_PTE_INT_LIST;
    case 'f': return k == NP_PTE_DOUBLE_LIST;
    case 'l': return k == NP_PTE_TENSOR_LIST;
    default: return k == NP_PTE_TENSOR_LIST || k == NP_PTE_OPTIONAL_TENSOR_LIST;
    }
}

static neap_status refuse(const neap_handle *h, const np_portable *p, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static neap_status refuse(const neap_handle *h, const np_portable *p, const char *format, ...)
{
    char text[160];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    return np_fail(h->ctx, NEAP_EFORMAT, "operator %s%s%s: %s", p->name, *p->overload ? "." : "",
                   p->overload, text);
}

static neap_status check_dtype(const neap_handle *h, const np_portable *p, int32_t value)
{
    const np_pte_value *v = value < 0 ? NULL : &h->method->values[value];
    if (!v || v->kind != NP_PTE_TENSOR || v->tensor.known)
        return NEAP_OK;
    return np_fail(h->ctx, NEAP_EUNSUPPORTED, "operator %s: value %d: scalar type %d", p->name,
                   value, v->tensor.scalar_type);
}

static neap_status check_argument(const neap_handle *h, const np_portable *p,
                                  const np_pte_instruction *in, uint32_t i)
{
    const np_pte_value *v = &h->method->values[in->args[i]];
    neap_status status = check_dtype(h, p, in->args[i]);
    if (!fits(p->arguments[i], v->kind))
        return refuse(h, p, "argument %u is of another kind than it takes", i);
    if (v->kind == NP_PTE_TENSOR_LIST || v->kind == NP_PTE_OPTIONAL_TENSOR_LIST)
        for (uint32_t k = 0; status == NEAP_OK && k < v->list.n; k++) {
            if (v->list.at[k] < 0 && p->arguments[i] == 'L')
                return refuse(h, p, "argument %u: a tensor of the list is absent", i);
            status = check_dtype(h, p, (int32_t)v->list.at[k]);
        }
    return status;
}

static neap_status check_results(const neap_handle *h, const np_portable *p,
                                 const np_pte_instruction *in)
{
    const np_pte_method *m = h->method;
    const np_pte_kind last = m->values[in->args[in->n_args - 1]].kind;
    if (p->list && last != NP_PTE_TENSOR_LIST)
        return refuse(h, p, "its results are no list of tensors");
    for (uint32_t i = 0; i < results(p, m, in); i++) {
        const int32_t value = result_value(p, m, in, i);
        const np_pte_kind k = value < 0 ? NP_PTE_NULL : m->values[value].kind;
        const bool number = k == NP_PTE_INT || k == NP_PTE_BOOL || k == NP_PTE_DOUBLE;
        if (p->number ? !number && k != NP_PTE_NULL : k != NP_PTE_TENSOR)
            return refuse(h, p, "result %u is no %s", i, p->number ? "number" : "tensor");
        neap_status status = check_dtype(h, p, value);
        if (status != NEAP_OK)
            return status;
    }
    return NEAP_OK;
}

neap_status np_portable_check(const np_portable *p, const neap_handle *h,
                              const np_pte_instruction *in)
{
    const uint32_t n = arguments(p), least = n + (p->list || p->number ? 1 : p->results);
    if (in->n_args < least || in->n_args > least + 1)
        return refuse(h, p, "called with %u values, it takes %u", in->n_args, least);
    for (uint32_t i = 0; i < n; i++) {
        neap_status status = check_argument(h, p, in, i);
        if (status != NEAP_OK)
            return status;
    }
    return check_results(h, p, in);
}

/* ---- arguments ------------------------------------------------------------------------------------ */

static const np_method_value *value_of(const np_portable_call *c, int i)
{
    return &c->h->values[c->in->args[i]];
}

static const np_pte_value *declared(const np_portable_call *c, int i)
{
    return &c->h->method->values[c->in->args[i]];
}

bool np_portable_has(const np_portable_call *c, int i)
{
    return declared(c, i)->kind != NP_PTE_NULL;
}

static neap_array *array_of(np_portable_call *c, int32_t value)
{
    const np_method_value *v = &c->h->values[value];
    if (v->kind == NEAP_VALUE_TENSOR)
        return v->array ? v->array
                        : neap_array_over(v->at.dtype, v->at.rank, v->at.shape, v->at.data, NULL,
                                          NULL);
    if (v->kind == NEAP_VALUE_DOUBLE)
        return neap_scalar(NEAP_F32, v->real);
    if (v->kind == NEAP_VALUE_BOOL)
        return neap_scalar(NEAP_BOOL, (double)v->at.integer);
    if (v->kind == NEAP_VALUE_INT)
        return neap_array_from(NEAP_I64, 0, NULL, &v->at.integer);
    np_portable_fail(c, NEAP_EFORMAT, "value %d is read before it is set", value);
    return NULL;
}

neap_array *np_portable_tensor(np_portable_call *c, int i)
{
    return np_portable_has(c, i) ? array_of(c, c->in->args[i]) : NULL;
}

int64_t np_portable_int(const np_portable_call *c, int i)
{
    return value_of(c, i)->at.integer;
}

double np_portable_real(const np_portable_call *c, int i)
{
    const np_method_value *v = value_of(c, i);
    return v->kind == NEAP_VALUE_DOUBLE ? v->real : (double)v->at.integer;
}

bool np_portable_says(const np_portable_call *c, int i, const char *text)
{
    const np_pte_value *v = declared(c, i);
    return v->kind == NP_PTE_STRING && v->string.n == strlen(text) &&
           memcmp(v->string.p, text, v->string.n) == 0;
}

int np_portable_count(const np_portable_call *c, int i)
{
    const np_pte_value *v = declared(c, i);
    return v->kind == NP_PTE_NULL ? 0 : (int)v->list.n;
}

int64_t np_portable_int_at(const np_portable_call *c, int i, int k)
{
    return c->h->values[declared(c, i)->list.at[k]].at.integer;
}

double np_portable_real_at(const np_portable_call *c, int i, int k)
{
    double value;
    memcpy(&value, &declared(c, i)->list.at[k], sizeof value);
    return value;
}

neap_array *np_portable_tensor_at(np_portable_call *c, int i, int k)
{
    const int64_t value = declared(c, i)->list.at[k];
    return value < 0 ? NULL : array_of(c, (int32_t)value);
}

bool np_portable_ints(np_portable_call *c, int i, int *n, int64_t *out)
{
    *n = np_portable_count(c, i);
    if (*n > NEAP_MAX_RANK)
        return np_portable_fail(c, NEAP_EUNSUPPORTED, "argument %d: %d numbers, at most %d", i, *n,
                                NEAP_MAX_RANK);
    for (int k = 0; k < *n; k++)
        out[k] = np_portable_int_at(c, i, k);
    return true;
}

bool np_portable_axis(np_portable_call *c, int64_t axis, int rank, int *out)
{
    const int64_t r = rank ? rank : 1; /* a number has one dimension as far as axes go */
    if (axis < -r || axis >= r)
        return np_portable_fail(c, NEAP_EINVAL, "axis %lld of %d dimensions", (long long)axis, rank);
    *out = (int)(axis < 0 ? axis + r : axis);
    return true;
}

bool np_portable_axes(np_portable_call *c, int i, const neap_array *x, int *n, int *axes)
{
    int64_t given[NEAP_MAX_RANK];
    unsigned seen = 0;
    if (!x || !np_portable_ints(c, i, n, given))
        return false;
    for (int k = 0; k < *n; k++) {
        if (!np_portable_axis(c, given[k], x->rank, &axes[k]))
            return false;
        if (seen & 1u << axes[k])
            return np_portable_fail(c, NEAP_EINVAL, "axis %d is named twice", axes[k]);
        seen |= 1u << axes[k];
    }
    for (int d = 0; *n == 0 && d < x->rank; d++)
        axes[d] = d;
    *n = *n ? *n : x->rank;
    return true;
}

const np_pte_value *np_portable_declared(const np_portable_call *c, int result)
{
    return &c->h->method->values[result_value(c->row, c->h->method, c->in, (uint32_t)result)];
}

neap_dtype np_portable_dtype(const np_portable_call *c, int result)
{
    return np_portable_declared(c, result)->tensor.dtype;
}

bool np_portable_give(np_portable_call *c, neap_array *a)
{
    c->results[0] = a;
    return a != NULL;
}

neap_array *np_portable_wide(neap_array *x)
{
    return x && (x->dtype == NEAP_F16 || x->dtype == NEAP_BF16) ? neap_cast(x, NEAP_F32) : x;
}

neap_array *np_portable_scalar(const neap_array *x, double value)
{
    const bool whole = value >= -0x1p53 && value <= 0x1p53 && value == (double)(int64_t)value;
    if (!x)
        return NULL;
    const neap_dtype dtype = x->dtype == NEAP_F16 || x->dtype == NEAP_BF16 || x->dtype == NEAP_F32
                                 ? NEAP_F32
                             : whole ? NEAP_I64
                                     : NEAP_F32;
    return neap_scalar(dtype, value);
}

/* ---- a call -------------------------------------------------------------------------------------- */

/* What was declared a tensor or a number may be unset, or something else by moves. */
static bool is_set(const neap_handle *h, int64_t value, bool integer)
{
    const np_pte_kind k = value < 0 ? NP_PTE_NULL : h->method->values[value].kind;
    const neap_value_kind v = value < 0 ? NEAP_VALUE_NONE : h->values[value].kind;
    const bool whole = v == NEAP_VALUE_INT || v == NEAP_VALUE_BOOL;
    if (k == NP_PTE_TENSOR)
        return v == NEAP_VALUE_TENSOR;
    if (k == NP_PTE_INT || k == NP_PTE_BOOL || k == NP_PTE_DOUBLE)
        return whole || (v == NEAP_VALUE_DOUBLE && !integer);
    return true;
}

static bool all_set(const np_portable_call *c)
{
    for (uint32_t i = 0; c->row->arguments[i]; i++) {
        const np_pte_value *v = declared(c, (int)i);
        const char lower = (char)(c->row->arguments[i] | 32);
        const bool numbers = lower == 'j', tensors = lower == 'l' || lower == 'm';
        const bool integer = numbers || lower == 'i' || lower == 'b';
        bool ok = c->row->arguments[i] == '_' || is_set(c->h, c->in->args[i], integer);
        for (uint32_t k = 0; ok && v->kind != NP_PTE_NULL && (numbers || tensors) && k < v->list.n; k++)
            ok = is_set(c->h, v->list.at[k], integer);
        if (!ok) {
            np_fail(c->h->ctx, NEAP_EFORMAT, "argument %u is read before it is set", i);
            return false;
        }
    }
    return true;
}

static bool set_result(np_portable_call *c, uint32_t i, neap_array *a)
{
    const int32_t to = result_value(c->row, c->h->method, c->in, i);
    a = neap_cast(a, c->h->method->values[to].tensor.dtype);
    if (!a)
        return false;
    np_method_value *v = &c->h->values[to];
    c->h->n_open += !v->open;
    np_method_value_set(v, a);
    v->open = true;
    return true;
}

/* A value of no kind may hold a tensor that was moved there. */
static void set_number(np_portable_call *c, np_method_value *to)
{
    c->h->n_open -= to->open;
    neap_release(to->array);
    *to = c->number;
}

int np_portable_results(const np_portable_call *c)
{
    return (int)results(c->row, c->h->method, c->in);
}

bool np_portable_give_at(np_portable_call *c, int k, neap_array *a)
{
    return set_result(c, (uint32_t)k, a);
}

static bool run(np_portable_call *c)
{
    if (!all_set(c) || !c->row->build(c))
        return false;
    const uint32_t n = c->row->list || c->row->number ? 0 : c->row->into_first ? 1 : c->row->results;
    for (uint32_t i = 0; i < n; i++)
        if (c->results[i] && !set_result(c, i, c->results[i]))
            return false;
    if (c->row->number)
        set_number(c, &c->h->values[c->in->args[arguments(c->row)]]);
    return true;
}

neap_status np_portable_run(const np_portable *p, neap_handle *h, const np_pte_instruction *in,
                            np_dry_run *report)
{
    np_portable_call c = {.h = h, .row = p, .in = in, .report = report};
    /* What it overwrites is there until that has happened, in a dry run too. */
    neap_array *before = p->into_first ? neap_retain(h->values[in->args[0]].array) : NULL;
    neap_status status = np_scope_push(h->ctx);
    const bool scoped = status == NEAP_OK;
    if (scoped && !run(&c))
        status = h->ctx->status;
    if (status == NEAP_OK && p->into_first)
        status = np_method_state_take(h, (uint32_t)in->args[0], before, report);
    if (status != NEAP_OK)
        np_fail_prefix(h->ctx, "operator %s%s%s", p->name, *p->overload ? "." : "", p->overload);
    if (scoped)
        neap_scope_pop(h->ctx);
    neap_release(before);
    return status;
}
