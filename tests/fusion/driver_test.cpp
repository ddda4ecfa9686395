// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codegen/targets/cpu/cpu_target.h"
#include "fusion/pipeline.h"
#include "ir/text/text.h"
#include "sinter/error.h"
#include "support.h"

namespace sinter::fusion::test {
namespace {

using testing::HasSubstr;

ir::Graph small_graph() {
  return ir::parse_graph(R"(
graph @main(%x: f32[n, 8]) {
  %one = const f32[] {1}
  %a = Mul(%x, %one) : f32[n, 8]
  %b = Softmax(%a) {axis = 1} : f32[n, 8]
  %c = Relu(%b) : f32[n, 8]
  return y = %c
})");
}

Context cpu_context() {
  Context context;
  context.target = codegen::cpu_target().traits();
  return context;
}

std::vector<std::string> names(const PipelineResult& result) {
  std::vector<std::string> names;
  for (const PassTime& time : result.times) names.push_back(time.name);
  return names;
}

void expect_usage_error(const PipelineOptions& options, const std::string& text) {
  Context context = cpu_context();
  try {
    run_pipeline(small_graph(), context, options);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    EXPECT_THAT(error.what(), HasSubstr(text));
  }
}

TEST(Driver, NamesTheUnknownPassAndTheKnownOnes) {
  PipelineOptions disabled;
  disabled.disabled = {"fuse_everything"};
  expect_usage_error(disabled, "--disable-pass: there is no pass 'fuse_everything'");
  expect_usage_error(disabled, "fuse_reductions");
  PipelineOptions stop;
  stop.stop_after = "simplfy";
  expect_usage_error(stop, "--stop-after: there is no pass 'simplfy': did you mean 'simplify'?");
}

TEST(Driver, RunsEveryPassInOrder) {
  Context context = cpu_context();
  const auto result = run_pipeline(small_graph(), context);
  std::vector<std::string> expected;
  for (const Pass& pass : pipeline()) expected.emplace_back(pass.name);
  EXPECT_EQ(names(result), expected);
  expect_fused(result.graph);
  EXPECT_EQ(result.graph.nodes().size(), 1u);
}

TEST(Driver, StopsAfterAPass) {
  Context context = cpu_context();
  PipelineOptions options;
  options.stop_after = "simplify";
  const auto result = run_pipeline(small_graph(), context, options);
  EXPECT_EQ(names(result).back(), "simplify");
  EXPECT_EQ(result.times.back().nodes_before, 3u);
  EXPECT_EQ(result.times.back().nodes_after, 2u);
}

TEST(Driver, StopsAtALeftOutPass) {
  Context context = cpu_context();
  context.fuse = false;
  PipelineOptions options;
  options.stop_after = "recognise";
  EXPECT_EQ(names(run_pipeline(small_graph(), context, options)),
            (std::vector<std::string>{"expand_bodies", "find_states", "quantize_weights",
                                      "fold_constants"}));
}

TEST(Driver, LeavesOutDisabledPasses) {
  Context context = cpu_context();
  PipelineOptions options;
  options.disabled = {"simplify", "fuse_reductions", "fuse_pointwise"};
  const auto result = run_pipeline(small_graph(), context, options);
  for (const std::string& name : names(result)) EXPECT_EQ(options.disabled.count(name), 0u);
  expect_fused(result.graph);
  EXPECT_GT(result.graph.nodes().size(), 5u);
  expect_equivalent(small_graph(), result.graph, 1e-6);
}

TEST(Driver, UnfusedIsOneKernelForEachOperator) {
  Context context = cpu_context();
  context.fuse = false;
  const auto result = run_pipeline(small_graph(), context);
  EXPECT_EQ(result.graph.nodes().size(), small_graph().nodes().size());
  expect_fused(result.graph);
  for (const std::string& name : names(result))
    for (const Pass& pass : pipeline())
      if (pass.name == name) {
        EXPECT_FALSE(pass.only_when_fusing) << name;
      }
}

TEST(Driver, ShowsTheGraphBeforeAndAfterEachPass) {
  Context context = cpu_context();
  PipelineOptions options;
  std::vector<std::string> seen;
  std::size_t nodes = 0;
  options.observe = [&](std::string_view pass, bool after, const ir::Graph& graph) {
    seen.push_back(std::string(pass) + (after ? " after" : " before"));
    if (!after && seen.size() > 1) {
      EXPECT_EQ(graph.nodes().size(), nodes);
    }
    nodes = graph.nodes().size();
  };
  const auto result = run_pipeline(small_graph(), context, options);
  ASSERT_EQ(seen.size(), 2 * pipeline().size());
  EXPECT_EQ(seen[0], "expand_bodies before");
  EXPECT_EQ(seen[1], "expand_bodies after");
}

TEST(Facts, OrdersThatCannotHoldAreRefused) {
  std::vector<Pass> passes = pipeline();
  check_order(passes);
  const auto at = [&](std::string_view name) {
    return std::ranges::find(passes, name, &Pass::name);
  };
  std::iter_swap(at("fold_constants"), at("recognise"));
  try {
    check_order(passes);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("pass 'recognise' needs 'constants folded'"));
  }
}

TEST(Facts, EveryFactIsEstablishedAndNeeded) {
  for (const Fact* fact :
       {&facts::kBodiesExpanded, &facts::kStatesFound, &facts::kWeightsRead,
        &facts::kConstantsFolded, &facts::kIdiomsRecognised, &facts::kPrecisionLowered,
        &facts::kSimplified, &facts::kEightBitOperandsFound, &facts::kAttentionFound,
        &facts::kDecomposed, &facts::kLayoutsAssigned, &facts::kWeightsLaidOut}) {
    const auto has = [&](const std::vector<const Fact*>& list) {
      return std::ranges::find(list, fact) != list.end();
    };
    EXPECT_EQ(std::ranges::count_if(pipeline(), [&](const Pass& p) { return has(p.establishes); }),
              1)
        << fact->name;
    EXPECT_TRUE(std::ranges::any_of(pipeline(), [&](const Pass& p) { return has(p.needs); }))
        << fact->name;
  }
}

TEST(Facts, SayWhatContradictsThem) {
  const Context context = cpu_context();
  EXPECT_THAT(facts::kAllFused.violation(small_graph(), context), HasSubstr("is not part of"));
  EXPECT_THAT(facts::kDecomposed.violation(small_graph(), context), HasSubstr("once more"));
  EXPECT_THAT(facts::kSimplified.violation(small_graph(), context), HasSubstr("once more"));
  Context states = context;
  states.states.pairs = {{"x", "y"}};
  EXPECT_THAT(facts::kStatesFound.violation(small_graph(), states),
              HasSubstr("'x' and 'y' are no state"));
}

TEST(Decisions, EveryEdgeHasOneReason) {
  Context context = cpu_context();
  run_pipeline(small_graph(), context);
  ASSERT_FALSE(context.decisions.empty());
  for (const Decision& decision : context.decisions) {
    EXPECT_FALSE(decision.producer.empty());
    EXPECT_THAT(decision.reason, testing::StartsWith(decision.fused ? "fused: " : "no: "));
    EXPECT_GT(decision.reason.size(), 8u);
  }
}

}  // namespace
}  // namespace sinter::fusion::test
