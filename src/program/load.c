/* load.c - the delegate's payload into a graph (graph.h); nodes by read_node.c.
 *
 * MLXGraph's fields by number: 0 version, 1 to 5 counts of constant, input, output, mutable and
 * temporary tensors, 6 of values, 7 chains, 8 main chain, 9 init chain, 10 input map, 11 output
 * map, 12 mutable buffer map, 13 named slots, 14 tensor meta. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/shown.h"
#include "formats/named_data.h"
#include "formats/pte.h"
#include "program/load.h"

enum { HEADER = 24, KNOWN_VERSION = 1 };
enum { SLOT_TENSOR, SLOT_INT };

typedef struct held { /* a graph with its memory */
    np_mlx_graph graph;
    np_blocks blocks;
} held;

/* ---- errors ---------------------------------------------------------------------------------- */

neap_status np_load_fail(np_load *l, neap_status status, const char *format, ...)
{
    char text[256], place[160] = "";
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    int n = 0;
    if (l->instruction != UINT32_MAX)
        n = snprintf(place, sizeof place, "chain %" PRIu32 ", instruction %" PRIu32, l->chain,
                     l->instruction);
    if (l->type)
        n += snprintf(place + n, sizeof place - (size_t)n, " (%s)", l->type->name);
    if (l->field)
        snprintf(place + n, sizeof place - (size_t)n, "%s'%s'", n ? ", field " : "", l->field);
    return np_fail(l->ctx, status, "%s%s%s", place, *place ? ": " : "", text);
}

neap_status np_load_fault(np_load *l)
{
    if (!l->fb->fault)
        return NEAP_OK;
    return np_load_fail(l, NEAP_EFORMAT, "%s, at byte %" PRIu64 " of the graph's %" PRIu64,
                        l->fb->fault, l->fb->at, l->fb->n);
}

/* ---- head: version and counts ---------------------------------------------------------------- */

static neap_status read_version(np_load *l, np_fb_table root)
{
    const np_bytes text = np_fb_string(l->fb, root, 0);
    if (l->fb->fault)
        return np_load_fault(l);
    uint64_t version = text.n ? 0 : KNOWN_VERSION;
    for (uint64_t i = 0; i < text.n; i++) {
        if (text.p[i] < '0' || text.p[i] > '9')
            return np_load_fail(l, NEAP_EFORMAT, "schema version '%s' is no number",
                                np_show(text).text);
        if (version <= UINT32_MAX)
            version = version * 10 + (uint64_t)(text.p[i] - '0');
    }
    if (version > KNOWN_VERSION)
        return np_load_fail(l, NEAP_EUNSUPPORTED, "the graph is of schema version %s, known is %d",
                            np_show(text).text, KNOWN_VERSION);
    return NEAP_OK;
}

static neap_status read_counts(np_load *l, np_fb_table root)
{
    np_mlx_graph *g = l->graph;
    uint32_t *const counts[] = {&g->n_constants, &g->n_inputs, &g->n_outputs,
                                &g->n_buffers,   &g->n_temps,  &g->n_values};
    uint64_t tensors = 0;
    for (int i = 0; i < 6; i++) {
        *counts[i] = np_fb_u32(l->fb, root, i + 1, 0);
        tensors += i < 5 ? *counts[i] : 0;
    }
    if (l->fb->fault)
        return np_load_fault(l);
    if (tensors > NP_MOST_SLOTS || g->n_values > NP_MOST_SLOTS)
        return np_load_fail(l, NEAP_EUNSUPPORTED,
                            "%" PRIu64 " tensors and %" PRIu32 " values, the limit is %d of each",
                            tensors, g->n_values, NP_MOST_SLOTS);
    /* What an instruction names takes four bytes. */
    if (g->n_temps > l->fb->n / 4 || g->n_values > l->fb->n / 4)
        return np_load_fail(l, NEAP_EFORMAT,
                            "%" PRIu32 " temporaries and %" PRIu32
                            " values, but a graph of %" PRIu64 " bytes names %" PRIu64 " at most",
                            g->n_temps, g->n_values, l->fb->n, l->fb->n / 4);
    g->n_tensors = (uint32_t)tensors;
    return NEAP_OK;
}

