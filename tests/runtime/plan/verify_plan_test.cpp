// SPDX-License-Identifier: Apache-2.0
// Plans that are well-formed as bytes and wrong in meaning: symbols, buffers, bindings, entry
// points, and what any step declares.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "damaged_plan.h"

namespace sinter::testing {
namespace {

using ::testing::HasSubstr;

/// Two entry points, of which the first has the first so many steps.
void split_in_two(fb::PlanT& p, Id first_count) {
  add_entry(p, "first", 0, first_count);
  add_entry(p, "second", first_count, static_cast<Id>(p.steps.size()) - first_count);
}

const DamageCase kPlanDamage[] = {
    {"entry_outputs", [](auto& p) { split_in_two(p, 5); }, "no step writes the output 'y'"},
    {"entry_without_steps", [](auto& p) { split_in_two(p, 6); }, "no step writes the output 'y'"},
    {"entry_name",
     [](auto& p) {
       split_in_two(p, 5);
       p.entries[1]->name = "first";
     },
     "entry point 'first': its name is empty or occurs twice"},
    {"entry_symbol",
     [](auto& p) {
       split_in_two(p, 5);
       p.entries[1]->limits[0] = fb::Limit(1, 0, 1);
     },
     "a limit's symbol is 1"},
    {"entry_limits",
     [](auto& p) {
       split_in_two(p, 5);
       p.entries[0]->limits[0] = fb::Limit(0, 3, 2);
     },
     "it has the limits [3, 2]"},
    {"entry_gap",
     [](auto& p) {
       split_in_two(p, 4);
       p.entries[1]->first_step = 5;
     },
     "do not follow the 4 before them"},
    {"entry_too_long",
     [](auto& p) {
       split_in_two(p, 4);
       p.entries[1]->step_count = UINT32_MAX;
     },
     "do not follow the 4 before them"},
    {"entry_too_short",
     [](auto& p) {
       split_in_two(p, 4);
       p.entries[1]->step_count = 1;
     },
     "its entry points have 5 of its 6 steps"},
    {"target", [](auto& p) { p.target = "tpu"; }, "target is 'tpu'"},
    {"symbol_range", [](auto& p) { p.symbols[0]->min = 100; }, "has the range [100, 64]"},
    {"symbol_name", [](auto& p) { p.symbols[0]->name = ""; }, "empty or occurs twice"},
    {"symbol_unbound",
     [](auto& p) {
       p.symbols.push_back(std::make_unique<fb::SymbolT>());
       p.symbols[1]->name = "free";
     },
     "symbol 'free' is in no input's dimension"},
    {"symbol_of_no_input",
     [](auto& p) {
       p.symbols.push_back(std::make_unique<fb::SymbolT>());
       p.symbols[1]->name = "flag";
       p.symbols[1]->value_of = 99;
     },
     "its value is 99"},
    {"symbol_of_a_matrix",
     [](auto& p) {
       p.symbols.push_back(std::make_unique<fb::SymbolT>());
       p.symbols[1]->name = "flag";
       p.symbols[1]->value_of = 0;
     },
     "symbol 'flag' is the value of input"},
    {"expression_operand",
     [](auto& p) { p.expressions.emplace_back(fb::ExprOp::Add, 99999, 0, 0); },
     "its first operand is 99999"},
    {"expression_later",
     [](auto& p) {
       p.expressions.emplace_back(fb::ExprOp::Add, 0, static_cast<Id>(p.expressions.size()), 0);
     },
     "expressions before it"},
    {"expression_op",
     [](auto& p) { p.expressions.emplace_back(static_cast<fb::ExprOp>(9), 0, 0, 0); },
     "its operator is 9"},
    {"expression_symbol", [](auto& p) { p.expressions.emplace_back(fb::ExprOp::Symbol, 3, 0, 0); },
     "its symbol is 3"},
    {"buffer_kind", [](auto& p) { p.buffers[0]->kind = static_cast<fb::BufferKind>(9); },
     "its kind is 9"},
    {"buffer_dtype", [](auto& p) { p.buffers[0]->dtype = 17; }, "element type 17"},
    {"buffer_bytes", [](auto& p) { p.buffers[0]->bytes = 99999; }, "its size is 99999"},
    {"buffer_binding", [](auto& p) { p.buffers[0]->binding = 1; }, "input 1 belongs to buffer 1"},
    {"weight_offset", [](auto& p) { p.buffers[5]->weight_offset = 1 << 20; },
     "misaligned or outside"},
    {"weight_alignment", [](auto& p) { p.buffers[5]->weight_offset = 8; }, "misaligned or outside"},
    {"weight_size", [](auto& p) { p.buffers[5]->bytes = p.buffers[0]->bytes; },
     "must be a constant"},
    {"arena_step", [](auto& p) { p.buffers[7]->last_step = 6; }, "its last step is 6"},
    {"arena_order", [](auto& p) { p.buffers[7]->first_step = 2; }, "lives from step 2 to step 1"},
    {"arena_dead", [](auto& p) { p.buffers[7]->last_step = 0; },
     "which lives from step 0 to step 0"},
    {"binding_buffer", [](auto& p) { p.inputs[0]->buffer = 2; }, "belongs to buffer 2"},
    {"binding_name", [](auto& p) { p.inputs[1]->name = "x"; }, "the name occurs twice"},
    {"binding_dtype", [](auto& p) { p.inputs[0]->dtype = 9; },
     "is not the input's buffer of type f16"},
    {"binding_shape", [](auto& p) { p.inputs[0]->shape[0] = 99999; }, "a dimension is 99999"},
    {"state_input", [](auto& p) { p.states[0]->input = 5; }, "a state's input is 5"},
    {"state_output", [](auto& p) { p.states[0]->output = 9; }, "a state's output is 9"},
    {"state_of_other_input", [](auto& p) { p.states[0]->input = 0; }, "belongs to buffer 0"},
    {"state_binding", [](auto& p) { p.buffers[p.inputs.back()->buffer]->binding = 3; },
     "its state is 3"},
    {"state_without_buffer", [](auto& p) { p.states.push_back(std::make_unique<fb::StateT>()); },
     "are no state: they lie in buffers 2 and 0"},
    {"state_kind",
     [](auto& p) { p.buffers[p.inputs.back()->buffer]->kind = fb::BufferKind::Arena; },
     "is not the input's buffer"},
    {"state_shape", [](auto& p) { p.outputs.back()->shape = p.outputs[0]->shape; },
     "changes its shape"},
    {"state_of_input",
     [](auto& p) {
       p.inputs[0]->buffer = p.inputs.back()->buffer;
       p.buffers[0]->kind = fb::BufferKind::Arena;
     },
     "is not the input's buffer"},
    {"module",
     [](auto& p) {
       p.modules.push_back(std::make_unique<fb::ModuleT>());
       p.modules[0]->size = 10;
     },
     "outside the 0 bytes of modules"},
    {"no_work", [](auto& p) { p.steps[0]->work.Reset(); }, "unknown kind 0"},
    {"kernel_on_cpu", [](auto& p) { p.steps[0]->work.Set(fb::KernelStepT{}); },
     "a kernel cannot run on target 'cpu'"},
    {"step_expression", [](auto& p) { p.steps[0]->flops = 99999; }, "its number of operations"},
    {"step_arithmetic", [](auto& p) { p.steps[0]->arithmetic = fb::Arithmetic(77); },
     "its arithmetic"},
    {"undeclared_read", [](auto& p) { p.steps[1]->reads = {7}; }, "undeclared"},
    {"undeclared_write", [](auto& p) { p.steps[1]->writes.clear(); }, "writes buffer 2 undeclared"},
    {"reads_buffer", [](auto& p) { p.steps[1]->reads.push_back(99); }, "a buffer it uses is 99"},
    {"reads_unwritten", [](auto& p) { p.steps[0]->reads.push_back(2); },
     "reads buffer 2, which no step before it has written"},
    {"writes_input", [](auto& p) { p.steps[0]->writes.push_back(0); }, "which is an Input"},
    {"output_unwritten", [](auto& p) { p.steps.erase(p.steps.begin() + 4); },
     "no step writes the output 'u'"},
    {"copy_self", [](auto& p) { p.steps[4]->work.AsCopyStep()->target = 3; }, "to itself"},
};

TEST_P(PlanVerify, IsRefused) {
  PlanBuilder builder = steps_of_all_kinds();
  plan::PlanParts parts = builder.parts();
  GetParam().damage(parts.meta);
  EXPECT_THAT(refusal_of(plan::serialize_plan(parts)), HasSubstr(GetParam().expected));
}

INSTANTIATE_TEST_SUITE_P(Plan, PlanVerify, ::testing::ValuesIn(kPlanDamage), damage_name);

TEST(PlanVerifySample, IsAccepted) {
  PlanBuilder builder = steps_of_all_kinds();
  EXPECT_EQ(refusal_of(builder.bytes()), "accepted");
  EXPECT_EQ(refusal_of(sample_as_entry()), "accepted");
}

const DamageCase kPlanBoundDamage[] = {
    {"copy", [](auto& p) { p.steps[4]->work.AsCopyStep()->bytes = p.buffers[0]->bytes; },
     "it copies 144 bytes, but buffer 3 has 72"},
    {"binding", [](auto& p) { p.buffers[0]->bytes = p.buffers[3]->bytes; }, "its shape takes 144"},
};

TEST_P(PlanVerifyBound, IsRefused) {
  PlanBuilder builder = steps_of_all_kinds();
  plan::PlanParts parts = builder.parts();
  EXPECT_EQ(bound_refusal_of(parts.meta, 9), "accepted");
  GetParam().damage(parts.meta);
  ASSERT_EQ(refusal_of(plan::serialize_plan(parts)), "accepted");
  EXPECT_THAT(bound_refusal_of(parts.meta, 9), HasSubstr(GetParam().expected));
}

INSTANTIATE_TEST_SUITE_P(Plan, PlanVerifyBound, ::testing::ValuesIn(kPlanBoundDamage), damage_name);

}  // namespace
}  // namespace sinter::testing
