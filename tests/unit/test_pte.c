/* test_pte.c - the readers of .pte and .ptd files and of the delegate's graph: programs written for
 * tests (tools/make_pte_cases.py), exported ones with what another reader saw in them (../shared or
 * NEAP_SHARED), malformed and cut files, failing allocations. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/file_map.h"
#include "formats/pte.h"
#include "program/graph.h"
#include "unit/graph_text.h"

#define GOLDEN NEAP_TEST_DIR "/golden/pte/"
enum { MEBIBYTE = 1 << 20 };

static neap_context *new_context(int64_t fail_allocation)
{
    neap_context *ctx = NULL;
    neap_context_options o = NEAP_CONTEXT_OPTIONS_INIT;
    o.threads = 1;
    o.memory_limit = 64 * MEBIBYTE;
    o.fail_allocation = fail_allocation;
    return neap_context_new(&o, &ctx) == NEAP_OK ? ctx : NULL;
}

static uint64_t active(neap_context *ctx)
{
    neap_memory_info m = NEAP_MEMORY_INFO_INIT;
    neap_context_memory(ctx, &m);
    return m.active;
}

/* ---- everything that can be read of a program is read -----------------------------------------
 */

static volatile uint64_t sink;

static void touch(np_bytes b)
{
    for (uint64_t i = 0; i<b.n; i += b.n> 4096 ? 997 : 1)
        sink += b.p[i];
    if (b.n)
        sink += b.p[b.n - 1];
}

static void touch_values(const np_pte *pte, const np_pte_method *m)
{
    for (uint32_t i = 0; i < m->n_values; i++) {
        const np_pte_value *v = m->values + i;
        np_bytes b;
        if (v->kind == NP_PTE_TENSOR) {
            touch(v->tensor.start);
            if (v->tensor.data && np_pte_constant(pte, v->tensor.data, &b))
                touch(b);
        } else if (v->kind == NP_PTE_STRING) {
            touch(v->string);
        } else if (v->kind >= NP_PTE_INT_LIST) {
            for (uint32_t k = 0; k < v->list.n; k++)
                sink += (uint64_t)v->list.at[k];
        }
    }
    for (uint32_t c = 0; c < m->n_chains; c++)
        for (uint32_t i = 0; i < m->chains[c].n; i++)
            for (uint32_t k = 0; k < m->chains[c].instructions[i].n_args; k++)
                assert_in_range(m->chains[c].instructions[i].args[k], 0, m->n_values - 1);
}

static void touch_graph(const np_pte *pte, const np_mlx_graph *g)
{
    for (uint32_t i = 0; i < g->n_constants; i++) {
        np_bytes b;
        if (np_pte_named_data(pte, g->meta[i].name, &b))
            touch(b);
    }
    graph_text t = text_of_graph(g);
    sink += t.n;
    free(t.text);
}

static neap_status load_all(neap_context *ctx, const void *bytes, uint64_t n)
{
    np_pte *pte;
    neap_status s = np_pte_open_memory(ctx, bytes, n, &pte);
    if (s != NEAP_OK)
        return s;
    for (uint32_t m = 0; m < pte->n_methods && s == NEAP_OK; m++) {
        touch_values(pte, pte->methods + m);
        for (uint32_t d = 0; d < pte->methods[m].n_delegates && s == NEAP_OK; d++) {
            np_mlx_graph *g;
            s = np_mlx_graph_load(ctx, pte->methods[m].delegates[d].payload, &g);
            if (s == NEAP_OK)
                touch_graph(pte, g);
            np_mlx_graph_free(s == NEAP_OK ? g : NULL);
        }
    }
    np_pte_close(pte);
    return s;
}

/* Loads bytes that may be anything: a status, nothing kept, the text of an error. */
static neap_status survive(neap_context *ctx, const void *bytes, uint64_t n)
{
    const uint64_t before = active(ctx);
    const neap_status s = load_all(ctx, bytes, n);
    if (s != NEAP_OK && s != NEAP_EFORMAT && s != NEAP_EUNSUPPORTED)
        fail_msg("status %d: %s", s, neap_context_error(ctx));
    assert_true(s == NEAP_OK || *neap_context_error(ctx));
    neap_context_clear_error(ctx);
    assert_int_equal(active(ctx), before);
    return s;
}

