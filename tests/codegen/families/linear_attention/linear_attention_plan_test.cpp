// SPDX-License-Identifier: Apache-2.0
// Steps of a LinearAttention in a plan: tactics by length, and states in place.
#ifdef SINTER_WITH_CUDA
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codegen/compile.h"
#include "codegen/targets/cuda/cuda_target.h"
#include "ir/text/text.h"

namespace sinter::test {
namespace {

codegen::CompiledPlan compile(const std::string& range, bool has_state, int queries = 2) {
  const std::string states = has_state ? " states {output 1 -> input 3}" : "";
  const std::string text = fmt::format(
      "graph @main(%q: f16[2, length, {1}, 64], %k: f16[2, length, 2, 64], %v: f16[2, length, 2, "
      "32], %s: f32[2, 2, 64, 32]) ranges {{length: {0}}}{2} {{\n"
      "  %out, %next = Fused(%q, %k, %v, %s) {{kind = \"linear_attention\"}} body (%q, %k, %v, %s) "
      "{{\n"
      "    %o, %n = LinearAttention(%q, %k, %v, %s) {{rule = \"linear\", scale = 1, state = 1}}\n"
      "    return o = %o, n = %n\n  }}\n  return out = %out, next = %next\n}}\n",
      range, queries, states);
  codegen::CompileOptions options;
  options.target = &codegen::cuda_target();
  options.architectures = {"sm_90"};
  options.code = false;
  return codegen::compile(ir::parse_graph(text), options);
}

std::vector<std::string> tactics_of(const codegen::CompiledPlan& plan) {
  const auto& step = *plan.parts.meta.steps.at(0);
  if (const auto* choice = step.work.AsTacticStep()) {
    std::vector<std::string> names;
    for (const auto& tactic : choice->tactics)
      names.push_back(fmt::format("{} of {}", tactic->name, tactic->parts.size()));
    return names;
  }
  return {"one"};
}

TEST(LinearAttentionPlans, HaveTacticsByLength) {
  using testing::ElementsAre;
  EXPECT_THAT(tactics_of(compile("1..4096", false)), ElementsAre("tokens of 1", "chunks of 2"));
  EXPECT_THAT(tactics_of(compile("17..4096", false)), ElementsAre("chunks of 2"));
  EXPECT_THAT(tactics_of(compile("1..16", false)), ElementsAre("one"));
  EXPECT_THAT(tactics_of(compile("1..4096", false, 4)), ElementsAre("one"));
}

TEST(LinearAttentionPlans, ChangeStatesInPlace) {
  const auto plan = compile("1..4096", true);
  ASSERT_EQ(plan.parts.meta.steps.size(), 1u);
  ASSERT_EQ(plan.states.size(), 1u);
  EXPECT_TRUE(plan.states[0].in_place);
  const auto& meta = plan.parts.meta;
  EXPECT_EQ(meta.inputs[3]->buffer, meta.outputs[1]->buffer);
}

}  // namespace
}  // namespace sinter::test
#endif