/* ---- slots ----------------------------------------------------------------------------------- */

/* SlotVariant: 0 idx, 1 slot_type. A tensor of [first, end), or a value. */
static neap_status read_slot(np_load *l, np_fb_table t, uint32_t first, uint32_t end, np_port *out)
{
    const int8_t type = np_fb_i8(l->fb, t, 1, SLOT_TENSOR);
    *out = (np_port){np_fb_u32(l->fb, t, 0, 0), type == SLOT_INT};
    if (l->fb->fault)
        return np_load_fault(l);
    if (type != SLOT_TENSOR && type != SLOT_INT)
        return np_load_fail(l, NEAP_EUNSUPPORTED,
                            "a slot of type %d, known are 0 (tensor) and 1 (integer)", type);
    if (out->is_value ? out->number < l->graph->n_values
                      : out->number >= first && out->number < end)
        return NEAP_OK;
    if (out->is_value)
        return np_load_fail(l, NEAP_EFORMAT, "value %" PRIu32 ", the graph has %" PRIu32,
                            out->number, l->graph->n_values);
    return np_load_fail(l, NEAP_EFORMAT,
                        "tensor %" PRIu32 ", it must be one of [%" PRIu32 ", %" PRIu32 ")",
                        out->number, first, end);
}

static neap_status read_map(np_load *l, np_fb_table root, int field, const char *name,
                            uint32_t first, uint32_t end, const np_port **out, uint32_t *n)
{
    l->field = name;
    const np_fb_vector v = np_fb_vector_of(l->fb, root, field, 4);
    np_port *at = np_blocks_array(l->blocks, v.n, sizeof *at);
    if (!at)
        return NEAP_ENOMEM;
    for (uint32_t i = 0; i < v.n; i++) {
        const neap_status s = read_slot(l, np_fb_element_table(l->fb, v, i), first, end, at + i);
        if (s != NEAP_OK)
            return s;
    }
    *out = at;
    *n = v.n;
    return np_load_fault(l);
}

static neap_status read_maps(np_load *l, np_fb_table root)
{
    np_mlx_graph *g = l->graph;
    const np_port *buffers;
    uint32_t n = 0;
    neap_status s = read_map(l, root, 10, "input_map", np_first_input(g), np_first_output(g),
                             &g->input_slots, &g->n_input_slots);
    if (s == NEAP_OK)
        s = read_map(l, root, 11, "output_map", 0, g->n_tensors, &g->output_slots,
                     &g->n_output_slots);
    if (s == NEAP_OK)
        s = read_map(l, root, 12, "mutable_buffer_map", np_first_buffer(g), np_first_temp(g),
                     &buffers, &n);
    if (s != NEAP_OK)
        return s;
    if (n != g->n_buffers)
        return np_load_fail(l, NEAP_EFORMAT, "%" PRIu32 " entries for %" PRIu32 " mutable buffers",
                            n, g->n_buffers);
    bool *seen = np_blocks_array(l->blocks, n, sizeof *seen);
    if (!seen)
        return NEAP_ENOMEM;
    for (uint32_t i = 0; i < n; i++) {
        if (buffers[i].is_value)
            return np_load_fail(l, NEAP_EFORMAT, "entry %" PRIu32 " is a value, not a tensor", i);
        const uint32_t k = buffers[i].number - np_first_buffer(g);
        if (seen[k])
            return np_load_fail(l, NEAP_EFORMAT, "tensor %" PRIu32 " twice", buffers[i].number);
        seen[k] = true;
    }
    l->field = NULL;
    return NEAP_OK;
}

/* ---- tensor meta and names ------------------------------------------------------------------- */

/* ShapeDim: 0 value (-1: at run time), 1 min, 2 max (-1: none). */
static neap_status read_dim(np_load *l, np_fb_table t, uint32_t tensor, int i, np_tensor_meta *m)
{
    const int32_t value = np_fb_i32(l->fb, t, 0, -1), most = np_fb_i32(l->fb, t, 2, -1);
    if (l->fb->fault)
        return np_load_fault(l);
    if (value < -1 || most < -1)
        return np_load_fail(l, NEAP_EFORMAT,
                            "tensor %" PRIu32 ": dimension %d is %" PRId32 ", at most %" PRId32,
                            tensor, i, value, most);
    m->shape[i] = value;
    return NEAP_OK;
}

