/* test_parts.c - the promise of np_op.part: a result has the same bits however it is cut. Every op
 * of ops.def that can be cut has a case here, with dtypes, shapes and layouts of its inputs. */
#include "parts_check.h"

/* ---- inputs --------------------------------------------------------------------------------- */

enum { LAYOUTS = 4 };

static int layout; /* of the case that is built: row-major, transposed, stepped back, broadcast */

static neap_array *numbers(neap_dtype dtype, int rank, const int64_t *shape, double low, double high)
{
    static _Alignas(64) uint8_t data[MAX_ELEMENTS * 8];
    static uint32_t state = 1;
    int64_t n = np_size(rank, shape);
    bool is_unsigned = neap_dtype_describe(dtype)->class_ == NEAP_CLASS_UINT;
    assert_true(n <= MAX_ELEMENTS);
    for (int64_t i = 0; i < n; i++) {
        state = state * 1664525u + 1013904223u;
        double v = low + (high - low) * (double)(state >> 8) / 16777216.0;
        store(dtype, data, i, dtype == NEAP_BOOL ? state >> 31 : is_unsigned ? fabs(v) : v);
    }
    return neap_array_from(dtype, rank, shape, data);
}

/* In the layout of the case, as far as the rank has it. */
static neap_array *laid(neap_dtype dtype, int rank, const int64_t *shape)
{
    int64_t s[NEAP_MAX_RANK], open[NEAP_MAX_RANK], step[NEAP_MAX_RANK];
    memcpy(s, shape, (size_t)rank * sizeof *s);
    if (layout == 1 && rank >= 2) {
        s[rank - 1] = shape[rank - 2];
        s[rank - 2] = shape[rank - 1];
        return neap_swap_axes(numbers(dtype, rank, s, -4, 4), -1, -2);
    }
    if (layout == 2 && rank >= 1) {
        for (int d = 0; d < rank; d++) {
            open[d] = NEAP_END;
            step[d] = d == rank - 1 ? -2 : 1;
        }
        s[rank - 1] *= 2;
        return neap_slice(numbers(dtype, rank, s, -4, 4), open, open, step);
    }
    if (layout == 3 && rank >= 2) {
        s[rank == 2 ? 0 : 1] = 1;
        return neap_broadcast_to(numbers(dtype, rank, s, -4, 4), rank, shape);
    }
    return numbers(dtype, rank, shape, -4, 4);
}

#define SHAPE(...) (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]){__VA_ARGS__}

/* Small, of four dimensions, of long rows, large enough for the lanes. */
static neap_array *array_of(neap_dtype dtype, int which)
{
    switch (which) {
    case 0: return laid(dtype, SHAPE(7, 5, 19));
    case 1: return laid(dtype, SHAPE(2, 3, 4, 17));
    case 2: return laid(dtype, SHAPE(4, 2100));
    default: return laid(dtype, SHAPE(2, 120, 140));
    }
}
enum { ARRAYS = 4 };

/* ---- cases: the variants of an op, NULL behind the last ---------------------------------------- */

static neap_array *build_softmax(neap_dtype dtype, int v)
{
    return v < ARRAYS ? neap_softmax(array_of(dtype, v), -1)
           : v == ARRAYS ? neap_softmax(array_of(dtype, 0), 0) : NULL;
}

static neap_array *build_rms_norm(neap_dtype dtype, int v)
{
    if (v >= 2 * ARRAYS)
        return NULL;
    neap_array *x = array_of(dtype, v / 2), *weight = numbers(dtype, 1, x->shape + x->rank - 1, -1, 1);
    return neap_rms_norm(x, v % 2 ? weight : NULL, 1e-5f);
}

static neap_array *build_layer_norm(neap_dtype dtype, int v)
{
    if (v >= 3 * ARRAYS)
        return NULL;
    neap_array *x = array_of(dtype, v / 3);
    neap_array *weight = numbers(dtype, 1, x->shape + x->rank - 1, -1, 1);
    neap_array *bias = numbers(dtype, 1, x->shape + x->rank - 1, -1, 1);
    return neap_layer_norm(x, v % 3 ? weight : NULL, v % 3 == 2 ? bias : NULL, 1e-5f);
}

