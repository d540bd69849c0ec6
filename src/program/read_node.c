/* read_node.c - a node's table into its struct, field by field after the tables of node.h.
 *
 * A reader a field kind: it finds the field, checks what it refers to and stores it. What fields of
 * one node must have in common is checked after them, by type. */
#include <inttypes.h>
#include <string.h>

#include "formats/pte.h"
#include "program/load.h"

typedef neap_status (*reader)(np_load *l, np_fb_table t, int index, const np_field *f, void *out);

static neap_status missing(np_load *l)
{
    return l->fb->fault ? np_load_fault(l)
                        : np_load_fail(l, NEAP_EFORMAT, "is required, but absent");
}

/* ---- tensors and values --------------------------------------------------------------------- */

static neap_status check_tid(np_load *l, uint32_t tid)
{
    if (tid < l->graph->n_tensors)
        return NEAP_OK;
    return np_load_fail(l, NEAP_EFORMAT, "tensor %" PRIu32 ", the program has %" PRIu32, tid,
                        l->graph->n_tensors);
}

static neap_status check_vid(np_load *l, uint32_t vid)
{
    if (vid < l->graph->n_values)
        return NEAP_OK;
    return np_load_fail(l, NEAP_EFORMAT, "value %" PRIu32 ", the program has %" PRIu32, vid,
                        l->graph->n_values);
}

static void note_write(np_load *l, uint32_t tid)
{
    if (tid < l->graph->n_constants && !l->writes_constant)
        l->writes_constant = l->instruction + 1;
}

/* A 4-byte struct in the table; -1 when absent. */
static neap_status read_number(np_load *l, np_fb_table t, int index, bool required, int32_t *out,
                               neap_status (*check)(np_load *l, uint32_t number))
{
    const uint64_t at = np_fb_field(l->fb, t, index, 4);
    *out = -1;
    if (!at)
        return required ? missing(l) : np_load_fault(l);
    const uint32_t number = np_fb_load_u32(l->fb, at);
    const neap_status s = check(l, number);
    if (s == NEAP_OK)
        *out = (int32_t)number; /* at most NP_MOST_SLOTS */
    return s;
}

static neap_status read_tid(np_load *l, np_fb_table t, int index, const np_field *f, void *out)
{
    return read_number(l, t, index, f->kind != NP_FIELD_OPT_TID, out, check_tid);
}

static neap_status read_out(np_load *l, np_fb_table t, int index, const np_field *f, void *out)
{
    const neap_status s = read_tid(l, t, index, f, out);
    if (s == NEAP_OK)
        note_write(l, (uint32_t) * (int32_t *)out);
    return s;
}

static neap_status read_vid(np_load *l, np_fb_table t, int index, const np_field *f, void *out)
{
    return read_number(l, t, index, f->kind != NP_FIELD_OPT_VID, out, check_vid);
}

/* ---- literals or numbers --------------------------------------------------------------------- */

static int32_t clamped(int64_t v)
{
    return v < INT32_MIN ? INT32_MIN : v > INT32_MAX ? INT32_MAX : (int32_t)v;
}

/* IntOrVid: 0 literal, 1 vid, 2 is_vid. */
static neap_status read_int_table(np_load *l, np_fb_table t, np_int *out)
{
    *out = (np_int){np_fb_u8(l->fb, t, 2, 0) != 0, clamped(np_fb_i64(l->fb, t, 0, 0))};
    return out->is_vid ? read_number(l, t, 1, true, &out->value, check_vid) : np_load_fault(l);
}

static neap_status read_int(np_load *l, np_fb_table t, int index, const np_field *f, void *out)
{
    const np_fb_table v = np_fb_table_of(l->fb, t, index);
    if (!v.at && f->kind == NP_FIELD_INT)
        return missing(l);
    return read_int_table(l, v, out);
}

/* FloatOrVid: 0 literal, 1 vid, 2 is_vid. */
static neap_status read_float(np_load *l, np_fb_table t, int index, const np_field *f, void *out)
{
    (void)f;
    np_float *v = out;
    const np_fb_table table = np_fb_table_of(l->fb, t, index);
    if (!table.at)
        return missing(l);
    v->is_vid = np_fb_u8(l->fb, table, 2, 0) != 0;
    v->value = np_fb_f64(l->fb, table, 0, 0);
    int32_t vid = 0;
    const neap_status s =
        v->is_vid ? read_number(l, table, 1, true, &vid, check_vid) : np_load_fault(l);
    v->vid = (uint32_t)vid;
    return s;
}

