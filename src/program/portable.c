/* portable.c - ExecuTorch's own operators that exports leave outside a delegate: the arithmetic of
 * branches and the copies into a method's own state, by name. Each call is one evaluation.
 *
 * Arguments are (inputs …, [alpha | dtype …], out): the last value is the result; copy_ writes its
 * first, which lives on from call to call. */
#include <string.h>

#include "eval/run.h"
#include "ops/support.h"
#include "program/handle.h"
#include "neap/ops.h"

struct np_portable {
    const char *name;
    uint32_t inputs;
    neap_array *(*unary)(neap_array *x);
    neap_array *(*binary)(neap_array *a, neap_array *b);
    bool alpha; /* the argument after the inputs scales the second one */
    bool into_first;
};

static neap_array *same(neap_array *x)
{
    return x;
}

static const np_portable rows[] = {
    {.name = "aten::copy_",    .inputs = 2, .unary = same,   .into_first = true},
    {.name = "aten::_to_copy", .inputs = 1, .unary = same   },
    {.name = "aten::clone",    .inputs = 1, .unary = same   },
    {.name = "aten::alias_copy", .inputs = 1, .unary = same },
    {.name = "dim_order_ops::_to_dim_order_copy", .inputs = 1, .unary = same},
    {.name = "dim_order_ops::_clone_dim_order", .inputs = 1, .unary = same},
    {.name = "aten::abs",      .inputs = 1, .unary = neap_abs},
    {.name = "aten::neg",      .inputs = 1, .unary = neap_neg},
    {.name = "aten::sin",      .inputs = 1, .unary = neap_sin},
    {.name = "aten::cos",      .inputs = 1, .unary = neap_cos},
    {.name = "aten::exp",      .inputs = 1, .unary = neap_exp},
    {.name = "aten::log",      .inputs = 1, .unary = neap_log},
    {.name = "aten::sqrt",     .inputs = 1, .unary = neap_sqrt},
    {.name = "aten::rsqrt",    .inputs = 1, .unary = neap_rsqrt},
    {.name = "aten::tanh",     .inputs = 1, .unary = neap_tanh},
    {.name = "aten::sigmoid",  .inputs = 1, .unary = neap_sigmoid},
    {.name = "aten::relu",     .inputs = 1, .unary = neap_relu},
    {.name = "aten::logical_not", .inputs = 1, .unary = neap_logical_not},
    {.name = "aten::add",      .inputs = 2, .binary = neap_add, .alpha = true},
    {.name = "aten::sub",      .inputs = 2, .binary = neap_sub, .alpha = true},
    {.name = "aten::mul",      .inputs = 2, .binary = neap_mul},
    {.name = "aten::div",      .inputs = 2, .binary = neap_div},
    {.name = "aten::maximum",  .inputs = 2, .binary = neap_maximum},
    {.name = "aten::minimum",  .inputs = 2, .binary = neap_minimum},
    {.name = "aten::eq",       .inputs = 2, .binary = neap_equal},
    {.name = "aten::ne",       .inputs = 2, .binary = neap_not_equal},
    {.name = "aten::lt",       .inputs = 2, .binary = neap_less},
    {.name = "aten::le",       .inputs = 2, .binary = neap_less_equal},
    {.name = "aten::gt",       .inputs = 2, .binary = neap_greater},
    {.name = "aten::ge",       .inputs = 2, .binary = neap_greater_equal},
};

const np_portable *np_portable_find(const np_pte_operator *op)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i].name, op->name) == 0)
            return &rows[i];
    return NULL;
}

bool np_portable_writes_first(const np_portable *p)
{
    return p && p->into_first;
}

/* A number takes part as a 0-d tensor of the dtype of its kind. */
static neap_array *argument(neap_handle *h, int32_t value)
{
    const np_method_value *v = &h->values[value];
    if (v->kind == NEAP_VALUE_TENSOR)
        return neap_array_over(v->at.dtype, v->at.rank, v->at.shape, v->at.data, NULL, NULL);
    if (v->kind == NEAP_VALUE_DOUBLE)
        return neap_scalar(NEAP_F32, v->real);
    if (v->kind == NEAP_VALUE_INT || v->kind == NEAP_VALUE_BOOL)
        return neap_scalar(v->kind == NEAP_VALUE_INT ? NEAP_I64 : NEAP_BOOL, (double)v->at.integer);
    np_fail(h->ctx, NEAP_EFORMAT, "value %d is read before it is set", value);
    return NULL;
}

static neap_array *scaled(neap_handle *h, neap_array *b, int32_t alpha)
{
    const np_method_value *v = &h->values[alpha];
    double by = v->kind == NEAP_VALUE_INT      ? (double)v->at.integer
                : v->kind == NEAP_VALUE_DOUBLE ? v->real
                                               : 1;
    return by == 1 || !b ? b : neap_mul(b, neap_scalar(neap_array_dtype(b), by));
}

static neap_array *build(const np_portable *p, neap_handle *h, const np_pte_instruction *call)
{
    const np_pte_value *out = &h->method->values[call->args[p->into_first ? 0 : call->n_args - 1]];
    neap_array *a = argument(h, call->args[p->into_first ? 1 : 0]), *r;
    if (p->unary)
        r = p->unary(a);
    else {
        neap_array *b = argument(h, call->args[1]);
        r = p->binary(a, p->alpha && call->n_args > 3 ? scaled(h, b, call->args[2]) : b);
    }
    return np_copied(neap_cast(r, out->tensor.dtype));
}

/* By a plan of its own, of which nothing is kept; a dry run keeps the shape only. */
static neap_status evaluate(neap_handle *h, neap_array *a, np_dry_run *report)
{
    neap_plan *plan;
    if (!a)
        return h->ctx->status;
    neap_status status = neap_plan_make(h->ctx, 1, &a, 0, NULL, &plan);
    if (status != NEAP_OK)
        return h->ctx->status = status;
    np_buffer *b = plan->buffers[0];
    if (!report) {
        status = np_plan_run(plan, NULL);
        h->stats.evaluations++;
    } else if (!np_dry_note(report, h->ctx, plan) || !np_dry_keep(report, h->ctx, b)) {
        status = NEAP_ENOMEM;
    }
    if (status == NEAP_OK) {
        atomic_fetch_add(&b->refs, 1);
        np_array_become_value(a, b);
    }
    neap_plan_free(plan);
    return h->ctx->status = status;
}

neap_status np_portable_run(const np_portable *p, neap_handle *h, const np_pte_instruction *call,
                            np_dry_run *report)
{
    int32_t to = call->n_args ? call->args[p->into_first ? 0 : call->n_args - 1] : -1;
    if (call->n_args < p->inputs + 1 || to < 0 || h->method->values[to].kind != NP_PTE_TENSOR)
        return np_fail(h->ctx, NEAP_EFORMAT, "operator %s: called with %u values", p->name,
                       call->n_args);
    neap_status status = neap_scope_push(h->ctx);
    if (status != NEAP_OK)
        return status;
    neap_array *a = build(p, h, call);
    status = evaluate(h, a, report);
    if (status == NEAP_OK) {
        if (p->into_first && report)
            np_method_state_pretend(h, (uint32_t)to, report);
        np_method_value_set(&h->values[to], a);
        if (p->into_first && !report && !np_method_state_keep(h, (uint32_t)to, a))
            status = h->ctx->status;
    }
    if (status != NEAP_OK)
        np_fail_prefix(h->ctx, "operator %s", p->name);
    neap_scope_pop(h->ctx);
    return status;
}