/* Every axis of every array, with and without it in the result. */
static neap_array *reduced(neap_dtype dtype, int v, neap_array *(*op)(neap_array *, int, unsigned))
{
    for (int which = 0; which < ARRAYS; which++) {
        neap_array *x = array_of(dtype, which);
        if (v < 2 * x->rank)
            return op(x, v / 2, v % 2);
        v -= 2 * x->rank;
    }
    return NULL;
}

#define REDUCTION(name)                                                                   \
    static neap_array *build_##name(neap_dtype dtype, int v)                              \
    {                                                                                     \
        return reduced(dtype, v, neap_##name);                                            \
    }
#define OVER_AXES(name, ...)                                                              \
    static neap_array *one_##name(neap_array *x, int axis, unsigned flags)                \
    {                                                                                     \
        return neap_##name##_axes(x, 1, &axis, __VA_ARGS__);                              \
    }                                                                                     \
    static neap_array *build_##name(neap_dtype dtype, int v)                              \
    {                                                                                     \
        return reduced(dtype, v, one_##name);                                             \
    }
REDUCTION(sum)
REDUCTION(mean)
REDUCTION(max)
REDUCTION(min)
REDUCTION(argmax)
REDUCTION(argmin)
OVER_AXES(prod, flags)
OVER_AXES(logsumexp, flags)
OVER_AXES(var, 1, flags)
OVER_AXES(std, 0, flags)

/* Rows, one row, leading dimensions of both, of one only. */
static bool factors(neap_dtype dtype, int v, neap_array *out[2])
{
    switch (v) {
    case 0: out[0] = laid(dtype, SHAPE(37, 65)), out[1] = laid(dtype, SHAPE(65, 40)); return true;
    case 1: out[0] = laid(dtype, SHAPE(1, 300)), out[1] = laid(dtype, SHAPE(300, 33)); return true;
    case 2: out[0] = laid(dtype, SHAPE(5, 4, 9)), out[1] = laid(dtype, SHAPE(5, 9, 35)); return true;
    case 3: out[0] = laid(dtype, SHAPE(3, 7, 520)), out[1] = laid(dtype, SHAPE(520, 17)); return true;
    case 4: out[0] = laid(dtype, SHAPE(6, 20)), out[1] = laid(dtype, SHAPE(4, 20, 10)); return true;
    case 5: out[0] = laid(dtype, SHAPE(5, 1, 9)), out[1] = laid(dtype, SHAPE(5, 9, 35)); return true;
    case 6: out[0] = laid(dtype, SHAPE(9)), out[1] = laid(dtype, SHAPE(5, 9, 3)); return true;
    default: return false;
    }
}

static neap_array *build_matmul(neap_dtype dtype, int v)
{
    neap_array *in[2];
    return factors(dtype, v, in) ? neap_matmul(in[0], in[1]) : NULL;
}

static neap_array *build_addmm(neap_dtype dtype, int v)
{
    neap_array *in[2];
    if (!factors(dtype, v / 2, in))
        return NULL;
    neap_array *product = neap_matmul(in[0], in[1]);
    int one = product->rank - 1;
    neap_array *add = v % 2 ? laid(dtype, product->rank, product->shape)
                            : laid(dtype, 1, product->shape + one);
    return neap_addmm(add, in[0], in[1], 0.5f, -1.5f);
}

static neap_array *build_contiguous(neap_dtype dtype, int v)
{
    return v < ARRAYS ? np_node(&np_op_contiguous, 1, (neap_array *[]){array_of(dtype, v)}, NULL, 0)
                      : NULL;
}

static neap_array *build_concat(neap_dtype dtype, int v)
{
    for (int which = 0; which < ARRAYS; which++) {
        neap_array *x = array_of(dtype, which), *y = array_of(dtype, which);
        if (v < x->rank)
            return neap_concat(3, (neap_array *[]){x, neap_narrow(y, v, 1, 2), x}, v);
        v -= x->rank;
    }
    return NULL;
}

/* ---- every op ------------------------------------------------------------------------------- */

enum { EVERY = 0, FLOATS = 1, F32 = 2, WIDE = 3 };
static const neap_dtype dtypes_of[][NEAP_DTYPE_SPAN] = {
    [EVERY] = {NEAP_F32, NEAP_F16, NEAP_BF16, NEAP_I8, NEAP_U8, NEAP_I16, NEAP_I32, NEAP_U32,
               NEAP_I64, NEAP_BOOL},
    [FLOATS] = {NEAP_F32, NEAP_F16, NEAP_BF16},
    [F32] = {NEAP_F32},
    [WIDE] = {NEAP_F32, NEAP_BF16, NEAP_I32},
};
static const int counts_of[] = {[EVERY] = 10, [FLOATS] = 3, [F32] = 1, [WIDE] = 3};

typedef struct part_case {
    const np_op *op;
    int dtypes;
    neap_array *(*build)(neap_dtype dtype, int v);
} part_case;

#define CASE(op, dtypes) {&np_op_##op, dtypes, build_##op}
static const part_case cases[] = {
    CASE(softmax, FLOATS),   CASE(rms_norm, FLOATS), CASE(layer_norm, FLOATS), CASE(sum, EVERY),
    CASE(mean, FLOATS),      CASE(max, EVERY),       CASE(min, EVERY),         CASE(argmax, EVERY),
    CASE(argmin, EVERY),     CASE(prod, WIDE),       CASE(logsumexp, FLOATS),  CASE(var, FLOATS),
    CASE(std, FLOATS),       CASE(matmul, FLOATS),   CASE(addmm, FLOATS),      CASE(contiguous, EVERY),
    CASE(concat, WIDE),
};
enum { CASES = sizeof cases / sizeof cases[0] };

static int cuts_of[CASES];

/* Every node of the graph that can be cut; most are few. */
static void check_graph(neap_array *root)
{
    neap_array *list[64] = {root};
    int n = 1;
    for (int i = 0; i < n; i++) {
        neap_array *a = list[i];
        for (uint32_t k = 0; k < a->n_in + (a->base != NULL); k++) {
            neap_array *next = k < a->n_in ? a->in[k] : a->base;
            for (int j = 0; j < n && next; j++)
                next = list[j] == next ? NULL : next;
            assert_true(n < 64);
            if (next)
                list[n++] = next;
        }
    }
    for (int i = n - 1; i >= 0; i--) {
        if (!list[i]->op || !(list[i]->op->part || list[i]->op->flags & NP_OP_ELEMENTWISE))
            continue;
        int cuts = check_parts(list[i]);
        for (int c = 0; c < CASES; c++)
            cuts_of[c] += cases[c].op == list[i]->op ? cuts : 0;
    }
}

static void run_case(const part_case *c, neap_dtype dtype)
{
    for (int v = 0;; v++) {
        assert_int_equal(neap_scope_push(ctx), NEAP_OK);
        neap_array *y = c->build(dtype, v);
        if (!y && neap_context_status(ctx) != NEAP_OK)
            fail_msg("%s: %s", c->op->name, neap_context_error(ctx));
        if (y)
            check_graph(y);
        neap_scope_pop(ctx);
        if (!y)
            return;
    }
}

static void test_same_bits_however_cut(void **state)
{
    (void)state;
    for (const np_kernels *const *k = np_kernels_available(); *k; k++) {
        ctx = open_context((*k)->isa, 2);
        for (int c = 0; c < CASES; c++)
            for (int d = 0; d < counts_of[cases[c].dtypes]; d++)
                for (layout = 0; layout < LAYOUTS; layout++)
                    run_case(&cases[c], dtypes_of[cases[c].dtypes][d]);
        neap_context_free(ctx);
    }
}

static void test_every_op_has_a_case(void **state)
{
    (void)state;
    for (const np_op *const *op = np_op_table(); *op; op++) {
        int at = 0;
        while (at < CASES && cases[at].op != *op)
            at++;
        if ((*op)->part && (at == CASES || cuts_of[at] == 0))
            fail_msg("%s can be made in parts, but none is tried here", (*op)->name);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits_however_cut),
        cmocka_unit_test(test_every_op_has_a_case),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
