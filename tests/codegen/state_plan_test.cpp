// SPDX-License-Identifier: Apache-2.0
// Plans with states: what is changed in place, what is copied, and why.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codegen/compile.h"
#include "codegen/targets/cuda/cuda_target.h"
#include "ir/text/text.h"

namespace sinter::test {
namespace {

using plan::fb::BufferKind;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

codegen::CompiledPlan compile(const std::string& text, bool cuda = false) {
  codegen::CompileOptions options;
  if (cuda) options.target = &codegen::cuda_target();
  options.architectures = {"sm_90"};
  options.code = false;
  return codegen::compile(ir::parse_graph(text), options);
}

std::vector<std::string> step_names(const codegen::CompiledPlan& plan) {
  std::vector<std::string> names;
  for (const auto& step : plan.parts.meta.steps) names.push_back(step->name);
  return names;
}

/// The parts as a reader takes them.
void expect_readable(const codegen::CompiledPlan& plan) {
  EXPECT_NO_THROW(plan::parse_plan(plan::serialize_plan(plan.parts)));
}

std::size_t count_of(const codegen::CompiledPlan& plan, BufferKind kind) {
  std::size_t count = 0;
  for (const auto& buffer : plan.parts.meta.buffers) count += buffer->kind == kind ? 1 : 0;
  return count;
}

constexpr const char* kScatter = R"(
  %next = Fused(%cache, %x, %p) {kind = "scatter"} body (%cache, %x, %p) {
    %c = Iota() {shape = [1, 4], axis = 1, dtype = i64}
    %s = Scatter(%cache, %x, %p, %c)
    return y = %s
  }
)";
constexpr const char* kInputs = "graph @main(%cache: f32[8, 4], %x: f32[1, 4], %p: i64[1, 1])";
constexpr const char* kSum = R"(
  %y = Fused(%next) {kind = "reduction"} body (%x) {
    %m = ReduceSum(%x) {axes = [0], keepdims = 0}
    return y = %m
  }
)";

TEST(StatePlans, AScatterChangesItsStateInPlace) {
  for (const bool cuda : {false, true}) {
    const auto plan = compile(std::string(kInputs) + " states {output 1 -> input 0} {" + kScatter +
                                  kSum + "return y = %y, cache_next = %next }",
                              cuda);
    EXPECT_THAT(step_names(plan), ElementsAre("scatter_0", "reducesum_1"));
    EXPECT_EQ(count_of(plan, BufferKind::State), 1u);
    EXPECT_EQ(count_of(plan, BufferKind::Arena), 0u);
    const auto& meta = plan.parts.meta;
    EXPECT_EQ(meta.inputs[0]->buffer, meta.outputs[1]->buffer);
    EXPECT_THAT(meta.steps[0]->writes, ElementsAre(meta.inputs[0]->buffer));
    ASSERT_EQ(plan.states.size(), 1u);
    EXPECT_TRUE(plan.states[0].in_place);
    if (!cuda) expect_readable(plan);
  }
}

TEST(StatePlans, ALinearAttentionChangesItsStateInPlace) {
  const auto plan = compile(
      "graph @main(%q: f32[1, 2, 2, 4], %k: f32[1, 2, 2, 4], %v: f32[1, 2, 2, 3], %s: "
      "f32[1, 2, 4, 3]) states {output 1 -> input 3} {\n"
      "  %y, %n = Fused(%q, %k, %v, %s) {kind = \"linear_attention\"} body (%q, %k, %v, %s) {\n"
      "    %o, %l = LinearAttention(%q, %k, %v, %s) {rule = \"linear\", scale = 1.0, state = 1}\n"
      "    return o = %o, l = %l\n  }\n  return y = %y, s_next = %n\n}\n");
  const auto& meta = plan.parts.meta;
  EXPECT_EQ(meta.inputs[3]->buffer, meta.outputs[1]->buffer);
  ASSERT_EQ(plan.states.size(), 1u);
  EXPECT_TRUE(plan.states[0].in_place);
  expect_readable(plan);
}

