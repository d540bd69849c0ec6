/* test_plan_data.c - what the command keeps of a plan for its picture: which of the planner's events
 * belong to which plan, and which plans a budget can choose. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <string.h>

#include "cli/plan_data.h"
#include "neap/ops.h"

static void tell(cli_plan_data *d, neap_plan_event_kind kind, const char *text, uint64_t peak,
                 double seconds, bool chosen)
{
    const neap_plan_event e = {.kind = kind,
                               .text = text,
                               .a = "a",
                               .b = "b",
                               .peak_bytes = peak,
                               .seconds = seconds,
                               .chosen = chosen};
    cli_plan_data_event(d, &e);
}

static void candidate(cli_plan_data *d, const char *text, uint64_t peak, double seconds, bool chosen)
{
    tell(d, NEAP_PLAN_EVENT_CANDIDATE, text, peak, seconds, chosen);
}

static const char *text_at(const json_t *array, size_t i)
{
    return json_string_value(json_object_get(json_array_get(array, i), "text"));
}

/* Fastest first; what is slower and no smaller than another no budget chooses. */
static void test_choices(void **state)
{
    (void)state;
    cli_plan_data d = CLI_PLAN_DATA_INIT;
    const neap_plan_info info = {.peak_bytes = 100, .predicted_seconds = 2};
    candidate(&d, "smallest", 10, 3.0, false);
    candidate(&d, "chosen", 100, 2.0, true);
    candidate(&d, "slower and larger", 120, 2.5, false);
    candidate(&d, "as small, slower", 50, 2.4, false);
    candidate(&d, "smaller", 50, 2.2, false);
    candidate(&d, "fastest", 200, 1.9, false);
    tell(&d, NEAP_PLAN_EVENT_FUSED, "chain", 0, 0, false);
    tell(&d, NEAP_PLAN_EVENT_NOT_FUSED, "the peak would rise", 7, 0, false);
    cli_plan_part *part = cli_plan_data_part(&d, "graph", &info, true);
    json_t *choices = cli_part_choices(part);
    const char *const want[] = {"fastest", "chosen", "smaller", "smallest"};
    assert_int_equal(json_array_size(choices), 4);
    for (size_t i = 0; i < 4; i++)
        assert_string_equal(text_at(choices, i), want[i]);
    json_decref(choices);
    assert_int_equal(json_array_size(part->story.fused), 1);
    const json_t *rejected = json_array_get(part->story.rejected, 0);
    assert_string_equal(json_string_value(json_object_get(rejected, "reason")),
                        "the peak would rise");
    assert_int_equal(json_integer_value(json_object_get(rejected, "bytes")), 7);
    assert_ptr_equal(cli_plan_fullest(&d), part);
    cli_plan_data_free(&d);
}

/* A chosen plan that another beats is shown all the same; without candidates there is the plan. */
static void test_few_choices(void **state)
{
    (void)state;
    cli_plan_data d = CLI_PLAN_DATA_INIT;
    const neap_plan_info info = {.peak_bytes = 100, .predicted_seconds = 2};
    candidate(&d, "better", 90, 1.0, false);
    candidate(&d, "chosen", 100, 2.0, true);
    json_t *choices = cli_part_choices(cli_plan_data_part(&d, "one", &info, false));
    assert_int_equal(json_array_size(choices), 2);
    assert_string_equal(text_at(choices, 1), "chosen");
    json_decref(choices);
    choices = cli_part_choices(cli_plan_data_part(&d, "two", &info, false));
    assert_int_equal(json_array_size(choices), 1);
    assert_true(json_is_true(json_object_get(json_array_get(choices, 0), "chosen")));
    assert_int_equal(
        json_integer_value(json_object_get(json_array_get(choices, 0), "peak_bytes")), 100);
    json_decref(choices);
    assert_null(cli_plan_fullest(&d));
    cli_plan_data_free(&d);
}

/* Two plans are made, then shown in the other order: each has its own events. */
static void test_stories(void **state)
{
    (void)state;
    neap_context *ctx;
    neap_context_options o = NEAP_CONTEXT_OPTIONS_INIT;
    o.threads = 1;
    assert_int_equal(neap_context_new(&o, &ctx), NEAP_OK);
    assert_int_equal(neap_scope_push(ctx), NEAP_OK);
    cli_plan_data d = CLI_PLAN_DATA_INIT;
    neap_plan_options planner = NEAP_PLAN_OPTIONS_INIT;
    planner.explain = cli_plan_data_event;
    planner.user = &d;
    assert_int_equal(neap_context_plan_options(ctx, &planner), NEAP_OK);
    const int64_t shape[1] = {1 << 20};
    neap_array *x = neap_array_zeros(NEAP_F32, 1, shape);
    neap_plan *plan[2];
    for (int i = 0; i < 2; i++) {
        neap_array *root = i ? neap_exp(neap_exp(x)) : neap_sum(neap_exp(x), 0, 0);
        candidate(&d, i ? "second" : "first", 5000, 1, false);
        assert_int_equal(neap_plan_make(ctx, 1, &root, 0, NULL, &plan[i]), NEAP_OK);
    }
    assert_int_equal(d.n_stories, 2);
    assert_true(cli_plan_data_add(&d, "b", plan[1], false));
    assert_true(cli_plan_data_add(&d, "a", plan[0], true));
    assert_string_equal(text_at(d.part[0].story.candidates, 0), "second");
    assert_string_equal(text_at(d.part[1].story.candidates, 0), "first");
    assert_string_equal(cli_plan_fullest(&d)->name, "a");
    for (int i = 0; i < 2; i++) {
        assert_int_equal(json_array_size(d.part[i].steps), d.part[i].info.steps);
        assert_int_equal(json_array_size(d.part[i].curve), d.part[i].info.steps);
        assert_true(json_array_size(d.part[i].values) >= 1);
        neap_plan_free(plan[i]);
    }
    assert_int_equal(json_array_size(d.part[0].story.fused), d.part[0].info.fused_groups);
    assert_false(d.failed);
    cli_plan_data_free(&d);
    neap_scope_pop(ctx);
    neap_context_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_choices),
        cmocka_unit_test(test_few_choices),
        cmocka_unit_test(test_stories),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
