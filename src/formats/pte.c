/* pte.c - see pte.h. Field numbers are those of schema/program.fbs.
 *
 * Every reading function checks the flatbuffer's sticky fault once before it uses what it read, so
 * the message names the innermost object at fault. */
#include "formats/pte.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/shown.h"
#include "formats/named_data.h"

enum { ID_AT = 4, HEADER_AT = 8, LEAST_HEADER = 24, NAMED_HEADER = 32 };

typedef struct constants { /* offsets into one segment */
    np_bytes segment;
    np_fb_vector offsets;
} constants;

typedef struct attached {
    np_file_map map;
    np_named_data data;
    struct attached *next;
} attached;

typedef struct np_pte_inside {
    np_file_map map;
    np_bytes file;
    np_fb fb;
    np_blocks blocks;
    np_segments segments;
    np_named_data named;
    constants constants, *mutables;
    uint32_t n_mutables;
    np_fb_vector dead; /* constant_buffer */
    attached *attached, **end;
} np_pte_inside;

typedef struct parse {
    neap_context *ctx;
    np_pte_inside *in;
    np_fb *fb;
    np_fb_vector inline_data; /* of delegates */
    char where[NP_SHOWN_NAME + 64];
    np_pte_method *method;
} parse;

/* ---- dtypes --------------------------------------------------------------------------------- */

bool np_pte_dtype(int scalar_type, neap_dtype *out)
{
    static const int8_t dtypes[] = {
        NEAP_U8, NEAP_I8,   NEAP_I16, NEAP_I32, NEAP_I64, NEAP_F16,  NEAP_F32, -1, -1,       -1,
        -1,      NEAP_BOOL, -1,       -1,       -1,       NEAP_BF16, -1,       -1, -1,       -1,
        -1,      -1,        -1,       -1,       -1,       -1,        -1,       -1, NEAP_U32,
    };
    if (scalar_type < 0 || scalar_type >= (int)sizeof dtypes || dtypes[scalar_type] < 0)
        return false;
    *out = (neap_dtype)dtypes[scalar_type];
    return true;
}

/* ---- small readers ----------------------------------------------------------------------------
 */

static neap_status fault(parse *p, const char *what, uint32_t index)
{
    char text[sizeof p->where + 64];
    snprintf(text, sizeof text, "%s, %s %" PRIu32, p->where, what, index);
    return np_fb_status(p->ctx, p->fb, text);
}

/* `number` is one of `n` things of that name? */
static neap_status in_range(parse *p, const char *what, uint32_t index, int64_t number,
                            const char *things, uint32_t n)
{
    if (number >= 0 && number < n)
        return NEAP_OK;
    return np_fail(p->ctx, NEAP_EFORMAT, "%s, %s %" PRIu32 ": %s %" PRId64 ", there are %" PRIu32,
                   p->where, what, index, things, number, n);
}

/* A copy of a string field; an absent one is empty. */
static const char *copy_string(parse *p, np_fb_table t, int field)
{
    return np_blocks_string(&p->in->blocks, np_fb_string(p->fb, t, field));
}

/* A list of value numbers. `least` is -1 where an absent value may stand. */
static neap_status value_numbers(parse *p, np_fb_table t, int field, const char *what,
                                 uint32_t index, const int32_t **out, uint32_t *n)
{
    const np_fb_vector v = np_fb_vector_of(p->fb, t, field, 4);
    int32_t *at = np_blocks_array(&p->in->blocks, v.n, sizeof *at);
    if (!at)
        return NEAP_ENOMEM;
    for (uint32_t i = 0; i < v.n; i++) {
        at[i] = np_fb_load_i32(p->fb, v.at + 4 * (uint64_t)i);
        const neap_status s = in_range(p, what, index, at[i], "value", p->method->n_values);
        if (s != NEAP_OK)
            return s;
    }
    *out = at;
    *n = v.n;
    return fault(p, what, index);
}

/* ---- values -----------------------------------------------------------------------------------
 */