/* A copy of exactly the file's size on the heap, so that a sanitizer sees what runs over it. */
static uint8_t *contents(const char *path, uint64_t *n)
{
    neap_context *ctx = new_context(0);
    np_file_map map;
    if (np_file_map_open(ctx, path, &map) != NEAP_OK)
        fail_msg("%s", neap_context_error(ctx));
    uint8_t *copy = malloc(map.bytes + !map.bytes);
    assert_non_null(copy);
    if (map.bytes)
        memcpy(copy, map.data, map.bytes);
    *n = map.bytes;
    np_file_map_close(&map);
    neap_context_free(ctx);
    return copy;
}

/* ---- programs of the tests' own -----------------------------------------------------------------
 */

static void test_fields(void **state)
{
    (void)state;
    neap_context *ctx = new_context(0);
    np_pte *pte;
    np_mlx_graph *g;
    assert_int_equal(np_pte_open(ctx, GOLDEN "th14_item.pte", &pte), NEAP_OK);
    assert_int_equal(pte->n_methods, 1);
    const np_pte_method *m = pte->methods;
    assert_string_equal(m->name, "forward");
    assert_int_equal(m->n_inputs, 1);
    assert_int_equal(m->values[m->inputs[0]].tensor.dtype, NEAP_I32);
    assert_int_equal(m->values[m->inputs[0]].tensor.shape[0], 1);
    assert_string_equal(m->delegates[0].id, "MLXBackend");
    assert_int_equal(np_mlx_graph_load(ctx, m->delegates[0].payload, &g), NEAP_OK);
    assert_int_equal(g->n_temps, 4);
    assert_int_equal(g->init_chain, -1);
    graph_text t = text_of_graph(g);
    /* Input 0, output 1, temporaries 2 to 5 in the order of tools/make_pte_cases.py. */
    assert_string_equal(t.text, "chain 0 [0] AddNode; a: tid 0; b: tid 0; out: tid 4\n"
                                "chain 0 [1] AddNode; a: tid 4; b: tid 0; out: tid 5\n"
                                "chain 0 [2] IfNode; cond: {'literal': 1}; then_chain_idx: 1; "
                                "else_chain_idx: 2\n"
                                "chain 0 [3] AddNode; a: tid 2; b: tid 0; out: tid 3\n"
                                "chain 0 [4] AddNode; a: tid 3; b: tid 4; out: tid 1\n"
                                "chain 1 [0] ItemIntNode; x: tid 5; out: vid 0\n"
                                "chain 1 [1] FullNode; out: tid 2; shape: [{'literal': 1}]; "
                                "v: vid 0; scalar_type: i32\n"
                                "chain 2 [0] IdCopyNode; x: tid 0; out: tid 2\n");
    free(t.text);
    np_mlx_graph_free(g);
    np_pte_close(pte);
    neap_context_free(ctx);
}

static void test_sound(void **state)
{
    (void)state;
    neap_context *ctx = new_context(0);
    int n = 0;
    DIR *folder = opendir(GOLDEN);
    assert_non_null(folder);
    for (const struct dirent *e; (e = readdir(folder));) {
        if (!strstr(e->d_name, ".pte") || strncmp(e->d_name, "bad_", 4) == 0)
            continue;
        char path[512];
        snprintf(path, sizeof path, GOLDEN "%s", e->d_name);
        uint64_t size;
        uint8_t *bytes = contents(path, &size);
        if (load_all(ctx, bytes, size) != NEAP_OK)
            fail_msg("%s: %s", e->d_name, neap_context_error(ctx));
        free(bytes);
        n++;
    }
    closedir(folder);
    assert_true(n >= 30);
    neap_context_free(ctx);
}