/* VidOrTid: 0 vid, 1 tid, 2 is_vid. */
static neap_status read_vid_or_tid(np_load *l, np_fb_table t, int index, const np_field *f,
                                   void *out)
{
    (void)f;
    np_vid_or_tid *v = out;
    const np_fb_table table = np_fb_table_of(l->fb, t, index);
    if (!table.at)
        return missing(l);
    v->is_vid = np_fb_u8(l->fb, table, 2, 0) != 0;
    int32_t number = 0;
    const neap_status s = v->is_vid ? read_number(l, table, 0, true, &number, check_vid)
                                    : read_number(l, table, 1, true, &number, check_tid);
    v->number = (uint32_t)number;
    return s;
}

/* IntOrVidOrTid: 0 literal, 1 vid, 2 tid, 3 kind. */
static neap_status read_index(np_load *l, np_fb_table t, int index, const np_field *f, void *out)
{
    (void)f;
    np_index *v = out;
    const np_fb_table table = np_fb_table_of(l->fb, t, index);
    if (!table.at)
        return missing(l);
    const uint8_t kind = np_fb_u8(l->fb, table, 3, 0);
    v->value = clamped(np_fb_i64(l->fb, table, 0, 0));
    if (kind > NP_INDEX_TID)
        return np_load_fail(l, NEAP_EFORMAT, "an index of kind %d, known are 0 to 2", kind);
    v->kind = (np_index_kind)kind;
    switch (v->kind) {
    case NP_INDEX_VID:
        return read_number(l, table, 1, true, &v->value, check_vid);
    case NP_INDEX_TID:
        return read_number(l, table, 2, true, &v->value, check_tid);
    case NP_INDEX_LITERAL:
        break;
    }
    return np_load_fault(l);
}

/* ---- scalars --------------------------------------------------------------------------------- */

static neap_status read_i32(np_load *l, np_fb_table t, int index, const np_field *f, void *out)
{
    *(int32_t *)out = np_fb_i32(l->fb, t, index, (int32_t)f->otherwise);
    return np_load_fault(l);
}

static neap_status read_opt_i32(np_load *l, np_fb_table t, int index, const np_field *f, void *out)
{
    (void)f;
    const uint64_t at = np_fb_field(l->fb, t, index, 4);
    *(np_opt_i32 *)out = (np_opt_i32){at != 0, at ? np_fb_load_i32(l->fb, at) : 0};
    return np_load_fault(l);
}

static neap_status read_u64(np_load *l, np_fb_table t, int index, const np_field *f, void *out)
{
    (void)f;
    const uint64_t v = np_fb_u64(l->fb, t, index, 0);
    *(uint64_t *)out = v;
    if (v > INT64_MAX)
        return np_load_fail(l, NEAP_EFORMAT, "%" PRIu64 " is above 2^63 - 1", v);
    return np_load_fault(l);
}

static neap_status read_f32(np_load *l, np_fb_table t, int index, const np_field *f, void *out)
{
    *(float *)out = np_fb_f32(l->fb, t, index, (float)f->otherwise);
    return np_load_fault(l);
}

static neap_status read_opt_f32(np_load *l, np_fb_table t, int index, const np_field *f, void *out)
{
    (void)f;
    const uint64_t at = np_fb_field(l->fb, t, index, 4);
    *(np_opt_f32 *)out = (np_opt_f32){at != 0, at ? np_fb_load_f32(l->fb, at) : 0.0f};
    return np_load_fault(l);
}

static neap_status read_bool(np_load *l, np_fb_table t, int index, const np_field *f, void *out)
{
    *(bool *)out = np_fb_u8(l->fb, t, index, f->otherwise != 0) != 0;
    return np_load_fault(l);
}