static neap_status read_sizes(parse *p, np_fb_table t, uint32_t index, np_pte_value *out)
{
    const np_fb_vector sizes = np_fb_vector_of(p->fb, t, 2, 4),
                       order = np_fb_vector_of(p->fb, t, 3, 1);
    if (p->fb->fault)
        return fault(p, "value", index);
    if (sizes.n > NEAP_MAX_RANK)
        return np_fail(p->ctx, NEAP_EUNSUPPORTED,
                       "%s, value %" PRIu32 ": a tensor of rank %" PRIu32 ", the limit is %d",
                       p->where, index, sizes.n, NEAP_MAX_RANK);
    if (order.n && order.n != sizes.n)
        return np_fail(p->ctx, NEAP_EFORMAT,
                       "%s, value %" PRIu32 ": dim_order of %" PRIu32 " for rank %" PRIu32,
                       p->where, index, order.n, sizes.n);
    out->tensor.rank = (int)sizes.n;
    for (uint32_t i = 0; i < sizes.n; i++) {
        out->tensor.shape[i] = np_fb_load_i32(p->fb, sizes.at + 4 * (uint64_t)i);
        if (out->tensor.shape[i] < 0)
            return np_fail(p->ctx, NEAP_EFORMAT,
                           "%s, value %" PRIu32 ": dimension %" PRIu32 " is %" PRId64, p->where,
                           index, i, out->tensor.shape[i]);
        if (order.n && np_fb_load_u8(p->fb, order.at + i) != i)
            return np_fail(p->ctx, NEAP_EUNSUPPORTED,
                           "%s, value %" PRIu32
                           ": its dimensions are not in memory order (row-major)",
                           p->where, index);
    }
    return NEAP_OK;
}

/* Where a constant, or the first contents of a tensor that may change, come from. */
static neap_status read_contents(parse *p, np_fb_table t, uint32_t index, np_pte_value *out)
{
    const np_fb_table memory = np_fb_table_of(p->fb, t, 6), extra = np_fb_table_of(p->fb, t, 9);
    const uint32_t data = np_fb_u32(p->fb, t, 5, 0);
    const uint64_t which = np_fb_u64(p->fb, extra, 0, 0);
    if (np_fb_i8(p->fb, extra, 2, 0) == 1) {
        out->tensor.external = copy_string(p, extra, 1);
        return out->tensor.external ? fault(p, "value", index) : NEAP_ENOMEM;
    }
    if (p->fb->fault || data == 0)
        return fault(p, "value", index);
    if (!memory.at) {
        const np_fb_vector *all = p->in->dead.n ? &p->in->dead : &p->in->constants.offsets;
        out->tensor.data = data;
        return in_range(p, "value", index, data, "constant", all->n);
    }
    neap_status s = in_range(p, "value", index, which > INT64_MAX ? -1 : (int64_t)which,
                             "mutable data segment", p->in->n_mutables);
    if (s != NEAP_OK)
        return s;
    const constants *from = p->in->mutables + which;
    if ((s = in_range(p, "value", index, data, "mutable data", from->offsets.n)) != NEAP_OK)
        return s;
    const uint64_t offset = np_fb_load_u64(p->fb, from->offsets.at + 8 * (uint64_t)data);
    if (offset > from->segment.n)
        return np_fail(p->ctx, NEAP_EFORMAT,
                       "%s, value %" PRIu32 ": data at %" PRIu64 " of a segment of %" PRIu64
                       " bytes",
                       p->where, index, offset, from->segment.n);
    out->tensor.start = (np_bytes){from->segment.p + offset, from->segment.n - offset};
    return NEAP_OK;
}

static neap_status read_tensor(parse *p, np_fb_table t, uint32_t index, np_pte_value *out)
{
    out->tensor.scalar_type = np_fb_u8(p->fb, t, 0, 0);
    out->tensor.known = np_pte_dtype(out->tensor.scalar_type, &out->tensor.dtype);
    const uint8_t dynamism = np_fb_u8(p->fb, t, 8, 0), layout = np_fb_u8(p->fb, t, 7, 0);
    const int32_t offset = np_fb_i32(p->fb, t, 1, 0);
    if (p->fb->fault)
        return fault(p, "value", index);
    if (dynamism > NP_PTE_UNBOUNDED || layout != 0 || offset != 0)
        return np_fail(p->ctx, NEAP_EUNSUPPORTED,
                       "%s, value %" PRIu32
                       ": a tensor of dynamism %d (0 to 2 are known), layout %d "
                       "and storage offset %" PRId32 " (0 is known)",
                       p->where, index, dynamism, layout, offset);
    out->tensor.dynamism = (np_pte_dynamism)dynamism;
    const neap_status s = read_sizes(p, t, index, out);
    return s != NEAP_OK ? s : read_contents(p, t, index, out);
}