static void test_bad(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        neap_status status;
    } statuses[] = {
        {"OK",           NEAP_OK          },
        {"EFORMAT",      NEAP_EFORMAT     },
        {"EUNSUPPORTED", NEAP_EUNSUPPORTED}
    };
    neap_context *ctx = new_context(0);
    FILE *f = fopen(GOLDEN "bad.txt", "r");
    assert_non_null(f);
    char line[256];
    int rows = 0;
    for (; fgets(line, sizeof line, f); rows++) {
        char name[64], stage[16], status[16], path[512];
        int words = 0;
        line[strcspn(line, "\n")] = 0;
        assert_int_equal(sscanf(line, "%63s %15s %15s %n", name, stage, status, &words), 3);
        neap_status want = NEAP_OK;
        for (size_t i = 0; i < 3; i++)
            if (strcmp(stage, "load") == 0 && strcmp(status, statuses[i].name) == 0)
                want = statuses[i].status;
        snprintf(path, sizeof path, GOLDEN "%s.pte", name);
        uint64_t size;
        uint8_t *bytes = contents(path, &size);
        const neap_status s = load_all(ctx, bytes, size);
        free(bytes);
        if (s != want || (s && !strstr(neap_context_error(ctx), line + words)))
            fail_msg("%s: %d (%s), wanted %d with '%s'", name, s, neap_context_error(ctx), want,
                     line + words);
        neap_context_clear_error(ctx);
    }
    fclose(f);
    assert_true(rows >= 60);
    neap_context_free(ctx);
}

static void test_external(void **state)
{
    (void)state;
    neap_context *ctx = new_context(0);
    const uint64_t before = active(ctx);
    np_pte *pte;
    np_bytes b;
    assert_int_equal(np_pte_open(ctx, GOLDEN "external.pte", &pte), NEAP_OK);
    assert_true(np_pte_named_data(pte, "near/k", &b));
    assert_int_equal(b.n, 16);
    assert_false(np_pte_named_data(pte, "far/w", &b));
    assert_int_equal(np_pte_attach(pte, GOLDEN "external.pte"), NEAP_EFORMAT);
    assert_non_null(strstr(neap_context_error(ctx), "FT01"));
    neap_context_clear_error(ctx);
    assert_int_equal(np_pte_attach(pte, GOLDEN "none.ptd"), NEAP_EIO);
    neap_context_clear_error(ctx);
    assert_int_equal(np_pte_attach(pte, GOLDEN "external.ptd"), NEAP_OK);
    assert_true(np_pte_named_data(pte, "far/w", &b));
    const float want[] = {1, 2, 3, 4};
    assert_int_equal(b.n, sizeof want);
    assert_memory_equal(b.p, want, sizeof want);
    assert_false(np_pte_named_data(pte, "far", &b));
    np_pte_close(pte);
    assert_int_equal(active(ctx), before);
    neap_context_free(ctx);
}

/* ---- malformed
 * ------------------------------------------------------------------------------------ */

/* Small programs that hold every kind of object between them. */
static const char *const small[] = {"th14_item",      "two_methods",  "nested_scan_if_scan",
                                    "state_in_place", "values",       "copy_",
                                    "two_delegates",  "length_bound", "bad_metal_unknown"};

static void change_words(neap_context *ctx, uint8_t *bytes, uint64_t n)
{
    static const uint32_t values[] = {0xFFFFFFFF, 0x7FFFFFFF, 0x80000000, 0, 1, 0x01010101};
    for (uint64_t at = 0; at + 4 <= n; at += 4)
        for (size_t k = 0; k < sizeof values / sizeof *values; k++) {
            uint32_t old;
            memcpy(&old, bytes + at, 4);
            memcpy(bytes + at, &values[k], 4);
            survive(ctx, bytes, n);
            memcpy(bytes + at, &old, 4);
        }
    for (uint64_t at = 0; at + 2 <= n; at += 2) { /* vtables are of 16 bits */
        uint16_t old;
        memcpy(&old, bytes + at, 2);
        for (uint32_t v = 0; v < 0x10000; v = v ? v * 2 + 1 : 1) {
            const uint16_t value = (uint16_t)v;
            memcpy(bytes + at, &value, 2);
            survive(ctx, bytes, n);
        }
        memcpy(bytes + at, &old, 2);
    }
}