static neap_status to_dtype(np_load *l, int scalar_type, neap_dtype *out)
{
    if (l->fb->fault)
        return np_load_fault(l);
    return np_pte_dtype(scalar_type, out)
               ? NEAP_OK
               : np_load_fail(l, NEAP_EUNSUPPORTED, "there is no dtype for scalar type %d",
                              scalar_type);
}

static neap_status read_dtype(np_load *l, np_fb_table t, int index, const np_field *f, void *out)
{
    (void)f;
    return to_dtype(l, np_fb_i8(l->fb, t, index, 0), out);
}

static neap_status read_opt_dtype(np_load *l, np_fb_table t, int index, const np_field *f,
                                  void *out)
{
    (void)f;
    np_opt_dtype *v = out;
    const uint64_t at = np_fb_field(l->fb, t, index, 1);
    v->present = at != 0;
    return at ? to_dtype(l, np_fb_load_i8(l->fb, at), &v->value) : np_load_fault(l);
}

static neap_status read_chain(np_load *l, np_fb_table t, int index, const np_field *f, void *out)
{
    (void)f;
    const uint32_t chain = np_fb_u32(l->fb, t, index, 0);
    *(uint32_t *)out = chain;
    if (chain >= l->graph->n_chains)
        return np_load_fail(l, NEAP_EFORMAT, "chain %" PRId32 ", the program has %" PRIu32,
                            (int32_t)chain, l->graph->n_chains);
    return np_load_fault(l);
}

/* ---- strings and lists ----------------------------------------------------------------------- */

static neap_status read_string(np_load *l, np_fb_table t, int index, const np_field *f, void *out)
{
    const np_bytes s = np_fb_string(l->fb, t, index);
    if (!s.p)
        return f->kind == NP_FIELD_STRING ? missing(l) : np_load_fault(l);
    if (l->fb->fault)
        return np_load_fault(l);
    *(const char **)out = np_blocks_string(l->blocks, s);
    return *(const char **)out ? NEAP_OK : NEAP_ENOMEM;
}

static neap_status read_strings(np_load *l, np_fb_table t, int index, const np_field *f, void *out)
{
    (void)f;
    const np_fb_vector v = np_fb_vector_of(l->fb, t, index, 4);
    const char **at = np_blocks_array(l->blocks, v.n, sizeof *at);
    if (!at)
        return NEAP_ENOMEM;
    for (uint32_t i = 0; i < v.n && !l->fb->fault; i++)
        if (!(at[i] = np_blocks_string(l->blocks, np_fb_element_string(l->fb, v, i))))
            return NEAP_ENOMEM;
    *(np_strings *)out = (np_strings){v.n, at};
    return np_load_fault(l);
}

static neap_status read_tids(np_load *l, np_fb_table t, int index, const np_field *f, void *out)
{
    const np_fb_vector v = np_fb_vector_of(l->fb, t, index, 4);
    if (!v.at)
        return missing(l);
    int32_t *at = np_blocks_array(l->blocks, v.n, sizeof *at);
    if (!at)
        return NEAP_ENOMEM;
    for (uint32_t i = 0; i < v.n; i++) {
        const uint32_t tid = np_fb_load_u32(l->fb, v.at + 4 * (uint64_t)i);
        const neap_status s = check_tid(l, tid);
        if (s != NEAP_OK)
            return s;
        at[i] = (int32_t)tid;
        if (f->kind == NP_FIELD_OUTS)
            note_write(l, tid);
    }
    *(np_tids *)out = (np_tids){v.n, at};
    return NEAP_OK;
}

/* Lists with an entry a dimension (pad_width: two) end where ranks do. */
static neap_status check_length(np_load *l, const np_field *f, uint32_t n)
{
    static const char *const by_dimension[] = {"shape", "strides", "reps",        "perm",
                                               "axes",  "dims",    "slice_sizes", "shift"};
    uint32_t most = UINT32_MAX;
    for (size_t i = 0; i < sizeof by_dimension / sizeof *by_dimension; i++)
        if (strcmp(f->name, by_dimension[i]) == 0)
            most = NEAP_MAX_RANK;
    if (strcmp(f->name, "pad_width") == 0)
        most = 2 * NEAP_MAX_RANK;
    return n <= most ? NEAP_OK
                     : np_load_fail(l, NEAP_EUNSUPPORTED,
                                    "%" PRIu32 " entries, the limit is %" PRIu32 " (rank %d)", n,
                                    most, NEAP_MAX_RANK);
}