static neap_status read_list(parse *p, np_fb_table t, uint32_t index, np_pte_value *out)
{
    const np_pte_kind kind = out->kind;
    const uint32_t element = kind == NP_PTE_BOOL_LIST                                ? 1
                             : kind == NP_PTE_INT_LIST || kind == NP_PTE_DOUBLE_LIST ? 8
                                                                                     : 4;
    const np_fb_vector v = np_fb_vector_of(p->fb, t, 0, element);
    int64_t *at = np_blocks_array(&p->in->blocks, v.n, sizeof *at);
    if (!at)
        return NEAP_ENOMEM;
    for (uint32_t i = 0; i < v.n; i++) {
        const uint64_t place = v.at + (uint64_t)element * i;
        at[i] = element == 1   ? np_fb_load_u8(p->fb, place) != 0
                : element == 8 ? np_fb_load_i64(p->fb, place)
                               : np_fb_load_i32(p->fb, place);
        const bool is_number = element == 4 || kind == NP_PTE_INT_LIST,
                   may_lack = kind == NP_PTE_OPTIONAL_TENSOR_LIST && at[i] == -1;
        const neap_status s = is_number && !may_lack
                                  ? in_range(p, "value", index, at[i], "value", p->method->n_values)
                                  : NEAP_OK;
        if (s != NEAP_OK)
            return s;
    }
    out->list.n = v.n;
    out->list.at = at;
    return fault(p, "value", index);
}

static neap_status read_value(parse *p, np_fb_table value, uint32_t index, np_pte_value *out)
{
    const uint8_t kind = np_fb_u8(p->fb, value, 0, 0);
    const np_fb_table t = np_fb_table_of(p->fb, value, 1);
    if (p->fb->fault)
        return fault(p, "value", index);
    if (kind < NP_PTE_NULL || kind > NP_PTE_OPTIONAL_TENSOR_LIST)
        return np_fail(p->ctx, NEAP_EUNSUPPORTED,
                       "%s, value %" PRIu32 ": of kind %d, known are 1 to %d", p->where, index,
                       kind, NP_PTE_OPTIONAL_TENSOR_LIST);
    out->kind = (np_pte_kind)kind;
    switch (out->kind) {
    case NP_PTE_NULL:
        break;
    case NP_PTE_INT:
        out->integer = np_fb_i64(p->fb, t, 0, 0);
        break;
    case NP_PTE_BOOL:
        out->integer = np_fb_u8(p->fb, t, 0, 0) != 0;
        break;
    case NP_PTE_DOUBLE:
        out->real = np_fb_f64(p->fb, t, 0, 0);
        break;
    case NP_PTE_STRING:
        out->string = np_fb_string(p->fb, t, 0);
        break;
    case NP_PTE_TENSOR:
        return read_tensor(p, t, index, out);
    default:
        return read_list(p, t, index, out);
    }
    return fault(p, "value", index);
}

static neap_status read_values(parse *p, np_fb_table plan)
{
    np_pte_method *m = p->method;
    const np_fb_vector v = np_fb_vector_of(p->fb, plan, 2, 4);
    np_pte_value *values = np_blocks_array(&p->in->blocks, v.n, sizeof *values);
    if (!values)
        return NEAP_ENOMEM;
    m->values = values;
    m->n_values = v.n;
    for (uint32_t i = 0; i < v.n; i++) {
        const neap_status s = read_value(p, np_fb_element_table(p->fb, v, i), i, values + i);
        if (s != NEAP_OK)
            return s;
    }
    return fault(p, "values", v.n);
}

/* ---- instructions -------------------------------------------------------------------------------
 */

static neap_status read_jump(parse *p, np_fb_table t, uint32_t index, uint32_t n_instructions,
                             np_pte_instruction *out)
{
    out->index = (uint32_t)np_fb_i32(p->fb, t, 0, 0);
    out->to = (uint32_t)np_fb_i32(p->fb, t, 1, 0);
    const neap_status s =
        in_range(p, "instruction", index, out->index, "condition, value", p->method->n_values);
    return s != NEAP_OK ? s
                        : in_range(p, "instruction", index, out->to, "jump to instruction",
                                   n_instructions + 1);
}