static void flip_bytes(neap_context *ctx, uint8_t *bytes, uint64_t n, uint64_t seed)
{
    uint8_t *changed = malloc(n);
    assert_non_null(changed);
    for (uint64_t round = 0; round < 2000; round++) {
        memcpy(changed, bytes, n);
        for (uint64_t k = 0; k <= round % 8; k++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            changed[(seed >> 33) % n] ^= (uint8_t)(1u << (seed >> 29) % 8);
        }
        survive(ctx, changed, n);
    }
    free(changed);
}

static void test_malformed(void **state)
{
    (void)state;
    neap_context *ctx = new_context(0);
    for (size_t i = 0; i < sizeof small / sizeof *small; i++) {
        char path[512];
        snprintf(path, sizeof path, GOLDEN "%s.pte", small[i]);
        uint64_t n;
        uint8_t *bytes = contents(path, &n);
        assert_int_equal(survive(ctx, bytes, n), NEAP_OK);
        change_words(ctx, bytes, n);
        flip_bytes(ctx, bytes, n, 7 + i);
        for (uint64_t cut = 0; cut < n; cut += 16) { /* its own block, so that reads beyond show */
            uint8_t *part = malloc(cut + !cut);
            assert_non_null(part);
            memcpy(part, bytes, cut);
            assert_int_not_equal(survive(ctx, part, cut), NEAP_OK);
            free(part);
        }
        free(bytes);
    }
    neap_context_free(ctx);
}

static void test_malformed_external(void **state)
{
    (void)state;
    neap_context *ctx = new_context(0);
    uint64_t n;
    uint8_t *bytes = contents(GOLDEN "external.ptd", &n);
    static const uint32_t values[] = {0xFFFFFFFF, 0x7FFFFFFF, 0, 1};
    for (uint64_t at = 0; at + 4 <= n; at += 4)
        for (size_t k = 0; k < 4; k++) {
            np_pte *pte;
            np_bytes b;
            assert_int_equal(np_pte_open(ctx, GOLDEN "external.pte", &pte), NEAP_OK);
            uint32_t old;
            memcpy(&old, bytes + at, 4);
            memcpy(bytes + at, &values[k], 4);
            if (np_pte_attach_memory(pte, bytes, n) == NEAP_OK &&
                np_pte_named_data(pte, "far/w", &b))
                touch(b);
            memcpy(bytes + at, &old, 4);
            np_pte_close(pte);
            neap_context_clear_error(ctx);
        }
    free(bytes);
    neap_context_free(ctx);
}