static neap_status read_ints(np_load *l, np_fb_table t, int index, const np_field *f, void *out)
{
    const np_fb_vector v = np_fb_vector_of(l->fb, t, index, 4);
    if (!v.at && f->kind == NP_FIELD_INTS)
        return missing(l);
    neap_status s = check_length(l, f, v.n);
    np_int *at = s == NEAP_OK ? np_blocks_array(l->blocks, v.n, sizeof *at) : NULL;
    if (!at)
        return s == NEAP_OK ? NEAP_ENOMEM : s;
    for (uint32_t i = 0; i < v.n; i++)
        if ((s = read_int_table(l, np_fb_element_table(l->fb, v, i), at + i)) != NEAP_OK)
            return s;
    *(np_ints *)out = (np_ints){v.n, at};
    return np_load_fault(l);
}

static neap_status read_i32s(np_load *l, np_fb_table t, int index, const np_field *f, void *out)
{
    const uint32_t element = f->kind == NP_FIELD_I8S ? 1 : 4;
    const np_fb_vector v = np_fb_vector_of(l->fb, t, index, element);
    if (!v.at && f->kind == NP_FIELD_I32S)
        return missing(l);
    const neap_status s = check_length(l, f, v.n);
    int32_t *at = s == NEAP_OK ? np_blocks_array(l->blocks, v.n, sizeof *at) : NULL;
    if (!at)
        return s == NEAP_OK ? NEAP_ENOMEM : s;
    for (uint32_t i = 0; i < v.n; i++)
        at[i] = element == 1 ? np_fb_load_i8(l->fb, v.at + i)
                             : np_fb_load_i32(l->fb, v.at + 4 * (uint64_t)i);
    *(np_i32s *)out = (np_i32s){v.n, at};
    return np_load_fault(l);
}

static const reader readers[] = {
    [NP_FIELD_TID] = read_tid,
    [NP_FIELD_OPT_TID] = read_tid,
    [NP_FIELD_OUT] = read_out,
    [NP_FIELD_TIDS] = read_tids,
    [NP_FIELD_OUTS] = read_tids,
    [NP_FIELD_OUT_VID] = read_vid,
    [NP_FIELD_OPT_VID] = read_vid,
    [NP_FIELD_INT] = read_int,
    [NP_FIELD_OPT_INT] = read_int,
    [NP_FIELD_FLOAT] = read_float,
    [NP_FIELD_VID_OR_TID] = read_vid_or_tid,
    [NP_FIELD_INDEX] = read_index,
    [NP_FIELD_INTS] = read_ints,
    [NP_FIELD_OPT_INTS] = read_ints,
    [NP_FIELD_I32] = read_i32,
    [NP_FIELD_OPT_I32] = read_opt_i32,
    [NP_FIELD_U64] = read_u64,
    [NP_FIELD_F32] = read_f32,
    [NP_FIELD_OPT_F32] = read_opt_f32,
    [NP_FIELD_BOOL] = read_bool,
    [NP_FIELD_DTYPE] = read_dtype,
    [NP_FIELD_OPT_DTYPE] = read_opt_dtype,
    [NP_FIELD_CHAIN] = read_chain,
    [NP_FIELD_STRING] = read_string,
    [NP_FIELD_OPT_STRING] = read_string,
    [NP_FIELD_STRINGS] = read_strings,
    [NP_FIELD_I32S] = read_i32s,
    [NP_FIELD_OPT_I32S] = read_i32s,
    [NP_FIELD_I8S] = read_i32s,
};

/* ---- fields that belong together ------------------------------------------------------------- */

static neap_status not_empty(np_load *l, const char *field, uint32_t n)
{
    l->field = field;
    return n ? NEAP_OK : np_load_fail(l, NEAP_EFORMAT, "an empty list");
}

static neap_status same_count(np_load *l, const char *field, uint32_t n, const char *of,
                              uint64_t want)
{
    l->field = field;
    return n == want ? NEAP_OK
                     : np_load_fail(l, NEAP_EFORMAT, "%" PRIu32 " entries for %" PRIu64 " %s", n,
                                    want, of);
}