/* Constants and mutable buffers: every dimension known, a size that fits. */
static neap_status check_static(np_load *l, uint32_t tensor, const np_tensor_meta *m)
{
    const np_mlx_graph *g = l->graph;
    const bool constant = tensor < g->n_constants;
    if (!constant && (tensor < np_first_buffer(g) || tensor >= np_first_temp(g)))
        return NEAP_OK;
    const char *what = constant ? "constant" : "mutable buffer";
    uint64_t bytes = (uint64_t)neap_dtype_describe(m->dtype)->block_bytes;
    for (int i = 0; i < m->rank; i++) {
        if (m->shape[i] < 0 || (m->shape[i] == 0 && !constant))
            return np_load_fail(l, NEAP_EFORMAT, "%s %" PRIu32 ": dimension %d is %" PRId64, what,
                                tensor, i, m->shape[i]);
        if (!np_mul_size(bytes, (uint64_t)m->shape[i], &bytes) || bytes > INT64_MAX)
            return np_load_fail(l, NEAP_EFORMAT, "%s %" PRIu32 ": its size overflows 64 bits", what,
                                tensor);
    }
    return NEAP_OK;
}

/* TensorMeta: 0 shape, 1 scalar_type, 2 dim_order. */
static neap_status read_meta(np_load *l, np_fb_table t, uint32_t tensor, np_tensor_meta *m)
{
    const int scalar_type = np_fb_u8(l->fb, t, 1, 0);
    const np_fb_vector shape = np_fb_vector_of(l->fb, t, 0, 4),
                       order = np_fb_vector_of(l->fb, t, 2, 1);
    if (l->fb->fault)
        return np_load_fault(l);
    if (!shape.at)
        return np_load_fail(l, NEAP_EFORMAT, "tensor %" PRIu32 ": has no shape", tensor);
    if (shape.n > NEAP_MAX_RANK)
        return np_load_fail(l, NEAP_EUNSUPPORTED,
                            "tensor %" PRIu32 ": rank %" PRIu32 ", the limit is %d", tensor,
                            shape.n, NEAP_MAX_RANK);
    if (!np_pte_dtype(scalar_type, &m->dtype))
        return np_load_fail(l, NEAP_EUNSUPPORTED,
                            "tensor %" PRIu32 ": there is no dtype for scalar type %d", tensor,
                            scalar_type);
    m->rank = (int)shape.n;
    for (uint32_t i = 0; i < shape.n; i++) {
        const neap_status s = read_dim(l, np_fb_element_table(l->fb, shape, i), tensor, (int)i, m);
        if (s != NEAP_OK)
            return s;
        if (order.n && (order.n != shape.n || np_fb_load_u8(l->fb, order.at + i) != i))
            return np_load_fail(
                l, NEAP_EUNSUPPORTED,
                "tensor %" PRIu32 ": its dimensions are not in memory order (row-major)", tensor);
    }
    return check_static(l, tensor, m);
}

/* NamedSlot: 0 name, 1 slot. */
static neap_status read_names(np_load *l, np_fb_table root, np_tensor_meta *meta)
{
    l->field = "named_slots";
    const np_mlx_graph *g = l->graph;
    const np_fb_vector v = np_fb_vector_of(l->fb, root, 13, 4);
    for (uint32_t i = 0; i < v.n && !l->fb->fault; i++) {
        const np_fb_table t = np_fb_element_table(l->fb, v, i);
        const np_bytes name = np_fb_string(l->fb, t, 0);
        np_port slot;
        const neap_status s = read_slot(l, np_fb_table_of(l->fb, t, 1), 0, g->n_tensors, &slot);
        if (s != NEAP_OK)
            return s;
        if (!name.n)
            return np_load_fail(l, NEAP_EFORMAT, "entry %" PRIu32 " has no name", i);
        if (slot.is_value || slot.number >= np_first_temp(g))
            continue;
        if (meta[slot.number].name && slot.number < g->n_constants)
            return np_load_fail(l, NEAP_EFORMAT,
                                "constant %" PRIu32 " has two names: '%s' and '%s'", slot.number,
                                np_show_text(meta[slot.number].name).text, np_show(name).text);
        if (!(meta[slot.number].name = np_blocks_string(l->blocks, name)))
            return NEAP_ENOMEM;
    }
    for (uint32_t i = 0; i < g->n_constants; i++)
        if (!meta[i].name)
            return np_load_fail(l, NEAP_EFORMAT, "constant %" PRIu32 " has no name", i);
    return np_load_fault(l);
}

