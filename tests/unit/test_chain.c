/* test_chain.c - chains over tiles: for each instruction set, random chains of ops over random
 * places give the bits of the ops' span and row kernels called one after the other (which have goldens of
 * their own, test_span_kernels.c and test_row_kernels.c), and touch nothing beside their results. What
 * the ops say of themselves. */
#include "kernel_fixture.h"

#include "ops/support.h"

enum row_kind { UNARY, BINARY, COMPARE };

static const struct row {
    const char *name;
    enum row_kind kind;
    int code;
    size_t offset;
} table[] = {
#define NP_UNARY(name, class)   {#name, UNARY, NP_CHAIN_##name, offsetof(np_span_kernels, name)},
#define NP_BINARY(name, class)  {#name, BINARY, NP_CHAIN_##name, offsetof(np_span_kernels, name)},
#define NP_COMPARE(name, class) {#name, COMPARE, NP_CHAIN_BINARY, offsetof(np_span_kernels, name)},
#include "cpu/elementwise.def"
#undef NP_UNARY
#undef NP_BINARY
#undef NP_COMPARE
};
enum { ROWS = sizeof table / sizeof *table };

static const neap_dtype types[] = {NEAP_F32, NEAP_BOOL, NEAP_I32, NEAP_F16, NEAP_BF16, NEAP_I64};
enum { TYPES = sizeof types / sizeof *types };

/* The kernel of a row for a dtype, as unary or binary; false: there is none. */
static bool kernel_of(const np_kernels *k, const struct row *r, neap_dtype t, np_chain_op *op)
{
    const char *at = (const char *)k->span + r->offset + (size_t)t * sizeof(np_unary_fn);
    if (r->kind == UNARY)
        memcpy(&op->fn.unary, at, sizeof op->fn.unary);
    else
        memcpy(&op->fn.binary, at, sizeof op->fn.binary);
    op->code = (int16_t)(t == NEAP_F32      ? r->code
                         : r->kind == UNARY ? NP_CHAIN_UNARY
                                            : NP_CHAIN_BINARY);
    return op->fn.unary != NULL;
}

/* ---- a random program ------------------------------------------------------------------------ */

enum { MOST_PLACES = 96, MOST_OPS = 40, MEMORY = 4 << 20, GUARD = 64 };

typedef struct program {
    const np_kernels *kernels;
    uint64_t seed;
    int64_t rows, cols;
    int n_places, n_ops;
    np_chain_place places[MOST_PLACES]; /* data: offsets into a memory */
    neap_dtype dtypes[MOST_PLACES];
    bool twin[MOST_PLACES]; /* shares its memory with another place */
    np_chain_op ops[MOST_OPS];
    size_t used;
} program;

static uint8_t memories[2][MEMORY];

static uint32_t random_below(program *p, uint32_t n)
{
    return noise(p->seed++) % n;
}

/* A full place, or one of the smaller inputs: one element for all, one a row, one row for all. */
static int new_place(program *p, neap_dtype t, int shape)
{
    int64_t size = (int64_t)size_of(t), n = shape == 1 || shape == 2 ? 1 : p->cols;
    int64_t row = shape == 1 || shape == 3 ? 0 : n * size;
    if (row && random_below(p, 2))
        row += (int64_t)random_below(p, 5) * size;
    size_t at = p->used + GUARD;
    at = random_below(p, 2) ? (at + 63) & ~(size_t)63 : at + random_below(p, 4) * (size_t)size;
    p->places[p->n_places] =
        (np_chain_place){(uint8_t *)(uintptr_t)at, row, (int32_t)size, shape == 1 || shape == 2,
                         random_below(p, 2) != 0};
    p->dtypes[p->n_places] = t;
    p->used = (at + (size_t)(p->rows * row + n * size) + GUARD + 7) & ~(size_t)7;
    assert_true(p->used <= MEMORY);
    return p->n_places++;
}

/* One of the places of a dtype that an op may read (or write, if `full`), or -1. */
static int some_place(program *p, neap_dtype t, bool full)
{
    int found = -1, count = 0;
    for (int i = 0; i < p->n_places; i++)
        if (p->dtypes[i] == t &&
            (!full || (!p->places[i].one && (p->places[i].row || p->rows == 1))) &&
            random_below(p, (uint32_t)++count) == 0)
            found = i;
    return found;
}

