/* finish.c - runs a product whose blocks go through a chain of ops as they are made, see
 * plan/epilogue.c.
 *
 * Where a block lies in C tells its rows and columns, and so where the chain's other operands are. */
#include "eval/finish.h"

typedef struct epilogue {
    const neap_plan *plan;
    const np_member *head; /* of the chain */
    const np_kernels *kernels;
    uint8_t *c;
} epilogue;

static void finish(void *arg, void *block, int64_t rows, int64_t columns)
{
    const epilogue *e = arg;
    const np_chain_source *source = &e->plan->chain_places[e->head->first_place];
    const int64_t at = (uint8_t *)block - e->c, size = source[0].size;
    const int64_t width = source[0].row; /* 0: there is one row */
    const int64_t row = width ? at / width : 0, column = (at - row * width) / size;
    np_chain_place places[NP_EPILOGUE_PLACES];
    for (uint32_t i = 0; i < e->head->n_places; i++) {
        const np_chain_source *s = &source[i];
        uint8_t *data = i ? e->plan->operands[e->plan->slots[s->slot].operand].operand.data : e->c;
        data += row * s->row + (s->one ? 0 : column * s->size);
        places[i] = (np_chain_place){data, s->row, s->size, s->one, false};
    }
    e->kernels->chain->run(e->plan->chain_ops + e->head->first_op, (int)e->head->n_chain, places, rows,
                           columns);
}

/* Bytes from C to what the chain reads that lies as C does; 0: nothing does. */
static int64_t to_residual(const epilogue *e)
{
    const np_chain_source *source = &e->plan->chain_places[e->head->first_place];
    for (uint32_t i = 1; i < e->head->n_places; i++)
        if (!source[i].one && source[i].row && source[i].row == source[0].row && source[i].size == source[0].size)
            return (int64_t)((uintptr_t)e->plan->operands[e->plan->slots[source[i].slot].operand].operand.data -
                             (uintptr_t)e->c);
    return 0;
}

neap_status np_epilogue_run(const neap_plan *p, const np_group *g, uint8_t *scratch)
{
    const np_member *product = &p->members[g->first_member], *last = product + g->n_members - 1;
    const np_cut *s = &p->slots[product->first_slot];
    const np_operand *in[NP_GROUP_INPUTS];
    for (uint32_t i = 0; i < product->n_in; i++)
        in[i] = &p->operands[s[1 + i].operand].operand;
    np_operand out = p->operands[s->operand].operand;
    out.data = p->operands[p->slots[last->first_slot].operand].operand.data;
    epilogue e = {.plan = p, .head = product + 1, .kernels = p->ctx->kernels, .c = out.data};
    const np_call call = {.ctx = p->ctx, .pool = p->ctx->pool, .op = product->op, .attr = product->attr,
                          .n_in = product->n_in, .in = in, .out = &out, .scratch = scratch,
                          .finished = finish, .finished_arg = &e, .also = to_residual(&e)};
    return product->op->run(&call);
}