static neap_status read_tensors(np_load *l, np_fb_table root)
{
    l->field = "tensor_meta";
    np_mlx_graph *g = l->graph;
    const np_fb_vector v = np_fb_vector_of(l->fb, root, 14, 4);
    if (l->fb->fault)
        return np_load_fault(l);
    if (v.n != np_first_temp(g))
        return np_load_fail(l, NEAP_EFORMAT,
                            "%" PRIu32 " entries for %" PRIu32
                            " constants, inputs, outputs and mutable buffers",
                            v.n, np_first_temp(g));
    np_tensor_meta *meta = np_blocks_array(l->blocks, v.n, sizeof *meta);
    if (!meta)
        return NEAP_ENOMEM;
    for (uint32_t i = 0; i < v.n; i++) {
        const neap_status s = read_meta(l, np_fb_element_table(l->fb, v, i), i, meta + i);
        if (s != NEAP_OK)
            return s;
    }
    g->meta = meta;
    return read_names(l, root, meta);
}

/* ---- chains ---------------------------------------------------------------------------------- */

static neap_status read_instructions(np_load *l, np_fb_vector list, np_chain *out)
{
    np_instruction *nodes = np_blocks_array(l->blocks, list.n, sizeof *nodes);
    if (!nodes)
        return NEAP_ENOMEM;
    uint32_t n = 0;
    for (uint32_t i = 0; i < list.n; i++) {
        l->instruction = i;
        const np_fb_table t = np_fb_element_table(l->fb, list, i);
        const uint8_t number = np_fb_u8(l->fb, t, 0, 0);
        if (number == NP_NODE_NONE && !l->fb->fault)
            continue;
        const np_fb_table node = np_fb_table_of(l->fb, t, 1);
        const neap_status s =
            l->fb->fault ? np_load_fault(l) : np_read_node(l, node, number, nodes + n++);
        if (s != NEAP_OK)
            return s;
    }
    *out = (np_chain){n, nodes};
    return NEAP_OK;
}

/* `writers`: by chain, 1 + the first instruction that writes a constant, or 0. */
static neap_status read_chains(np_load *l, np_fb_table root, uint32_t **writers)
{
    np_mlx_graph *g = l->graph;
    l->field = "instruction_chains";
    const np_fb_vector v = np_fb_vector_of(l->fb, root, 7, 4);
    const int32_t init = np_fb_i32(l->fb, root, 9, -1);
    g->main_chain = np_fb_u32(l->fb, root, 8, 0);
    g->n_chains = v.n;
    g->init_chain = init;
    if (l->fb->fault)
        return np_load_fault(l);
    if (g->main_chain >= v.n || init < -1 || init >= (int64_t)v.n)
        return np_load_fail(l, NEAP_EFORMAT,
                            "main is %" PRIu32 " and init is %" PRId32 ", there are %" PRIu32,
                            g->main_chain, init, v.n);
    np_chain *chains = np_blocks_array(l->blocks, v.n, sizeof *chains);
    *writers = np_blocks_array(l->blocks, v.n, sizeof **writers);
    if (!chains || !*writers)
        return NEAP_ENOMEM;
    g->chains = chains;
    l->field = NULL;
    for (uint32_t i = 0; i < v.n; i++) {
        l->chain = i;
        l->instruction = 0;
        l->writes_constant = 0;
        const np_fb_vector list = np_fb_vector_of(l->fb, np_fb_element_table(l->fb, v, i), 0, 4);
        const neap_status s =
            l->fb->fault ? np_load_fault(l) : read_instructions(l, list, chains + i);
        if (s != NEAP_OK)
            return s;
        (*writers)[i] = l->writes_constant;
    }
    l->instruction = UINT32_MAX;
    return NEAP_OK;
}