/* The last result, if it has this dtype, rather often. */
static uint16_t input(program *p, neap_dtype t)
{
    if (p->n_ops && random_below(p, 3)) {
        uint16_t last = p->ops[p->n_ops - 1].out;
        if (p->dtypes[last] == t)
            return last;
    }
    int i = some_place(p, t, false);
    return (uint16_t)(i < 0 ? new_place(p, t, (int)random_below(p, 4)) : i);
}

static uint16_t output(program *p, neap_dtype t)
{
    int i = random_below(p, 2) ? some_place(p, t, true) : -1;
    return (uint16_t)(i < 0 ? new_place(p, t, 0) : i);
}

static void add_where_or_cast(program *p, bool where)
{
    np_chain_op op = {.code = where ? NP_CHAIN_WHERE : NP_CHAIN_CAST};
    neap_dtype from = types[random_below(p, TYPES)], to = types[random_below(p, TYPES)];
    op.in[0] = input(p, where ? NEAP_BOOL : from);
    if (where) {
        op.in[1] = input(p, to);
        op.in[2] = input(p, to);
        op.fn.where = p->kernels->span->where[size_of(to)];
    } else {
        op.fn.cast = p->kernels->span->cast[from][to];
    }
    op.out = output(p, to);
    p->ops[p->n_ops++] = op;
}

static np_reduce_fn reduction_of(const np_kernels *k, const np_chain_op *op)
{
    return op->code == NP_CHAIN_ROW_SUM    ? k->row->sum[NEAP_F32]
           : op->code == NP_CHAIN_ROW_MEAN ? k->row->mean[NEAP_F32]
           : op->code == NP_CHAIN_ROW_MAX  ? k->row->max[NEAP_F32]
                                           : k->row->min[NEAP_F32];
}

static void add_reduction(program *p)
{
    np_chain_op op = {.code = (int16_t)(NP_CHAIN_ROW_SUM + random_below(p, 4))};
    op.in[0] = input(p, NEAP_F32);
    if (p->places[op.in[0]].one)
        return;
    op.out = (uint16_t)new_place(p, NEAP_F32, 2);
    p->ops[p->n_ops++] = op;
}

static void add_op(program *p)
{
    np_chain_op op = {0};
    uint32_t choice = random_below(p, 9);
    if (choice == 8) {
        if (p->cols > 0)
            add_reduction(p);
        return;
    }
    if (choice < 2) {
        add_where_or_cast(p, choice == 0);
        return;
    }
    neap_dtype t = choice < 7 ? NEAP_F32 : types[random_below(p, TYPES)];
    const struct row *r = &table[random_below(p, ROWS)];
    static const char *const often[] = {"add",     "sub",     "mul",  "div",
                                        "maximum", "minimum", "relu", "neg"};
    if (random_below(p, 2))
        for (const char *name = often[random_below(p, 8)]; strcmp(r->name, name) != 0;)
            r = r == &table[ROWS - 1] ? table : r + 1;
    if (!kernel_of(p->kernels, r, t, &op))
        return;
    op.in[0] = input(p, t);
    if (r->kind != UNARY)
        op.in[1] = input(p, t);
    op.out = output(p, r->kind == COMPARE ? NEAP_BOOL : t);
    p->ops[p->n_ops++] = op;
}

static int inputs_of(const np_chain_op *op)
{
    for (int i = 0; i < ROWS; i++)
        if (op->code == table[i].code && table[i].kind == UNARY)
            return 1;
    if (np_chain_reduces(op))
        return 1;
    return op->code == NP_CHAIN_WHERE                                ? 3
           : op->code == NP_CHAIN_UNARY || op->code == NP_CHAIN_CAST ? 1
                                                                     : 2;
}

static bool reads(const np_chain_op *op, uint16_t place)
{
    for (int k = 0; k < inputs_of(op); k++)
        if (op->in[k] == place)
            return true;
    return false;
}

/* Only the next op reads the result of op i, and no one looks at the place afterwards. */
static bool is_passed(const program *p, int i)
{
    uint16_t place = p->ops[i].out;
    if (i + 1 == p->n_ops || p->twin[place] || np_chain_reduces(&p->ops[i]) || !reads(&p->ops[i + 1], place))
        return false;
    for (int j = i + 1; j < p->n_ops; j++) {
        if (j > i + 1 && reads(&p->ops[j], place))
            return false;
        if (p->ops[j].out == place)
            return true;
    }
    return true;
}