/* An object that is referred to again and again does not make the graph larger than its file. */
static void test_shared_objects(void **state)
{
    (void)state;
    enum { HEAD = 24, FIELDS = 15, CHAINS = 20000, WORDS = 3 * CHAINS };
    uint32_t *file = calloc(WORDS, 4);
    assert_non_null(file);
    uint16_t vtable[2 + FIELDS] = {4 + 2 * FIELDS, 8};
    vtable[2 + 7] = 4; /* instruction_chains */
    uint8_t *fb = (uint8_t *)file + HEAD;
    const uint64_t end = (uint64_t)WORDS * 4;
    memcpy((uint8_t *)file + 4, "MLX0", 4);
    memcpy((uint8_t *)file + 8, &end, 8);
    /* At 0 the root's offset, at 4 the vtable (34 bytes), at 40 the root, at 48 the vector: all its
     * elements lead to one table behind it, whose list of instructions is the vector itself. */
    const uint32_t root = 40, list = 48, n = CHAINS, table = list + 4 + 4 * CHAINS + 8;
    const int32_t to_vtable = (int32_t)root - 4;
    const uint32_t to_list = list - (root + 4);
    memcpy(fb, &root, 4);
    memcpy(fb + 4, vtable, sizeof vtable);
    memcpy(fb + root, &to_vtable, 4);
    memcpy(fb + root + 4, &to_list, 4);
    memcpy(fb + list, &n, 4);
    for (uint32_t i = 0; i < CHAINS; i++) {
        const uint32_t at = list + 4 + 4 * i, offset = table - at;
        memcpy(fb + at, &offset, 4);
    }
    const uint16_t small_vtable[] = {6, 8, 4, 0};
    const int32_t to_small = 8;
    const uint32_t inner = table + 8, none = CHAINS, to_inner = inner - (table + 4);
    memcpy(fb + table - 8, small_vtable, sizeof small_vtable);
    memcpy(fb + table, &to_small, 4);
    memcpy(fb + table + 4, &to_inner, 4);
    memcpy(fb + inner, &none, 4);
    const uint32_t empty = inner + 4 + 4 * CHAINS + 4; /* a null instruction, for all of them */
    const uint16_t no_fields[] = {4, 4};
    const int32_t to_no_fields = 4;
    memcpy(fb + empty - 4, no_fields, sizeof no_fields);
    memcpy(fb + empty, &to_no_fields, 4);
    for (uint32_t i = 0; i < CHAINS; i++) {
        const uint32_t at = inner + 4 + 4 * i, offset = empty - at;
        memcpy(fb + at, &offset, 4);
    }
    neap_context *ctx = new_context(0);
    np_mlx_graph *g;
    assert_int_equal(np_mlx_graph_load(ctx, (np_bytes){(uint8_t *)file, end}, &g), NEAP_EFORMAT);
    assert_non_null(strstr(neap_context_error(ctx), "one reference too many"));
    neap_memory_info m = NEAP_MEMORY_INFO_INIT;
    neap_context_memory(ctx, &m);
    assert_true(m.peak < 8 * MEBIBYTE);
    neap_context_free(ctx);
    free(file);
}

static void test_failing_allocations(void **state)
{
    (void)state;
    uint64_t n;
    uint8_t *bytes = contents(GOLDEN "nested_scan_if_scan.pte", &n);
    int64_t i = 1;
    for (; i < 1000; i++) {
        neap_context *ctx = new_context(i);
        if (!ctx)
            continue;
        const neap_status s = load_all(ctx, bytes, n);
        assert_true(s == NEAP_OK || s == NEAP_ENOMEM);
        neap_context_free(ctx);
        if (s == NEAP_OK)
            break;
    }
    assert_true(i > 2 && i < 1000);
    free(bytes);
    for (i = 1; i < 1000; i++) {
        neap_context *ctx = new_context(i);
        if (!ctx)
            continue;
        np_pte *pte;
        neap_status s = np_pte_open(ctx, GOLDEN "external.pte", &pte);
        if (s == NEAP_OK) {
            s = np_pte_attach(pte, GOLDEN "external.ptd");
            np_pte_close(pte);
        }
        assert_true(s == NEAP_OK || s == NEAP_ENOMEM);
        neap_context_free(ctx);
        if (s == NEAP_OK)
            break;
    }
    assert_true(i < 1000);
}

/* ---- exported programs
 * ------------------------------------------------------------------------------- */

static const char *shared(void)
{
    const char *folder = getenv("NEAP_SHARED");
    return folder && *folder ? folder : "../shared";
}

/* Every constant is in the file, with the bytes that its shape and dtype want. */
static void check_constants(const np_pte *pte, const np_mlx_graph *g, const char *path)
{
    for (uint32_t i = 0; i < g->n_constants; i++) {
        const np_tensor_meta *m = g->meta + i;
        uint64_t bytes = (uint64_t)neap_dtype_describe(m->dtype)->block_bytes;
        for (int k = 0; k < m->rank; k++)
            bytes *= (uint64_t)m->shape[k];
        np_bytes b;
        if (!np_pte_named_data(pte, m->name, &b) || b.n != bytes)
            fail_msg("%s: constant %u '%s'", path, i, m->name);
    }
}