typedef struct visit { /* of a chain, on the way down */
    uint32_t chain, node, branch;
} visit;

typedef struct walk {
    np_load *l;
    visit *stack;
    uint32_t n;
    uint8_t *state; /* by chain: 0 not seen, 1 on the way, 2 done */
    uint32_t *steps, *depth;
} walk;

static neap_status refuse_cycle(const walk *w, uint32_t to)
{
    const visit *v = w->stack + w->n - 1;
    w->l->chain = v->chain;
    w->l->instruction = v->node;
    return np_load_fail(w->l, NEAP_EFORMAT, "leads to chain %" PRIu32 ", which leads back here",
                        to);
}

static neap_status add_chain(const walk *w, uint32_t from, uint32_t to)
{
    const uint64_t steps = (uint64_t)w->steps[from] + w->steps[to];
    if (w->depth[from] < w->depth[to] + 1)
        w->depth[from] = w->depth[to] + 1;
    if (steps > NP_MOST_STEPS || w->depth[from] > NP_MOST_CHAIN_DEPTH)
        return np_load_fail(w->l, NEAP_EUNSUPPORTED,
                            "chain %" PRIu32 ": %" PRIu64 " instructions and %" PRIu32
                            " chains deep, the limits are %d and %d",
                            from, steps, w->depth[from], NP_MOST_STEPS, NP_MOST_CHAIN_DEPTH);
    w->steps[from] = (uint32_t)steps;
    return NEAP_OK;
}

/* One step of the walk: to the next chain that the top one leads to, or up when there is none. */
static neap_status walk_on(walk *w)
{
    visit *v = w->stack + w->n - 1;
    const np_chain *chain = w->l->graph->chains + v->chain;
    for (; v->node < chain->n; v->node++, v->branch = 0) {
        uint32_t to[2];
        const uint32_t n = np_node_chains(chain->nodes + v->node, to);
        for (; v->branch < n; v->branch++) {
            const uint32_t next = to[v->branch];
            if (w->state[next] == 1)
                return refuse_cycle(w, next);
            if (w->state[next] == 0) {
                w->state[next] = 1;
                w->stack[w->n++] = (visit){next, 0, 0};
                return NEAP_OK;
            }
            const neap_status s = add_chain(w, v->chain, next);
            if (s != NEAP_OK)
                return s;
        }
    }
    w->state[v->chain] = 2;
    w->n--;
    return NEAP_OK;
}

/* No chain reaches itself, and what running one takes is bounded. */
static neap_status check_chains(np_load *l)
{
    const np_mlx_graph *g = l->graph;
    walk w = {.l = l};
    w.stack = np_blocks_array(l->blocks, g->n_chains, sizeof *w.stack);
    w.state = np_blocks_array(l->blocks, g->n_chains, sizeof *w.state);
    w.steps = np_blocks_array(l->blocks, g->n_chains, sizeof *w.steps);
    w.depth = np_blocks_array(l->blocks, g->n_chains, sizeof *w.depth);
    if (!w.stack || !w.state || !w.steps || !w.depth)
        return NEAP_ENOMEM;
    for (uint32_t i = 0; i < g->n_chains; i++)
        w.steps[i] = g->chains[i].n;
    for (uint32_t i = 0; i < g->n_chains; i++) {
        if (w.state[i])
            continue;
        w.state[i] = 1;
        w.stack[w.n++] = (visit){i, 0, 0};
        while (w.n) {
            const neap_status s = walk_on(&w);
            if (s != NEAP_OK)
                return s;
        }
    }
    return NEAP_OK;
}

