// SPDX-License-Identifier: Apache-2.0
// Whatever the passes do, the graph computes the same.
#include <gtest/gtest.h>

#include "codegen/targets/cpu/cpu_target.h"
#include "codegen/targets/cuda/cuda_target.h"
#include "fusion/pipeline.h"
#include "ir/text/text.h"
#include "random_graph.h"
#include "support.h"

namespace sinter::fusion::test {
namespace {

constexpr double kTolerance = 1e-9;  // float64, reassociated
constexpr int kSeedsPerTest = 25;

class RandomGraphs : public testing::TestWithParam<int> {
 protected:
  /// Runs `check` for this test's share of the seeds, with graphs of different sizes.
  void for_each_graph(const std::function<void(const ir::Graph&)>& check) {
    for (int i = 0; i < kSeedsPerTest && !HasFailure(); ++i) {
      const int seed = GetParam() * kSeedsPerTest + i;
      SCOPED_TRACE("seed " + std::to_string(seed));
      check(random_graph(static_cast<std::uint64_t>(seed), 5 + 3 * (i % 25)));
    }
  }
};

TEST_P(RandomGraphs, FusedComputeTheSame) {
  for_each_graph([](const ir::Graph& graph) {
    for (const TargetTraits& target :
         {codegen::cpu_target().traits(), codegen::cuda_target().traits()}) {
      Context context;
      context.target = target;
      const ir::Graph fused = run_checked(graph, context).graph;
      expect_equivalent(graph, fused, kTolerance);
      expect_fused(fused);
    }
  });
}

TEST_P(RandomGraphs, UnfusedComputeTheSame) {
  for_each_graph([](const ir::Graph& graph) {
    Context context;
    context.target = codegen::cuda_target().traits();
    context.fuse = false;
    const ir::Graph unfused = run_checked(graph, context).graph;
    expect_equivalent(graph, unfused, kTolerance);
    expect_fused(unfused);
  });
}

/// Any subset of the passes gives a graph that can be compiled.
TEST_P(RandomGraphs, PassesCanBeLeftOut) {
  std::uint64_t choice = static_cast<std::uint64_t>(GetParam()) * 2654435761u + 1;
  for_each_graph([&](const ir::Graph& graph) {
    Context context;
    context.target = codegen::cpu_target().traits();
    PipelineOptions options;
    for (const Pass& pass : pipeline()) {
      choice = choice * 6364136223846793005u + 1442695040888963407u;
      if (pass.name != "wrap_singletons" && pass.name != "decompose" && (choice >> 60) < 5)
        options.disabled.emplace(pass.name);
    }
    const ir::Graph result = run_checked(graph, context, options).graph;
    expect_equivalent(graph, result, kTolerance);
    expect_fused(result);
  });
}

/// The same graph gives the same result, down to the text.
TEST_P(RandomGraphs, PassesAreDeterministic) {
  for_each_graph([](const ir::Graph& graph) {
    Context first, second;
    first.target = second.target = codegen::cpu_target().traits();
    EXPECT_EQ(ir::print(run_checked(graph, first).graph),
              ir::print(run_checked(graph, second).graph));
    EXPECT_EQ(first.decisions.size(), second.decisions.size());
  });
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomGraphs, testing::Range(0, 6));

}  // namespace
}  // namespace sinter::fusion::test