static neap_status read_instruction(parse *p, np_fb_table instruction, uint32_t index,
                                    uint32_t n_instructions, np_pte_instruction *out)
{
    const np_pte_method *m = p->method;
    const uint8_t kind = np_fb_u8(p->fb, instruction, 0, 0);
    const np_fb_table t = np_fb_table_of(p->fb, instruction, 1);
    if (p->fb->fault)
        return fault(p, "instruction", index);
    if (kind < NP_PTE_KERNEL_CALL || kind > NP_PTE_FREE)
        return np_fail(p->ctx, NEAP_EUNSUPPORTED,
                       "%s, instruction %" PRIu32 ": of kind %d, known are 1 to %d", p->where,
                       index, kind, NP_PTE_FREE);
    out->kind = (np_pte_instruction_kind)kind;
    out->index = (uint32_t)np_fb_i32(p->fb, t, 0, 0);
    neap_status s = NEAP_OK;
    switch (out->kind) {
    case NP_PTE_KERNEL_CALL:
        s = in_range(p, "instruction", index, out->index, "operator", m->n_operators);
        break;
    case NP_PTE_DELEGATE_CALL:
        s = in_range(p, "instruction", index, out->index, "delegate", m->n_delegates);
        break;
    case NP_PTE_JUMP_FALSE:
        s = read_jump(p, t, index, n_instructions, out);
        break;
    case NP_PTE_MOVE:
        out->to = (uint32_t)np_fb_i32(p->fb, t, 1, 0);
        s = in_range(p, "instruction", index, out->to, "value", m->n_values);
        if (s != NEAP_OK)
            break;
        /* fall through */
    case NP_PTE_FREE:
        s = in_range(p, "instruction", index, out->index, "value", m->n_values);
        break;
    }
    if (s == NEAP_OK && out->kind <= NP_PTE_DELEGATE_CALL)
        s = value_numbers(p, t, 1, "instruction", index, &out->args, &out->n_args);
    return s != NEAP_OK ? s : fault(p, "instruction", index);
}

static neap_status read_chains(parse *p, np_fb_table plan)
{
    np_pte_method *m = p->method;
    const np_fb_vector v = np_fb_vector_of(p->fb, plan, 5, 4);
    np_pte_chain *chains = np_blocks_array(&p->in->blocks, v.n, sizeof *chains);
    if (!chains)
        return NEAP_ENOMEM;
    m->chains = chains;
    m->n_chains = v.n;
    for (uint32_t i = 0; i < v.n && !p->fb->fault; i++) {
        const np_fb_table chain = np_fb_element_table(p->fb, v, i);
        const np_fb_vector list = np_fb_vector_of(p->fb, chain, 2, 4);
        np_pte_instruction *at = np_blocks_array(&p->in->blocks, list.n, sizeof *at);
        if (!at)
            return NEAP_ENOMEM;
        chains[i] = (np_pte_chain){list.n, at};
        for (uint32_t k = 0; k < list.n; k++) {
            const neap_status s =
                read_instruction(p, np_fb_element_table(p->fb, list, k), k, list.n, at + k);
            if (s != NEAP_OK)
                return s;
        }
    }
    return fault(p, "chains", v.n);
}

/* ---- operators and delegates
 * ---------------------------------------------------------------------- */

static neap_status read_operators(parse *p, np_fb_table plan)
{
    np_pte_method *m = p->method;
    const np_fb_vector v = np_fb_vector_of(p->fb, plan, 6, 4);
    np_pte_operator *operators = np_blocks_array(&p->in->blocks, v.n, sizeof *operators);
    if (!operators)
        return NEAP_ENOMEM;
    m->operators = operators;
    m->n_operators = v.n;
    for (uint32_t i = 0; i < v.n; i++) {
        const np_fb_table t = np_fb_element_table(p->fb, v, i);
        operators[i] = (np_pte_operator){copy_string(p, t, 0), copy_string(p, t, 1)};
        if (p->fb->fault)
            return fault(p, "operator", i);
        if (!operators[i].name || !operators[i].overload)
            return NEAP_ENOMEM;
    }
    return fault(p, "operators", v.n);
}