/* Constants are written before the first run only: not by a chain that main leads to. */
static neap_status check_writers(np_load *l, const uint32_t *writers)
{
    const np_mlx_graph *g = l->graph;
    bool *seen = np_blocks_array(l->blocks, g->n_chains, sizeof *seen);
    uint32_t *queue = np_blocks_array(l->blocks, g->n_chains, sizeof *queue), n = 0;
    if (!seen || !queue)
        return NEAP_ENOMEM;
    assert(writers);
    queue[n++] = g->main_chain;
    seen[g->main_chain] = true;
    for (uint32_t i = 0; i < n; i++) {
        l->chain = queue[i];
        l->instruction = writers[queue[i]] - 1;
        if (writers[queue[i]])
            return np_load_fail(l, NEAP_EFORMAT,
                                "writes a constant tensor; only the init chain may do that");
        const np_chain *chain = g->chains + queue[i];
        for (uint32_t k = 0; k < chain->n; k++) {
            uint32_t to[2];
            for (uint32_t b = np_node_chains(chain->nodes + k, to); b-- > 0;)
                if (!seen[to[b]]) {
                    seen[to[b]] = true;
                    queue[n++] = to[b];
                }
        }
    }
    return NEAP_OK;
}

/* ---- the payload ----------------------------------------------------------------------------- */

/* u32 0, "MLX0", u64 data_offset, u64 data_size; the flatbuffer lies between it and data_offset. */
static neap_status find_graph(neap_context *ctx, np_bytes payload, np_bytes *graph)
{
    np_reader r = np_reader_over(payload.p, payload.n);
    np_bytes magic;
    uint32_t zero;
    uint64_t end, size;
    if (!np_read_u32(&r, &zero) || !np_read_bytes(&r, 4, &magic) ||
        memcmp(magic.p, "MLX0", 4) != 0 || !np_read_u64(&r, &end) || !np_read_u64(&r, &size))
        return np_fail(ctx, NEAP_EFORMAT,
                       "the delegate's %" PRIu64 " bytes do not start with a header 'MLX0'",
                       payload.n);
    if (end <= HEADER || end > payload.n)
        return np_fail(ctx, NEAP_EFORMAT,
                       "the delegate's graph ends at %" PRIu64 ", it must be in (%d, %" PRIu64 "]",
                       end, HEADER, payload.n);
    *graph = (np_bytes){payload.p + HEADER, end - HEADER};
    return NEAP_OK;
}

static neap_status read_graph(np_load *l)
{
    uint32_t *writers = NULL;
    l->instruction = UINT32_MAX;
    const np_fb_table root = np_fb_root(l->fb);
    if (l->fb->fault)
        return np_load_fault(l);
    neap_status s = read_version(l, root);
    if (s == NEAP_OK)
        s = read_counts(l, root);
    if (s == NEAP_OK)
        s = read_maps(l, root);
    if (s == NEAP_OK)
        s = read_tensors(l, root);
    if (s == NEAP_OK)
        s = read_chains(l, root, &writers);
    if (s == NEAP_OK)
        s = check_chains(l);
    return s != NEAP_OK ? s : check_writers(l, writers);
}

neap_status np_mlx_graph_load(neap_context *ctx, np_bytes payload, np_mlx_graph **out)
{
    *out = NULL;
    np_bytes bytes = {0};
    neap_status s = find_graph(ctx, payload, &bytes);
    if (s != NEAP_OK)
        return s;
    held *h = np_calloc(ctx, NEAP_MEM_GRAPH, sizeof *h);
    if (!h)
        return NEAP_ENOMEM;
    h->blocks.ctx = ctx;
    h->graph.ctx = ctx;
    h->graph.blocks = h;
    np_fb fb = np_fb_over(bytes);
    np_load l = {.ctx = ctx, .fb = &fb, .blocks = &h->blocks, .graph = &h->graph};
    if ((s = read_graph(&l)) != NEAP_OK) {
        np_mlx_graph_free(&h->graph);
        return s;
    }
    *out = &h->graph;
    return NEAP_OK;
}

void np_mlx_graph_free(np_mlx_graph *graph)
{
    if (!graph)
        return;
    held *h = graph->blocks;
    np_blocks_free(&h->blocks);
    np_free(h->graph.ctx, NEAP_MEM_GRAPH, h, sizeof *h);
}