static void make_program(program *p, const np_kernels *kernels, uint64_t seed)
{
    static const int64_t sizes[] = {0, 1, 15, 16, 17, 64, 100, 256, 300, 777, 2047, 2500, 4100};
    *p = (program){.kernels = kernels, .seed = seed << 20};
    p->cols = sizes[random_below(p, sizeof sizes / sizeof *sizes)];
    p->rows = p->cols > 300 ? 1 + random_below(p, 2) : 1 + random_below(p, 9);
    for (int i = 0; i < 6; i++)
        new_place(p, NEAP_F32, i < 3 ? 0 : i - 2);
    if (random_below(p, 2)) {
        p->places[p->n_places] = p->places[1];
        p->dtypes[p->n_places] = NEAP_F32;
        p->twin[1] = p->twin[p->n_places++] = true;
    }
    int want = 1 + (int)random_below(p, MOST_OPS);
    for (int tries = 0; p->n_ops < want && tries < 200 && p->n_places + 4 < MOST_PLACES; tries++)
        add_op(p);
    for (int i = 0; i < p->n_ops; i++) {
        p->ops[i].passed = is_passed(p, i) && random_below(p, 4);
        p->ops[i].far = random_below(p, 4) == 0;
    }
}

/* Floats of every kind, NaNs of several payloads; bools are 0 and 1. */
static void fill_place(program *p, uint8_t *memory, int i)
{
    static const uint32_t special[] = {0x7fc00000, 0xffc00000, 0x7fc12345, 0xffc54321, 0x7f800000,
                                       0xff800000, 0x80000000, 0,          1,          0x807fffff};
    const np_chain_place *place = &p->places[i];
    uint8_t *at = memory + (size_t)place->data;
    size_t n =
        (size_t)(p->rows * place->row) / (size_t)place->size + (size_t)(place->one ? 1 : p->cols);
    for (size_t k = 0; k < n; k++) {
        float f = (float)((int)random_below(p, 2001) - 1000) / 64;
        uint32_t bits = noise(p->seed++);
        memcpy(&bits, &f, sizeof bits);
        if (random_below(p, 4) == 0)
            bits = special[random_below(p, 10)];
        uint64_t value = p->dtypes[i] == NEAP_BOOL  ? bits >> 20 & 1
                         : p->dtypes[i] == NEAP_F32 ? bits
                         : place->size == 2         ? bits >> 16
                                                    : noise(p->seed++) % 200;
        memcpy(at + k * (size_t)place->size, &value, (size_t)place->size);
    }
}

/* ---- the two ways of running it ---------------------------------------------------------------
 */

static void bind(const program *p, uint8_t *memory, np_chain_place *places)
{
    for (int i = 0; i < p->n_places; i++) {
        places[i] = p->places[i];
        places[i].data = memory + (size_t)p->places[i].data;
    }
}

static void run_apart(const program *p, const np_chain_op *op, const np_chain_place *places)
{
    static uint8_t spread[8 * 4100];
    for (int64_t r = 0; r < p->rows; r++) {
        void *out = places[op->out].data + r * places[op->out].row, *x[3];
        int step[3], count = inputs_of(op);
        for (int k = 0; k < count; k++) {
            x[k] = places[op->in[k]].data + r * places[op->in[k]].row;
            step[k] = !places[op->in[k]].one;
        }
        if (np_chain_reduces(op)) {
            reduction_of(p->kernels, op)(&(np_reduce_args){.out = out, .x = x[0], .outer = 1, .n = p->cols,
                                                           .inner = 1, .stride = 1});
        } else if (count == 3) {
            op->fn.where(out, x[0], x[1], x[2], p->cols, step[0], step[1], step[2]);
        } else if (count == 2) {
            op->fn.binary(out, x[0], x[1], p->cols, step[0], step[1]);
        } else {
            size_t size = (size_t)places[op->in[0]].size;
            for (int64_t i = 0; !step[0] && i < p->cols; i++)
                memcpy(spread + (size_t)i * size, x[0], size);
            (op->code == NP_CHAIN_CAST ? op->fn.cast : op->fn.unary)(out, step[0] ? x[0] : spread,
                                                                     p->cols);
        }
    }
}