static neap_status read_delegate(parse *p, np_fb_table t, uint32_t index, np_pte_delegate *out)
{
    out->id = copy_string(p, t, 0);
    if (!out->id)
        return NEAP_ENOMEM;
    const np_fb_table processed = np_fb_table_of(p->fb, t, 1);
    const int8_t location = np_fb_i8(p->fb, processed, 0, 0);
    const uint32_t at = np_fb_u32(p->fb, processed, 1, 0);
    if (p->fb->fault)
        return fault(p, "delegate", index);
    neap_status s;
    switch (location) {
    case 0:
        s = in_range(p, "delegate", index, at, "inline data", p->inline_data.n);
        if (s == NEAP_OK)
            out->payload = np_fb_blob(p->fb, np_fb_element_table(p->fb, p->inline_data, at), 0);
        break;
    case 1:
        s = in_range(p, "delegate", index, at, "segment", p->in->segments.n);
        if (s == NEAP_OK)
            out->payload = p->in->segments.at[at];
        break;
    default:
        s = np_fail(p->ctx, NEAP_EUNSUPPORTED,
                    "%s, delegate %" PRIu32 ": its data is in place %d, known are 0 and 1",
                    p->where, index, location);
    }
    return s != NEAP_OK ? s : fault(p, "delegate", index);
}

static neap_status read_delegates(parse *p, np_fb_table plan)
{
    np_pte_method *m = p->method;
    const np_fb_vector v = np_fb_vector_of(p->fb, plan, 7, 4);
    np_pte_delegate *delegates = np_blocks_array(&p->in->blocks, v.n, sizeof *delegates);
    if (!delegates)
        return NEAP_ENOMEM;
    m->delegates = delegates;
    m->n_delegates = v.n;
    for (uint32_t i = 0; i < v.n; i++) {
        const neap_status s = read_delegate(p, np_fb_element_table(p->fb, v, i), i, delegates + i);
        if (s != NEAP_OK)
            return s;
    }
    return fault(p, "delegates", v.n);
}

static neap_status read_method(parse *p, np_fb_table plan, uint32_t index, np_pte_method *m)
{
    p->method = m;
    snprintf(p->where, sizeof p->where, "method %" PRIu32, index);
    m->name = copy_string(p, plan, 0);
    if (!m->name)
        return NEAP_ENOMEM;
    snprintf(p->where, sizeof p->where, "method '%s'", np_show_text(m->name).text);
    neap_status s = read_values(p, plan);
    const int32_t *inputs = NULL, *outputs = NULL;
    if (s == NEAP_OK)
        s = value_numbers(p, plan, 3, "list of inputs", 0, &inputs, &m->n_inputs);
    if (s == NEAP_OK)
        s = value_numbers(p, plan, 4, "list of outputs", 0, &outputs, &m->n_outputs);
    m->inputs = (const uint32_t *)inputs; /* none is negative */
    m->outputs = (const uint32_t *)outputs;
    if (s == NEAP_OK)
        s = read_operators(p, plan);
    if (s == NEAP_OK)
        s = read_delegates(p, plan);
    return s != NEAP_OK ? s : read_chains(p, plan);
}

/* ---- the file
 * ------------------------------------------------------------------------------------- */

/* Finds the flatbuffer and the segments: an extended header says where they are; without one, the
 * flatbuffer is the whole file and there are no segments. */
static neap_status read_header(parse *p, np_bytes file, uint64_t *segment_base)
{
    np_reader r = np_reader_over(file.p, file.n);
    np_bytes start, magic;
    if (!np_read_bytes(&r, HEADER_AT, &start) || memcmp(start.p + ID_AT, "ET", 2) != 0)
        return np_fail(p->ctx, NEAP_EFORMAT,
                       "no program: %" PRIu64 " bytes that do not say 'ET12' at byte 4", file.n);
    if (memcmp(start.p + ID_AT, "ET12", 4) != 0)
        return np_fail(p->ctx, NEAP_EUNSUPPORTED, "a program of identifier '%s', known is 'ET12'",
                       np_show((np_bytes){start.p + ID_AT, 4}).text);
    uint64_t program = file.n;
    *segment_base = file.n;
    if (np_read_bytes(&r, 4, &magic) && memcmp(magic.p, "eh00", 4) == 0) {
        uint32_t length;
        uint64_t data = 0;
        if (!np_read_u32(&r, &length) || !np_read_u64(&r, &program) ||
            !np_read_u64(&r, segment_base) || length < LEAST_HEADER || program > file.n ||
            *segment_base > file.n ||
            (length >= NAMED_HEADER && (!np_read_u64(&r, &data) || data > file.n - *segment_base)))
            return np_fail(p->ctx, NEAP_EFORMAT,
                           "its header says a program of %" PRIu64 " bytes and segments of %" PRIu64
                           " bytes from %" PRIu64 ", the file has %" PRIu64,
                           program, data, *segment_base, file.n);
    }
    p->in->fb = np_fb_over((np_bytes){file.p, program});
    return NEAP_OK;
}