TEST(StatePlans, WithoutAStateTheDataIsCopied) {
  const auto plan = compile(std::string(kInputs) + " {" + kScatter + kSum +
                            "return y = %y, cache_next = %next }");
  EXPECT_THAT(step_names(plan), ElementsAre("copy_0", "scatter_0", "reducesum_2"));
  EXPECT_THAT(plan.states, IsEmpty());
}

TEST(StatePlans, AnOldValueThatIsReadLaterIsKept) {
  const auto plan =
      compile(std::string(kInputs) + " states {output 1 -> input 0} {" + kScatter + R"(
    %y = Fused(%next, %cache) {kind = "pointwise"} body (%a, %b) {
      %d = Sub(%a, %b)
      return y = %d
    }
    return y = %y, cache_next = %next })");
  EXPECT_THAT(step_names(plan), ElementsAre("copy_0", "scatter_0", "sub_2", "copy_3"));
  ASSERT_EQ(plan.states.size(), 1u);
  EXPECT_FALSE(plan.states[0].in_place);
  EXPECT_THAT(plan.states[0].reason, HasSubstr("reads its old value after"));
  expect_readable(plan);
}

TEST(StatePlans, ANewValueIsCopiedAfterAllSteps) {
  const auto plan = compile(R"(graph @main(%h: f32[4], %x: f32[4]) states {output 0 -> input 0} {
    %n = Fused(%h, %x) {kind = "pointwise"} body (%h, %x) {
      %s = Add(%h, %x)
      return y = %s
    }
    %y = Fused(%h, %n) {kind = "pointwise"} body (%h, %n) {
      %s = Mul(%h, %n)
      return y = %s
    }
    return h_next = %n, y = %y })");
  EXPECT_THAT(step_names(plan), ElementsAre("add_0", "mul_1", "copy_2"));
  EXPECT_THAT(plan.states[0].reason, HasSubstr("makes a new value"));
  expect_readable(plan);
}

TEST(StatePlans, StatesThatChangePlacesGoThroughScratch) {
  const auto plan = compile(
      "graph @main(%a: f32[4], %b: f32[4]) states {output 0 -> input 0, output 1 -> input 1} {\n"
      "return a_next = %b, b_next = %a }");
  ASSERT_THAT(step_names(plan), ElementsAre("copy_0", "copy_1", "copy_2", "copy_3"));
  const auto& meta = plan.parts.meta;
  // Both are saved before either is overwritten.
  for (const std::size_t step : {0, 1})
    EXPECT_EQ(meta.buffers[meta.steps[step]->writes[0]]->kind, BufferKind::Arena);
  for (const std::size_t step : {2, 3})
    EXPECT_EQ(meta.buffers[meta.steps[step]->writes[0]]->kind, BufferKind::State);
  expect_readable(plan);
}

TEST(StatePlans, ScattersAmongOthersChangeTheirStates) {
  const auto plan = compile(R"(graph @main(%cache: f32[8, 4], %x: f32[1, 4], %p: i64[1, 1])
      states {output 1 -> input 0} {
    %y, %next = Fused(%x, %cache, %p) {kind = "horizontal"} body (%x, %cache, %p) {
      %n = Fused(%x) {kind = "pointwise"} body (%x) {
        %n = Neg(%x)
        return y = %n
      }
      %next = Fused(%cache, %x, %p) {kind = "scatter"} body (%cache, %x, %p) {
        %c = Iota() {shape = [1, 4], axis = 1, dtype = i64}
        %s = Scatter(%cache, %x, %p, %c)
        return y = %s
      }
      return y = %n, next = %next
    }
    return y = %y, cache_next = %next })",
                            true);
  EXPECT_EQ(plan.parts.meta.steps.size(), 1u);
  EXPECT_TRUE(plan.states[0].in_place);
}

}  // namespace
}  // namespace sinter::test