/* A passed result may be in its place or not: both memories take it as not. */
static void forget_passed(const program *p)
{
    for (int i = 0; i < p->n_ops; i++) {
        const np_chain_place *out = &p->places[p->ops[i].out];
        bool again = false;
        for (int j = i + 1; j < p->n_ops; j++)
            again |= p->ops[j].out == p->ops[i].out;
        for (int64_t r = 0; p->ops[i].passed && !again && r < p->rows; r++)
            for (int m = 0; m < 2; m++)
                memset(memories[m] + (size_t)out->data + r * out->row, 0,
                       (size_t)(p->cols * out->size));
    }
}

static const char *name_of(const np_chain_op *op)
{
    for (int i = 0; i < ROWS; i++)
        if (op->code >= NP_CHAIN_F32 && op->code == table[i].code)
            return table[i].name;
    return op->code == NP_CHAIN_WHERE  ? "where"
           : op->code == NP_CHAIN_CAST ? "cast"
           : np_chain_reduces(op)      ? "reduction"
                                       : "called";
}

static void tell(const program *p, uint64_t seed, size_t at)
{
    print_message("%s: seed %llu, %lld x %lld, byte %zu differs\n", p->kernels->isa,
                  (unsigned long long)seed, (long long)p->rows, (long long)p->cols, at);
    for (int i = 0; i < p->n_places; i++) {
        size_t from = (size_t)p->places[i].data;
        size_t to = from + (size_t)(p->rows * p->places[i].row +
                                    (p->places[i].one ? 1 : p->cols) * p->places[i].size);
        if (from <= at && at < to)
            print_message("  in place %d, byte %zu\n", i, at - from);
    }
    for (int i = 0; i < p->n_ops; i++)
        print_message("  %d: %d = %s(%d %d %d)%s%s form %d\n", i, p->ops[i].out,
                      name_of(&p->ops[i]), p->ops[i].in[0], p->ops[i].in[1], p->ops[i].in[2],
                      p->ops[i].passed ? " passed" : "", p->ops[i].far ? " far" : "",
                      p->ops[i].form);
    fail();
}

static void check_program(const np_kernels *kernels, uint64_t seed)
{
    static program p;
    np_chain_place places[MOST_PLACES];
    make_program(&p, kernels, seed);
    memset(memories[0], 0xa5, p.used + GUARD);
    for (int i = 0; i < p.n_places; i++)
        fill_place(&p, memories[0], i);
    memcpy(memories[1], memories[0], p.used + GUARD);
    bind(&p, memories[0], places);
    for (int i = 0; i < p.n_ops; i++)
        run_apart(&p, &p.ops[i], places);
    bind(&p, memories[1], places);
    kernels->chain->prepare(p.ops, p.n_ops, places);
    kernels->chain->run(p.ops, p.n_ops, places, p.rows, p.cols);
    kernels->chain->fence();
    forget_passed(&p);
    for (size_t i = 0; i < p.used + GUARD; i++)
        if (memories[0][i] != memories[1][i])
            tell(&p, seed, i);
}

static void test_chains_are_their_ops(void **state)
{
    (void)state;
    for (const np_kernels *const *k = np_kernels_available(); *k; k++)
        for (uint64_t seed = 0; seed < 3000; seed++)
            check_program(*k, seed);
}

/* ---- by hand ----------------------------------------------------------------------------------
 */

/* One f32 op after another, each form of each: t = x + y; then t and what the op takes beside it.
 */
static void check_forms(const np_kernels *kernels, const struct row *r, int a, int b, int64_t n)
{
    static program p;
    np_chain_place places[MOST_PLACES];
    p = (program){.kernels = kernels, .seed = 7, .rows = 1, .cols = n};
    for (int i = 0; i < 5; i++) /* x, y, one, t, out */
        new_place(&p, NEAP_F32, i == 2);
    kernel_of(kernels, &table[0], NEAP_F32, &p.ops[0]);
    p.ops[0].in[0] = 0, p.ops[0].out = 3, p.ops[0].passed = a == 3 || b == 3;
    kernel_of(kernels, r, NEAP_F32, &p.ops[1]);
    p.ops[1].in[0] = (uint16_t)a, p.ops[1].in[1] = (uint16_t)b, p.ops[1].out = 4;
    p.n_ops = 2;
    memset(memories[0], 0xa5, p.used + GUARD);
    for (int i = 0; i < 5; i++)
        fill_place(&p, memories[0], i);
    memcpy(memories[1], memories[0], p.used + GUARD);
    bind(&p, memories[0], places);
    run_apart(&p, &p.ops[0], places);
    run_apart(&p, &p.ops[1], places);
    bind(&p, memories[1], places);
    kernels->chain->prepare(p.ops, 2, places);
    kernels->chain->run(p.ops, 2, places, p.rows, p.cols);
    forget_passed(&p);
    if (memcmp(memories[0], memories[1], p.used + GUARD) != 0)
        fail_msg("%s: %s(%d, %d) of %lld", kernels->isa, r->name, a, b, (long long)n);
}