/* A table SubsegmentOffsets. */
static neap_status read_offsets(parse *p, np_fb_table t, const char *what, uint32_t index,
                                constants *out)
{
    out->offsets = np_fb_vector_of(p->fb, t, 1, 8);
    const uint32_t segment = np_fb_u32(p->fb, t, 0, 0);
    if (p->fb->fault || out->offsets.n == 0)
        return fault(p, what, index);
    const neap_status s = in_range(p, what, index, segment, "segment", p->in->segments.n);
    if (s == NEAP_OK)
        out->segment = p->in->segments.at[segment];
    return s;
}

static neap_status read_data(parse *p, np_fb_table root, uint64_t segment_base)
{
    np_pte_inside *in = p->in;
    snprintf(p->where, sizeof p->where, "program");
    neap_status s =
        np_segments_read(&in->blocks, p->fb, root, 4, in->file, segment_base, &in->segments);
    if (s == NEAP_OK)
        s = np_named_data_read(&in->blocks, p->fb, root, 7, &in->segments, &in->named);
    if (s == NEAP_OK)
        s = read_offsets(p, np_fb_table_of(p->fb, root, 5), "constant segment", 0, &in->constants);
    if (s != NEAP_OK)
        return s;
    in->dead = np_fb_vector_of(p->fb, root, 2, 4);
    p->inline_data = np_fb_vector_of(p->fb, root, 3, 4);
    const np_fb_vector v = np_fb_vector_of(p->fb, root, 6, 4);
    in->mutables = np_blocks_array(&in->blocks, v.n, sizeof *in->mutables);
    if (!in->mutables)
        return NEAP_ENOMEM;
    in->n_mutables = v.n;
    for (uint32_t i = 0; i < v.n && s == NEAP_OK; i++)
        s = read_offsets(p, np_fb_element_table(p->fb, v, i), "mutable data segment", i,
                         in->mutables + i);
    return s;
}

static neap_status read_program(np_pte *pte, np_bytes file)
{
    parse p = {.ctx = pte->ctx, .in = pte->inside, .fb = &pte->inside->fb};
    uint64_t segment_base = 0;
    neap_status s = read_header(&p, file, &segment_base);
    if (s != NEAP_OK)
        return s;
    pte->inside->file = file;
    const np_fb_table root = np_fb_root(p.fb);
    pte->version = np_fb_u32(p.fb, root, 0, 0);
    if (p.fb->fault)
        return np_fb_status(p.ctx, p.fb, "program");
    if (pte->version != 0)
        return np_fail(p.ctx, NEAP_EUNSUPPORTED,
                       "a program of schema version %" PRIu32 ", known is 0", pte->version);
    if ((s = read_data(&p, root, segment_base)) != NEAP_OK)
        return s;
    const np_fb_vector plans = np_fb_vector_of(p.fb, root, 1, 4);
    np_pte_method *methods = np_blocks_array(&p.in->blocks, plans.n, sizeof *methods);
    if (!methods)
        return NEAP_ENOMEM;
    pte->methods = methods;
    pte->n_methods = plans.n;
    for (uint32_t i = 0; i < plans.n && s == NEAP_OK; i++)
        s = read_method(&p, np_fb_element_table(p.fb, plans, i), i, methods + i);
    if (s == NEAP_OK && p.fb->fault)
        s = np_fb_status(p.ctx, p.fb, "program");
    return s;
}