static void check_counts(const np_mlx_graph *g, const json_t *want, const char *path)
{
    const struct {
        const char *key;
        int64_t got;
    } counts[] = {
        {"num_constant_tensors",       g->n_constants},
        {"num_input_tensors",          g->n_inputs   },
        {"num_output_tensors",         g->n_outputs  },
        {"num_mutable_buffer_tensors", g->n_buffers  },
        {"num_temp_tensors",           g->n_temps    },
        {"num_values",                 g->n_values   },
        {"main_chain_idx",             g->main_chain },
        {"init_chain_idx",             g->init_chain }
    };
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (json_integer_value(json_object_get(want, counts[i].key)) != counts[i].got)
            fail_msg("%s: %s is %lld", path, counts[i].key, (long long)counts[i].got);
    const json_t *chains = json_object_get(want, "chains");
    assert_int_equal(json_array_size(chains), g->n_chains);
    for (uint32_t c = 0; c < g->n_chains; c++) {
        const json_t *names = json_array_get(chains, c);
        assert_int_equal(json_array_size(names), g->chains[c].n);
        for (uint32_t i = 0; i < g->chains[c].n; i++)
            assert_string_equal(json_string_value(json_array_get(names, i)),
                                np_node_type_of(g->chains[c].nodes[i].number)->name);
    }
    const json_t *slots = json_object_get(want, "input_map");
    assert_int_equal(json_array_size(slots), g->n_input_slots);
    for (uint32_t i = 0; i < g->n_input_slots; i++) /* [type, number] */
        assert_int_equal(json_integer_value(json_array_get(json_array_get(slots, i), 1)),
                         g->input_slots[i].number);
}

static void check_fixture(neap_context *ctx, const char *folder)
{
    char path[768];
    snprintf(path, sizeof path, "%s/meta.json", folder);
    json_t *meta = json_load_file(path, 0, NULL);
    assert_non_null(meta);
    const json_t *delegates = json_object_get(meta, "delegates"),
                 *methods = json_object_get(meta, "methods");
    snprintf(path, sizeof path, "%s/model.pte", folder);
    np_pte *pte;
    if (np_pte_open(ctx, path, &pte) != NEAP_OK)
        fail_msg("%s", neap_context_error(ctx));
    assert_int_equal(pte->n_methods, json_array_size(methods));
    size_t delegate = 0;
    for (uint32_t m = 0; m < pte->n_methods; m++) {
        const np_pte_method *method = pte->methods + m;
        const json_t *want = json_array_get(methods, m), *inputs = json_object_get(want, "inputs");
        assert_string_equal(method->name, json_string_value(json_object_get(want, "name")));
        assert_int_equal(method->n_values, json_integer_value(json_object_get(want, "n_values")));
        assert_int_equal(method->n_inputs, json_array_size(inputs));
        for (uint32_t i = 0; i < method->n_inputs; i++)
            assert_int_equal(method->inputs[i], json_integer_value(json_array_get(inputs, i)));
        for (uint32_t d = 0; d < method->n_delegates; d++) {
            np_mlx_graph *g;
            if (np_mlx_graph_load(ctx, method->delegates[d].payload, &g) != NEAP_OK)
                fail_msg("%s: %s", path, neap_context_error(ctx));
            check_counts(g, json_array_get(delegates, delegate++), path);
            check_constants(pte, g, path);
            np_mlx_graph_free(g);
        }
    }
    assert_int_equal(delegate, json_array_size(delegates));
    np_pte_close(pte);
    json_decref(meta);
}