static void test_each_op_in_each_form(void **state)
{
    (void)state;
    static const int64_t sizes[] = {1, 16, 17, 63, 64, 257, 352};
    for (const np_kernels *const *k = np_kernels_available(); *k; k++)
        for (int i = 0; i < ROWS; i++) {
            np_chain_op op;
            if (table[i].kind == COMPARE || !kernel_of(*k, &table[i], NEAP_F32, &op))
                continue;
            for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
                for (int a = 0; a < 4; a++)
                    for (int b = 0; b < (table[i].kind == UNARY ? 1 : 4); b++)
                        check_forms(*k, &table[i], a, b, sizes[s]);
        }
}

/* ---- what the ops say -------------------------------------------------------------------------
 */

static const np_op *op_named(const char *name)
{
    for (const np_op *const *op = np_op_table(); *op; op++)
        if (strcmp((*op)->name, name) == 0)
            return *op;
    fail_msg("no op %s", name);
    return NULL;
}

static void test_ops_know_their_kernels(void **state)
{
    (void)state;
    neap_context *ctx;
    neap_context_options o = NEAP_CONTEXT_OPTIONS_INIT;
    assert_int_equal(neap_context_new(&o, &ctx), NEAP_OK);
    for (int i = 0; i < ROWS; i++) {
        const np_op *op = op_named(table[i].name);
        assert_non_null(op->chain);
        for (int t = 0; t < NEAP_DTYPE_SPAN; t++) {
            np_operand in = {.dtype = (uint8_t)t}, out = in;
            const np_operand *ins[] = {&in, &in};
            np_call call = {
                .ctx = ctx, .op = op, .n_in = (uint32_t)op->arity, .in = ins, .out = &out};
            np_chain_op want = {0}, got = {0};
            if (table[i].kind == COMPARE)
                out.dtype = NEAP_BOOL;
            bool there = kernel_of(ctx->kernels, &table[i], (neap_dtype)t, &want);
            assert_int_equal(op->chain(&call, &got), there);
            if (there) {
                assert_int_equal(got.code, want.code);
                assert_ptr_equal((void *)got.fn.unary, (void *)want.fn.unary);
            }
        }
    }
    neap_context_free(ctx);
}

static void test_cast_and_where_know_theirs(void **state)
{
    (void)state;
    neap_context *ctx;
    neap_context_options o = NEAP_CONTEXT_OPTIONS_INIT;
    assert_int_equal(neap_context_new(&o, &ctx), NEAP_OK);
    for (int i = 0; i < TYPES; i++)
        for (int j = 0; j < TYPES; j++) {
            np_operand from = {.dtype = (uint8_t)types[i]}, to = {.dtype = (uint8_t)types[j]};
            np_operand cond = {.dtype = NEAP_BOOL};
            const np_operand *ins[] = {&from}, *three[] = {&cond, &to, &to};
            np_call cast = {.ctx = ctx, .op = op_named("cast"), .n_in = 1, .in = ins, .out = &to};
            np_call where = {
                .ctx = ctx, .op = op_named("where"), .n_in = 3, .in = three, .out = &to};
            np_chain_op got = {0};
            assert_true(cast.op->chain(&cast, &got));
            assert_int_equal(got.code, NP_CHAIN_CAST);
            assert_ptr_equal((void *)got.fn.cast,
                             (void *)ctx->kernels->span->cast[types[i]][types[j]]);
            assert_true(where.op->chain(&where, &got));
            assert_int_equal(got.code, NP_CHAIN_WHERE);
            assert_ptr_equal((void *)got.fn.where,
                             (void *)ctx->kernels->span->where[size_of(types[j])]);
        }
    neap_context_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_op_in_each_form),
        cmocka_unit_test(test_chains_are_their_ops),
        cmocka_unit_test(test_ops_know_their_kernels),
        cmocka_unit_test(test_cast_and_where_know_theirs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