static neap_status open_over(neap_context *ctx, np_file_map map, np_bytes file, np_pte **out)
{
    np_pte *pte = np_calloc(ctx, NEAP_MEM_HOST, sizeof *pte);
    np_pte_inside *in = np_calloc(ctx, NEAP_MEM_HOST, sizeof *in);
    if (!pte || !in) {
        np_free(ctx, NEAP_MEM_HOST, pte, sizeof *pte);
        np_free(ctx, NEAP_MEM_HOST, in, sizeof *in);
        np_file_map_close(&map);
        return NEAP_ENOMEM;
    }
    *pte = (np_pte){.ctx = ctx, .inside = in};
    in->map = map;
    in->blocks.ctx = ctx;
    in->end = &in->attached;
    const neap_status s = read_program(pte, file);
    if (s != NEAP_OK) {
        np_pte_close(pte);
        return s;
    }
    *out = pte;
    return NEAP_OK;
}

neap_status np_pte_open(neap_context *ctx, const char *path, np_pte **out)
{
    *out = NULL;
    np_file_map map;
    neap_status s = np_file_map_open(ctx, path, &map);
    if (s != NEAP_OK)
        return s;
    s = open_over(ctx, map, (np_bytes){map.data, map.bytes}, out);
    if (s != NEAP_OK)
        np_fail_prefix(ctx, "%s", path);
    return s;
}

neap_status np_pte_open_memory(neap_context *ctx, const void *bytes, uint64_t size, np_pte **out)
{
    *out = NULL;
    return open_over(ctx, (np_file_map){0}, (np_bytes){bytes, size}, out);
}

static neap_status attach_over(np_pte *pte, np_file_map map, np_bytes file)
{
    np_pte_inside *in = pte->inside;
    attached *a = np_blocks_take(&in->blocks, sizeof *a);
    const neap_status s = a ? np_ptd_parse(&in->blocks, file, &a->data) : NEAP_ENOMEM;
    if (s != NEAP_OK) {
        np_file_map_close(&map);
        return s;
    }
    a->map = map;
    *in->end = a;
    in->end = &a->next;
    return NEAP_OK;
}

neap_status np_pte_attach(np_pte *pte, const char *path)
{
    np_file_map map;
    neap_status s = np_file_map_open(pte->ctx, path, &map);
    if (s != NEAP_OK)
        return s;
    s = attach_over(pte, map, (np_bytes){map.data, map.bytes});
    if (s != NEAP_OK)
        np_fail_prefix(pte->ctx, "%s", path);
    return s;
}

neap_status np_pte_attach_memory(np_pte *pte, const void *bytes, uint64_t size)
{
    return attach_over(pte, (np_file_map){0}, (np_bytes){bytes, size});
}

void np_pte_close(np_pte *pte)
{
    if (!pte)
        return;
    np_pte_inside *in = pte->inside;
    for (attached *a = in->attached; a; a = a->next)
        np_file_map_close(&a->map);
    np_blocks_free(&in->blocks);
    np_file_map_close(&in->map);
    np_free(pte->ctx, NEAP_MEM_HOST, in, sizeof *in);
    np_free(pte->ctx, NEAP_MEM_HOST, pte, sizeof *pte);
}

bool np_pte_named_data(const np_pte *pte, const char *name, np_bytes *out)
{
    if (np_named_data_find(&pte->inside->named, name, out))
        return true;
    for (const attached *a = pte->inside->attached; a; a = a->next)
        if (np_named_data_find(&a->data, name, out))
            return true;
    return false;
}

bool np_pte_constant(const np_pte *pte, uint32_t index, np_bytes *out)
{
    const np_pte_inside *in = pte->inside;
    if (in->dead.n) {
        np_fb fb = np_fb_over((np_bytes){in->fb.p, in->fb.n}); /* its faults are this call's own */
        if (index >= in->dead.n)
            return false;
        *out = np_fb_blob(&fb, np_fb_element_table(&fb, in->dead, index), 0);
        return !fb.fault;
    }
    if (index >= in->constants.offsets.n)
        return false;
    const uint64_t offset = np_fb_load_u64(&in->fb, in->constants.offsets.at + 8 * (uint64_t)index);
    if (offset > in->constants.segment.n)
        return false;
    *out = (np_bytes){in->constants.segment.p + offset, in->constants.segment.n - offset};
    return true;
}