static void test_fixtures(void **state)
{
    (void)state;
    char path[512];
    snprintf(path, sizeof path, "%s/cases/ops", shared());
    DIR *folder = opendir(path);
    if (!folder) {
        print_message("no fixtures in %s: %s\n", path, strerror(errno));
        skip();
    }
    neap_context *ctx = new_context(0);
    const uint64_t before = active(ctx);
    int n = 0;
    for (const struct dirent *e; (e = readdir(folder));) {
        if (e->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/cases/ops/%.200s", shared(), e->d_name);
        check_fixture(ctx, path);
        n++;
    }
    closedir(folder);
    assert_int_equal(active(ctx), before);
    neap_context_free(ctx);
    print_message("%d fixtures\n", n);
    assert_true(n > 0);
}

/* Every field that a list of instructions states is in the graph's text. What the loader changes
 * (dtype codes, clamped literals) and sources of kernels are left out. */
static void compare_with_list(const char *text, const char *path)
{
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    char line[4096], *end;
    const char *at = text;
    int chain = -1;
    unsigned long index = 0;
    uint64_t fields = 0;
    while (fgets(line, sizeof line, f) && strncmp(line, "Named", 5) != 0) {
        line[strcspn(line, "\n")] = 0;
        char want[4200], name[64];
        if (sscanf(line, "Chain %d", &chain) == 1)
            continue;
        if (sscanf(line, "  [%lu] %63s", &index, name) == 2) {
            snprintf(want, sizeof want, "chain %d [%lu] %s", chain, index, name);
            at = strstr(text, want);
            if (!at)
                fail_msg("%s: %s is missing", path, want);
            continue;
        }
        if (!strncmp(line, "      ", 6) && line[6] != ' ' && (end = strstr(line, ": ")) && end[2] &&
            !strstr(line, "dtype") && !strstr(line, "scalar_type") && !strstr(line, "source:") &&
            !strstr(line, "9223372036854775807")) {
            snprintf(want, sizeof want, "; %s", line + 6);
            const char *found = strstr(at, want), *stop = strchr(at, '\n');
            if (!found || found > stop || !strchr(";\n", found[strlen(want)]))
                fail_msg("%s: chain %d [%lu]: '%s' is missing in %.*s", path, chain, index,
                         line + 6, (int)(stop - at), at);
            fields++;
        }
    }
    fclose(f);
    assert_true(fields > 0);
}

static void test_models(void **state)
{
    (void)state;
    static const char *const models[] = {"cond/model",
                                         "gdr-kernel/model",
                                         "gdr-scan/model",
                                         "gemma-sliding/model",
                                         "switchmlp/model",
                                         "switchmlp-4w/model",
                                         "whisper-base/encoder",
                                         "whisper-base/cross_kv",
                                         "whisper-base/decoder",
                                         "whisper-base-4w/encoder",
                                         "qwen35-scan-4w-bf16/model"};
    neap_context *ctx = new_context(0);
    int n = 0;
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        char path[512];
        snprintf(path, sizeof path, "%s/models/%s.pte", shared(), models[i]);
        np_pte *pte;
        np_mlx_graph *g;
        if (np_pte_open(ctx, path, &pte) != NEAP_OK) {
            print_message("%s\n", neap_context_error(ctx));
            neap_context_clear_error(ctx);
            continue;
        }
        assert_true(pte->methods[0].n_delegates >= 1);
        if (np_mlx_graph_load(ctx, pte->methods[0].delegates[0].payload, &g) != NEAP_OK)
            fail_msg("%s: %s", path, neap_context_error(ctx));
        check_constants(pte, g, path);
        graph_text t = text_of_graph(g);
        snprintf(path, sizeof path, "%s/models/%s.instr.txt", shared(), models[i]);
        compare_with_list(t.text, path);
        free(t.text);
        np_mlx_graph_free(g);
        np_pte_close(pte);
        n++;
    }
    neap_context_free(ctx);
    if (n == 0)
        skip();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fields),
        cmocka_unit_test(test_sound),
        cmocka_unit_test(test_bad),
        cmocka_unit_test(test_external),
        cmocka_unit_test(test_malformed),
        cmocka_unit_test(test_malformed_external),
        cmocka_unit_test(test_shared_objects),
        cmocka_unit_test(test_failing_allocations),
        cmocka_unit_test(test_fixtures),
        cmocka_unit_test(test_models),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
