// SPDX-License-Identifier: Apache-2.0
// Calls of the runtime's operators that are well-formed as bytes and wrong in meaning.
#include <set>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "damaged_plan.h"
#include "runtime/operators/operator_kernel.h"
#include "runtime/plan/operators/operator_def.h"

namespace sinter::testing {
namespace {

using ::testing::HasSubstr;

fb::OperatorStepT& sort_of(fb::PlanT& p) { return *p.steps[3]->work.AsOperatorStep(); }

const DamageCase kSortDamage[] = {
    {"operator_unknown", [](auto& p) { sort_of(p).operator_name = "sorts"; },
     "this library has no operator 'sorts'"},
    {"operator_counts",
     [](auto& p) {
       sort_of(p).inputs.push_back(std::make_unique<fb::HostTensorT>(*sort_of(p).inputs[0]));
     },
     "it has 2 inputs and 1 outputs, operator 'sort' has 1 and 1"},
    {"operator_no_output", [](auto& p) { sort_of(p).outputs.clear(); }, "has 1 and 1"},
    {"operator_input", [](auto& p) { sort_of(p).inputs[0]->buffer = 99; }, "its input is 99"},
    {"operator_size", [](auto& p) { sort_of(p).outputs[0]->shape[1] = 999; }, "a size is 999"},
    {"operator_rank", [](auto& p) { sort_of(p).inputs[0]->shape.pop_back(); },
     "its elements have 2 dimensions, not those of [outer length inner]"},
    {"operator_alias",
     [](auto& p) { sort_of(p).outputs[0]->buffer = sort_of(p).inputs[0]->buffer; },
     "where another of its tensors does"},
    {"operator_types", [](auto& p) { sort_of(p).outputs[0]->buffer = p.outputs[1]->buffer; },
     "its indices are of type f32, not of i64"},
    {"operator_attribute", [](auto& p) { sort_of(p).attributes.clear(); }, "it has 0 attributes"},
    {"operator_attribute_name", [](auto& p) { sort_of(p).attributes[0]->name = "other"; },
     "no attribute 'descending' that is an integer"},
    {"operator_attribute_kind", [](auto& p) { sort_of(p).attributes[0]->is_float = true; },
     "no attribute 'descending' that is an integer"},
    {"operator_attribute_value", [](auto& p) { sort_of(p).attributes[0]->integer = 2; },
     "its attribute 'descending' is 2, operator 'sort' takes 0 to 1"},
    {"operator_undeclared", [](auto& p) { p.steps[3]->reads.clear(); }, "undeclared"},
};

INSTANTIATE_TEST_SUITE_P(Operators, PlanVerify, ::testing::ValuesIn(kSortDamage), damage_name);

const DamageCase kSortBoundDamage[] = {
    {"sort_length",
     [](auto& p) { sort_of(p).inputs[0]->shape[1] = sort_of(p).inputs[0]->shape[0]; },
     "its elements reaches"},
    {"sort_rows", [](auto& p) { sort_of(p).inputs[0]->shape[0] = sort_of(p).inputs[0]->shape[2]; },
     "its indices have 9 where 'outer' is 1"},
    {"sort_count",
     [](auto& p) { std::swap(sort_of(p).inputs[0]->shape[1], sort_of(p).outputs[0]->shape[1]); },
     "its indices reaches"},
    {"sort_output",
     [](auto& p) { sort_of(p).outputs[0]->shape[1] = sort_of(p).inputs[0]->shape[1]; },
     "its indices reaches"},
};

INSTANTIATE_TEST_SUITE_P(Operators, PlanVerifyBound, ::testing::ValuesIn(kSortBoundDamage),
                         damage_name);

/// What a plan of one call is refused for after `damage(step, call)`.
template <typename Damage>
std::string damaged(PlanBuilder& builder, const Damage& damage) {
  plan::PlanParts parts = builder.parts();
  damage(*parts.meta.steps[0], *parts.meta.steps[0]->work.AsOperatorStep());
  const std::string refusal = refusal_of(plan::serialize_plan(parts));
  return refusal == "accepted" ? bound_refusal_of(parts.meta, 3) : refusal;
}

TEST(PlanVerifyOperators, GpusRunNone) {
  PlanBuilder b;
  const Id one = b.constant(1);
  b.call("sort", {b.input_of("x", DType::kFloat32, {one, one, one})},
         {b.output_of("y", DType::kInt64, {one, one, one})}, {{"descending", std::int64_t{0}}});
  b.meta.target = "cuda";
  EXPECT_THAT(refusal_of(b.bytes()), HasSubstr("operator 'sort' cannot run on target 'cuda'"));
}

TEST(PlanVerifyOperators, SortsFindNoMoreThanThereIs) {
  PlanBuilder b;
  const Id rows = b.symbol("batch", 1, 64), one = b.constant(1);
  b.input("size", DType::kFloat32, {rows});
  b.call("sort", {b.input_of("x", DType::kFloat32, {one, one, one})},
         {b.output_of("y", DType::kInt64, {one, rows, one})}, {{"descending", std::int64_t{0}}});
  EXPECT_THAT(damaged(b, [](auto&, auto&) {}), HasSubstr("it finds 3 indices in rows of 1"));
}

PlanBuilder sampling_plan() {
  PlanBuilder b;
  const Id rows = b.symbol("batch", 1, 64), count = b.constant(40), biases = b.constant(5);
  b.call("sampling",
         {b.input_of("logits", DType::kFloat16, {rows, count}),
          b.input_of("reals", DType::kFloat64, {rows, b.constant(4)}),
          b.input_of("integers", DType::kInt64, {rows, b.constant(6)}),
          b.input_of("sets", DType::kInt32, {b.constant(3), b.constant(2)}),
          b.input_of("biased", DType::kInt32, {biases}),
          b.input_of("biases", DType::kFloat32, {biases})},
         {b.output_of("tokens", DType::kInt32, {rows})});
  return b;
}

TEST(PlanVerifyOperators, SamplingThatIsDamagedIsRefused) {
  PlanBuilder b = sampling_plan();
  const Id rows = 0, count = b.constant(40), one = b.constant(1);
  EXPECT_EQ(damaged(b, [](auto&, auto&) {}), "accepted");
  EXPECT_THAT(damaged(b, [](auto&, auto& call) { std::swap(call.inputs[1], call.inputs[2]); }),
              HasSubstr("its reals are of type i64, not of f64"));
  EXPECT_THAT(
      damaged(b, [](auto&, auto& call) { call.inputs[0]->buffer = call.inputs[3]->buffer; }),
      HasSubstr("its logits are of type i32, not of f32 or f16 or bf16"));
  EXPECT_THAT(
      damaged(b, [](auto&, auto& call) { call.outputs[0]->buffer = call.inputs[4]->buffer; }),
      HasSubstr("where another of its tensors does"));
  EXPECT_THAT(damaged(b, [](auto& step, auto&) { step.reads.clear(); }), HasSubstr("undeclared"));
  EXPECT_THAT(damaged(b, [&](auto&, auto& call) { call.inputs[0]->shape[0] = count; }),
              HasSubstr("its logits reaches"));
  EXPECT_THAT(damaged(b, [&](auto&, auto& call) { call.inputs[3]->shape[0] = count; }),
              HasSubstr("its sets reaches"));
  EXPECT_THAT(damaged(b, [&](auto&, auto& call) { call.inputs[4]->shape[0] = rows; }),
              HasSubstr("its biases have 5 where 'biases' is 3"));
  EXPECT_THAT(
      damaged(b, [&](auto&, auto& call) { call.inputs[3]->shape[1] = call.inputs[3]->shape[0]; }),
      HasSubstr("its sets reaches"));
  EXPECT_THAT(damaged(b,
                      [&](auto&, auto& call) {
                        call.inputs[3]->shape = {rows, one};
                      }),
              HasSubstr("its sets have 1 where 'vocabulary/32' is 2"));
}

TEST(PlanVerifyOperators, LogprobsThatAreDamagedAreRefused) {
  PlanBuilder b;
  const Id rows = b.symbol("batch", 1, 64);
  const auto add = [&](PlanBuilder& to, std::int64_t most) {
    to.call("logprobs",
            {to.input_of("logits", DType::kFloat16, {rows, to.constant(40)}),
             to.input_of("tokens", DType::kInt32, {rows}),
             to.input_of("wanted", DType::kInt32, {rows})},
            {to.output_of("likeliest", DType::kInt32, {rows, to.constant(most)}),
             to.output_of("logprobs", DType::kFloat32, {rows, to.constant(most + 1)})});
  };
  for (const auto& [most, refusal] :
       {std::pair{5, "accepted"}, {0, "its size 'most' is 0"}, {33, "its size 'most' is 33"}}) {
    PlanBuilder other;
    other.symbol("batch", 1, 64);
    add(other, most);
    EXPECT_THAT(damaged(other, [](auto&, auto&) {}), HasSubstr(refusal));
  }
  add(b, 5);
  EXPECT_THAT(damaged(b, [](auto&, auto& call) { std::swap(call.outputs[0], call.outputs[1]); }),
              HasSubstr("its likeliest are of type f32"));
  EXPECT_THAT(
      damaged(b, [](auto&, auto& call) { call.outputs[0]->shape[1] = call.outputs[1]->shape[1]; }),
      HasSubstr("its likeliest reaches"));
  EXPECT_THAT(
      damaged(b, [](auto&, auto& call) { call.outputs[1]->shape[1] = call.outputs[0]->shape[1]; }),
      HasSubstr("its logprobs have 5 where 'most+1' is 6"));
}

TEST(PlanVerifyOperators, TreesThatAreDamagedAreRefused) {
  PlanBuilder b;
  const Id rows = b.symbol("batch", 1, 64), two = b.constant(2), three = b.constant(3);
  b.call("trees",
         {b.input_of("x", DType::kFloat32, {rows, two}),
          {b.weight(DType::kInt32, std::vector<std::int32_t>{0, 1, 0, -1, 0, 0, -1, 1, 0}),
           {three, three}},
          {b.weight(DType::kFloat32, std::vector<float>(3, 1)), {three}},
          {b.weight(DType::kInt32, std::vector<std::int32_t>{0, 0}), {b.constant(1), two}},
          {b.weight(DType::kFloat32, std::vector<float>(4, 1)), {two, two}}},
         {b.output_of("y", DType::kFloat32, {rows, two})}, {{"combine", std::int64_t{0}}});
  EXPECT_EQ(damaged(b, [](auto&, auto&) {}), "accepted");
  EXPECT_THAT(
      damaged(b, [](auto&, auto& call) { call.inputs[2]->buffer = call.inputs[1]->buffer; }),
      HasSubstr("its thresholds are of type i32, not of f32"));
  EXPECT_THAT(
      damaged(b, [](auto&, auto& call) { call.inputs[4]->buffer = call.inputs[0]->buffer; }),
      HasSubstr("its weights are no weights"));
  EXPECT_THAT(damaged(b, [](auto&, auto& call) { call.attributes[0]->integer = 4; }),
              HasSubstr("its attribute 'combine' is 4"));
  EXPECT_THAT(damaged(b, [](auto&, auto& call) { call.attributes[0]->integer = 1; }),
              HasSubstr("it multiplies what its trees give"));
  EXPECT_THAT(damaged(b, [&](auto&, auto& call) { call.inputs[2]->shape[0] = b.constant(1); }),
              HasSubstr("its thresholds have 1 where 'nodes' is 3"));
  EXPECT_THAT(damaged(b,
                      [&](auto&, auto& call) {
                        call.inputs[4]->shape = {b.constant(1), three};
                      }),
              HasSubstr("its leaves have 3 weights for 2 targets"));
}

TEST(PlanVerifyOperators, SuppressionThatIsDamagedIsRefused) {
  PlanBuilder b;
  const Id rows = b.symbol("batch", 1, 64), length = b.constant(5), four = b.constant(4);
  b.call("suppression",
         {b.input_of("boxes", DType::kFloat32, {rows, length, four}),
          b.input_of("valid", DType::kBool, {rows, length})},
         {b.output_of("kept", DType::kBool, {rows, length})},
         {{"iou", 0.5}, {"most", std::int64_t{2}}});
  EXPECT_EQ(damaged(b, [](auto&, auto&) {}), "accepted");
  EXPECT_THAT(
      damaged(b, [](auto&, auto& call) { call.outputs[0]->buffer = call.inputs[1]->buffer; }),
      HasSubstr("where another of its tensors does"));
  EXPECT_THAT(damaged(b, [](auto&, auto& call) { call.attributes[0]->is_float = false; }),
              HasSubstr("no attribute 'iou' that is a float"));
  EXPECT_THAT(damaged(b, [&](auto&, auto& call) { call.inputs[0]->shape[2] = rows; }),
              HasSubstr("its boxes have 3 where '4' is 4"));
  EXPECT_THAT(damaged(b, [&](auto&, auto& call) { call.inputs[1]->shape[1] = four; }),
              HasSubstr("its valid have 4 where 'length' is 5"));
}

TEST(Operators, EachHasOneDefinitionAndOneKernel) {
  std::set<std::string_view> defined, computed;
  for (const plan::OperatorDef* def : plan::operators()) {
    EXPECT_TRUE(defined.insert(def->name).second) << def->name;
    EXPECT_FALSE(def->outputs.empty()) << def->name;
  }
  for (const auto* kernel : runtime::cpu::operator_kernels()) computed.insert(kernel->name);
  EXPECT_EQ(defined, computed);
  EXPECT_EQ(computed.size(), runtime::cpu::operator_kernels().size());
}

}  // namespace
}  // namespace sinter::testing