static neap_status check_scan(np_load *l, const np_node_scan *n)
{
    const neap_status s = not_empty(l, "originals", n->originals.n);
    return s != NEAP_OK ? s : same_count(l, "sliced", n->sliced.n, "originals", n->originals.n);
}

static neap_status check_metal_kernel(np_load *l, const np_node_metal_kernel *n)
{
    const uint32_t outputs = n->outputs.n, arguments = n->template_arg_names.n;
    neap_status s =
        same_count(l, "output_shape_lengths", n->output_shape_lengths.n, "outputs", outputs);
    if (s == NEAP_OK)
        s = same_count(l, "output_dtypes", n->output_dtypes.n, "outputs", outputs);
    if (s == NEAP_OK)
        s = same_count(l, "template_arg_kinds", n->template_arg_kinds.n, "names", arguments);
    if (s == NEAP_OK)
        s = same_count(l, "template_arg_values", n->template_arg_values.n, "names", arguments);
    uint64_t dims = 0;
    for (uint32_t i = 0; i < outputs && s == NEAP_OK; i++) {
        const int32_t rank = n->output_shape_lengths.at[i];
        neap_dtype dtype;
        dims += (uint32_t)rank;
        l->field = "output_shape_lengths";
        if (rank < 0 || rank > NEAP_MAX_RANK)
            return np_load_fail(l, NEAP_EUNSUPPORTED, "a rank of %" PRId32 ", the limit is %d",
                                rank, NEAP_MAX_RANK);
        l->field = "output_dtypes";
        s = to_dtype(l, n->output_dtypes.at[i], &dtype);
    }
    return s != NEAP_OK ? s
                        : same_count(l, "output_shapes_flat", n->output_shapes_flat.n,
                                     "dimensions of outputs", dims);
}

static neap_status check_together(np_load *l, uint32_t number, const void *fields)
{
    switch (number) {
    case NP_NODE_scan:
        return check_scan(l, fields);
    case NP_NODE_metal_kernel:
        return check_metal_kernel(l, fields);
    case NP_NODE_concatenate:
        return not_empty(l, "tensors", ((const np_node_concatenate *)fields)->tensors.n);
    case NP_NODE_stack:
        return not_empty(l, "tensors", ((const np_node_stack *)fields)->tensors.n);
    case NP_NODE_split: {
        const np_node_split *n = fields;
        const neap_status s = not_empty(l, "outs", n->outs.n);
        return s != NEAP_OK ? s : not_empty(l, "sizes", n->sizes.n);
    }
    default:
        return NEAP_OK;
    }
}

/* ---- the node -------------------------------------------------------------------------------- */

uint32_t np_node_chains(const np_instruction *node, uint32_t out[2])
{
    if (node->number == NP_NODE_if) {
        const np_node_if *n = node->fields;
        out[0] = n->then_chain_idx;
        out[1] = n->else_chain_idx;
        return 2;
    }
    if (node->number == NP_NODE_scan) {
        out[0] = ((const np_node_scan *)node->fields)->body_chain_idx;
        return 1;
    }
    return 0;
}

neap_status np_read_node(np_load *l, np_fb_table t, uint32_t number, np_instruction *out)
{
    const np_node_type *type = l->type = np_node_type_of(number);
    if (!type)
        return np_load_fail(l, NEAP_EUNSUPPORTED, "node type %" PRIu32 ", known are 1 to %d",
                            number, NP_NODE_COUNT - 1);
    if (l->fb->fault || !t.at)
        return l->fb->fault ? np_load_fault(l) : np_load_fail(l, NEAP_EFORMAT, "has no table");
    char *fields = np_blocks_take(l->blocks, type->bytes);
    if (!fields)
        return NEAP_ENOMEM;
    for (uint32_t i = 0; i < type->n_fields; i++) {
        const np_field *f = type->fields + i;
        l->field = f->name;
        const neap_status s = readers[f->kind](l, t, (int)i, f, fields + f->offset);
        if (s != NEAP_OK)
            return s;
    }
    const neap_status s = check_together(l, number, fields);
    l->type = NULL;
    l->field = NULL;
    *out = (np_instruction){(np_node_number)number, fields};
    return s;
}
