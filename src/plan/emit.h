/* emit.h - what makes steps one after the other: operands, blocks, groups. See build.c, group.c.
 *
 * Operands and blocks are named by their index in the builder's tables, which move as they grow. What
 * may fail returns false: no memory. */
#ifndef NP_EMIT_H
#define NP_EMIT_H

#include "plan/builder.h"

/* The operand for input i of a task, made at its first use; what it reads in the arena lives until
 * the step that comes next. */
bool np_emit_input(np_builder *b, const np_todo *t, uint32_t i, const neap_array *in, uint32_t *operand);
/* The place of a result: a root's own block, or (block) the arena. Effects have 0 bytes. */
bool np_emit_result(np_builder *b, const neap_array *a, uint32_t root, uint32_t *operand,
                    uint32_t *block);
bool np_emit_operand(np_builder *b, const neap_array *a, np_place_kind kind, uint32_t source,
                     uint64_t storage_bytes, uint32_t *operand);
bool np_emit_block(np_builder *b, uint64_t bytes, bool scratch, uint32_t *block);
bool np_emit_step(np_builder *b, const np_raw_step *s);
/* The next member of a group, and the next slot. */
bool np_emit_member(np_builder *b, neap_array *a);
bool np_emit_slot(np_builder *b, uint32_t operand);
/* The member's op as it is called on the whole, without a pool; in: room for NP_GROUP_INPUTS. */
np_call np_member_call(const np_builder *b, uint32_t member, const np_operand **in);
/* The step that runs the members of a group, the last ones that there are. */
bool np_emit_group_step(np_builder *b, const np_group *g, uint64_t scratch);
/* The step of a group of several tasks; of a product and its epilogue. */
bool np_emit_group(np_builder *b, const np_fusion *fusion, uint32_t group);
bool np_emit_epilogue(np_builder *b, const np_fusion *fusion, uint32_t group);
/* Where a streamed group, by tasks, needs rows about its block: fills in `windows`. */
bool np_find_windows(np_builder *b, np_group *g, const uint32_t *task);
np_slot_window *np_window_of(const np_builder *b, const np_group *g, uint32_t slot);
/* Rows that the group's m-th member makes beyond its block. */
np_window np_member_window(const np_builder *b, const np_group *g, uint32_t m);
/* Results of steps take over the bytes of inputs that end there. */
void np_take_over(np_builder *b);
/* May the step write the result over block `owner`, if that lies in the result's place? */
bool np_may_end_in(const np_builder *b, uint32_t step, uint32_t owner, uint32_t output);

/* ---- join.c ------------------------------------------------------------------------------------- */

/* Fills in the builder's `join`, of its tasks. */
bool np_find_joins(np_builder *b);
/* Is the task's value made in the array that a step of its own joins? */
bool np_joins(const np_builder *b, const np_todo *t);
/* Its operand there. */
bool np_emit_part(np_builder *b, const np_todo *t, uint32_t *operand);

/* ---- cost.c ------------------------------------------------------------------------------------- */

double np_step_seconds(const np_builder *b, const np_raw_step *s);
double np_plan_seconds(const np_builder *b); /* of all steps */
double np_task_seconds(const np_builder *b, uint32_t task); /* as a step of its own; 0: unknown */
double np_work_seconds(const np_builder *b, double bytes, double flops);
double np_operand_bytes(const np_operand *o);
/* `shapes`: see np_task_call; `again`: of making the value of a tile once more. */
double np_call_flops(const np_call *shapes, bool again);

#endif
