/* test_machine.c - what the machine leaves, from trees of files that stand for /proc and /sys: tests/golden/machine.
 * Budgets by hand: (limit - used) less the reserve of a sixteenth, at least 16 MiB, at most half. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <unistd.h>

#include "neap/base.h"

#define MIB ((uint64_t)1 << 20)

typedef struct expected {
    const char *name;
    neap_machine_limit binding;
    uint64_t limit, used, reserve;
} expected;

static void test_the_least_binds(void **state)
{
    (void)state;
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    const expected all[] = {
        {"large", NEAP_MACHINE_AVAILABLE, 64000000 * (uint64_t)1024, 0, 1024 * MIB},
        {"v2", NEAP_MACHINE_CGROUP, 300 * MIB, 4 * MIB, 296 * MIB / 16}, /* of the group above; anon is taken off */
        {"inside", NEAP_MACHINE_CGROUP, 300 * MIB, 0, 300 * MIB / 16},   /* the mount is the group */
        {"v1", NEAP_MACHINE_CGROUP, 256 * MIB, 1 * MIB, 16 * MIB},       /* 2^63 less a page is no limit */
        {"hybrid", NEAP_MACHINE_CGROUP, 256 * MIB, 0, 16 * MIB},
        {"malformed", NEAP_MACHINE_NONE, 0, 0, 0},
        {"absent", NEAP_MACHINE_NONE, 0, 0, 0},
        {"address", NEAP_MACHINE_ADDRESS_SPACE, 200 * MIB, 5000 * page, 16 * MIB},
        {"data", NEAP_MACHINE_DATA, 100 * MIB, 1000 * page, 16 * MIB},
        {"little", NEAP_MACHINE_AVAILABLE, 30000 * (uint64_t)1024, 0, 15000 * (uint64_t)1024},
        {"full", NEAP_MACHINE_CGROUP, 1000, 5000, 0}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        const expected *e = &all[i];
        char root[512];
        neap_machine_memory_info m = NEAP_MACHINE_MEMORY_INFO_INIT;
        snprintf(root, sizeof root, "%s/golden/machine/%s", NEAP_TEST_DIR, e->name);
        neap_machine_memory(root, &m);
        const uint64_t left = e->limit > e->used ? e->limit - e->used : 0;
        const uint64_t none = e->binding == NEAP_MACHINE_NONE ? 0 : 1; /* a budget of nothing is one byte */
        const uint64_t budget = left > e->reserve ? left - e->reserve : none;
        if (m.binding != e->binding || m.limit != e->limit || m.used != e->used || m.reserve != e->reserve ||
            m.budget != budget)
            fail_msg("%s: %s, limit %llu, used %llu, reserve %llu, budget %llu", e->name,
                     neap_machine_limit_name(m.binding), (unsigned long long)m.limit, (unsigned long long)m.used,
                     (unsigned long long)m.reserve, (unsigned long long)m.budget);
    }
}

static void test_this_machine(void **state)
{
    (void)state;
    neap_machine_memory_info m = NEAP_MACHINE_MEMORY_INFO_INIT;
    neap_machine_memory(NULL, &m);
    assert_int_equal(m.size, sizeof m);
    assert_true((m.binding == NEAP_MACHINE_NONE) == (m.budget == 0));
    neap_machine_memory(NULL, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_the_least_binds), cmocka_unit_test(test_this_machine)};
    return cmocka_run_group_tests_name("machine", tests, NULL, NULL);
}
