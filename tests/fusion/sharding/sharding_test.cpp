// SPDX-License-Identifier: Apache-2.0
// Graphs of several ranks compute what the graph of one does.
#include <filesystem>
#include <fstream>
#include <iterator>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sinter/error.h>

#include "codegen/targets/cpu/cpu_target.h"
#include "codegen/targets/cuda/cuda_target.h"
#include "fusion/passes/passes.h"
#include "fusion/sharding/rank_weights.h"
#include "ir/ranks/rank_parts.h"
#include "ir/ranks/ranks.h"
#include "ir/reference/evaluate.h"
#include "ir/text/text.h"
#include "tests/fusion/random_graph.h"
#include "tests/fusion/support.h"
#include "tests/support/paths.h"

namespace sinter::fusion::test {
namespace {

constexpr double kTolerance = 1e-9;  // float64, reassociated

class ShardedRandomGraphs : public testing::TestWithParam<int> {};

TEST_P(ShardedRandomGraphs, ComputeTheSame) {
  const std::int64_t ranks = GetParam();
  int split = 0;
  for (int seed = 0; seed < 40 && !HasFailure(); ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const ir::Graph graph = random_graph(static_cast<std::uint64_t>(seed), 5 + 3 * (seed % 20));
    Context context;
    context.target = codegen::cpu_target().traits();
    context.sharding = ranks_of_slow_devices(ranks);
    const ir::Graph sharded = run_pass("shard", graph, context);
    expect_equivalent_ranks(graph, sharded, context.sharded, kTolerance);
    split += !ir::structurally_equal(graph, sharded) && context.sharded.collective_seconds > 0;
  }
  // The test tests something: most graphs have dimensions of 4, 6 and their products.
  EXPECT_GT(split, ranks == 8 ? 2 : 10);
}

/// What the passes behind it make of a graph of ranks computes the same.
TEST_P(ShardedRandomGraphs, FusedComputeTheSame) {
  const std::int64_t ranks = GetParam();
  for (int seed = 100; seed < 110 && !HasFailure(); ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const ir::Graph graph = random_graph(static_cast<std::uint64_t>(seed), 10 + seed % 20);
    for (const TargetTraits& target :
         {codegen::cpu_target().traits(), codegen::cuda_target().traits()}) {
      Context context;
      context.target = target;
      context.sharding = ranks_of_slow_devices(ranks);
      PipelineOptions options;
      options.disabled = {"slice_weights"};  // one graph of all ranks, for the reference
      const ir::Graph fused = run_checked(graph, context, options).graph;
      expect_equivalent_ranks(graph, fused, context.sharded, kTolerance);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, ShardedRandomGraphs, testing::Values(2, 3, 4, 8));

/// The layers of goldens/shard: a decoder, a mixture, a state-space model, an encoder, speech, a
/// U-Net.
TEST_P(ShardedRandomGraphs, LayersComputeTheSame) {
  constexpr double kOfFloats = 2e-6;
  int layers = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(source_dir() + "/tests/fusion/goldens/shard")) {
    SCOPED_TRACE(entry.path().stem().string());
    std::ifstream file(entry.path());
    std::string text((std::istreambuf_iterator<char>(file)), {});
    text = text.substr(0, text.find("----\n"));
    const ir::Graph graph = ir::parse_graph(text.substr(text.find("\ngraph ") + 1));
    for (const double start : {0.0, 3e-4, 3e-3}) {
      Context context;
      context.sharding = ranks_of_slow_devices(GetParam(), start);
      const ir::Graph sharded = run_pass("shard", graph, context);
      expect_equivalent_ranks(graph, sharded, context.sharded, kOfFloats);
      // Never slower, by the estimate, than what every rank does alone.
      EXPECT_LE(context.sharded.rank_seconds, context.sharded.seconds * (1 + 1e-9));
    }
    ++layers;
  }
  EXPECT_GE(layers, 10);
}

TEST(Sharding, IsDeterministic) {
  for (int seed = 0; seed < 5; ++seed) {
    const ir::Graph graph = random_graph(static_cast<std::uint64_t>(seed), 40);
    Context first, second;
    first.sharding = second.sharding = ranks_of_slow_devices(2);
    EXPECT_EQ(ir::print(run_pass("shard", graph, first)),
              ir::print(run_pass("shard", graph, second)));
  }
}

ir::Graph feed_forward() {
  return ir::parse_graph(R"(graph @main(%x: f32[s, 64], %wu: f32[64, 256], %wd: f32[256, 64]) {
    %h = MatMul(%x, %wu)
    %a = Relu(%h)
    %y = MatMul(%a, %wd)
    return y = %y
  })");
}

TEST(Sharding, OneRankAndSlowLinksChangeNothing) {
  const ir::Graph graph = feed_forward();
  Context context;
  EXPECT_TRUE(run_pass("shard", graph, context).is_same(graph));
  // Work that takes less than a collective is not shared.
  context.sharding = ranks_of_slow_devices(2);
  for (auto* rate : {&context.sharding.links.one_shot, &context.sharding.links.two_shot})
    rate->start = 1e6;
  const ir::Graph whole = run_pass("shard", graph, context);
  EXPECT_EQ(context.sharded.collective_seconds, 0);
  EXPECT_EQ(whole.nodes().size(), graph.nodes().size());
  EXPECT_EQ(ir::rank_count(whole), 2);
}

TEST(Sharding, ReportsWhatEachRankDoes) {
  Context context;
  context.sharding = ranks_of_slow_devices(4);
  run_pass("shard", feed_forward(), context);
  const ShardingReport& report = context.sharded;
  ASSERT_EQ(report.nodes.size(), 3U);
  EXPECT_EQ(report.nodes[0].split, "column");
  EXPECT_EQ(report.nodes[1].split, "row");
  EXPECT_EQ(report.nodes[2].split, "all reduce");
  EXPECT_TRUE(report.nodes[2].is_collective);
  EXPECT_GT(report.nodes[2].rank_seconds, 0);
  EXPECT_NEAR(report.nodes[0].rank_bytes, 32 * 64 * 4 + (64 * 256 + 32 * 256) * 4 / 4.0, 1);
  EXPECT_LT(report.rank_seconds, 0.5 * report.seconds);
}

/// `graph`, which has rank 0's constants, with those of `rank`.
ir::Graph graph_of_rank(const ir::Graph& graph, std::int64_t rank) {
  return ir::rewrite(
      graph,
      [&](ir::GraphBuilder& builder, const ir::Graph& old, const ir::Node& node,
          std::span<const ir::ValueId> given) -> std::optional<std::vector<ir::ValueId>> {
        std::vector<ir::ValueId> inputs(given.begin(), given.end());
        for (std::size_t i = 0; i < inputs.size(); ++i)
          if (const auto& constant = old.value(node.inputs[i]).constant)
            inputs[i] = builder.constant(ir::for_rank(*constant, rank));
        return builder.add_multi(node.op->name, inputs, node.attrs, node.body);
      });
}

/// Each rank's graph has its own weights as constants, and all the same nodes.
TEST(Sharding, WeightsOfARankAreConstants) {
  const ir::Graph graph = ir::parse_graph(R"(graph @main(%x: f32[s, 4]) {
    %wu = const f32[4, 16] {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63, 64}
    %wd = const f32[16, 4] {1, -2, 3, -4, 5, -6, 7, -1, 2, -3, 4, -5, 6, -7, 1, -2, 3, -4, 5, -6, 7, -1, 2, -3, 4, -5, 6, -7, 1, -2, 3, -4, 5, -6, 7, -1, 2, -3, 4, -5, 6, -7, 1, -2, 3, -4, 5, -6, 7, -1, 2, -3, 4, -5, 6, -7, 1, -2, 3, -4, 5, -6, 7, -1}
    %h = MatMul(%x, %wu)
    %a = Relu(%h)
    %y = MatMul(%a, %wd)
    return y = %y
  })");
  Context context;
  context.sharding = ranks_of_slow_devices(2);
  const ir::Graph sharded = run_pass("shard", graph, context);
  const auto inputs = random_inputs(graph, 1);
  std::vector<double> expected = ir::evaluate(graph, inputs)[0].to_doubles();
  EXPECT_EQ(context.sharded.weight_bytes, 2 * context.sharded.rank_weight_bytes);
  std::vector<std::string> texts;
  for (std::int64_t rank = 0; rank < 2; ++rank) {
    const ir::Graph own =
        graph_of_rank(with_weights_of_ranks(sharded, std::make_shared<ir::ReadLog>()), rank);
    ir::verify(own);
    std::size_t bytes = 0;
    for (const ir::Value& value : own.values())
      if (value.constant) bytes += value.constant->byte_count();
    EXPECT_EQ(static_cast<double>(bytes), context.sharded.rank_weight_bytes);
    for (const ir::Node& node : own.nodes()) EXPECT_NE(node.op->name, "Slice");
    // The other rank's half of the sum is missing.
    const ir::EvaluatingRank alone{
        rank, [](const ir::Tensor& mine) {
          const std::vector<ir::Tensor> same = {mine, mine};
          return std::vector<ir::Tensor>{mine, ir::evaluate_op(ir::get_op("Sub"), {}, same).at(0)};
        }};
    const auto half = ir::evaluate(own, inputs, {.rank = &alone})[0].to_doubles();
    for (std::size_t i = 0; i < expected.size(); ++i) expected[i] -= half[i];
  }
  for (const double rest : expected) EXPECT_NEAR(rest, 0, 1e-3);  // of sums of hundreds
}

/// What was decided by rank 0's values must be right for the others.
TEST(Sharding, ChecksWhatRank0sWeightsDecide) {
  const auto log = std::make_shared<ir::ReadLog>();
  const ir::Tensor whole = ir::Tensor::of(DType::kFloat32, {4}, std::vector<float>{1, 1, 1, 2});
  const ir::Tensor other = ir::Tensor::of(DType::kFloat32, {4}, std::vector<float>{1, 1, 3, 4});
  const ir::Tensor part = ir::rank_part(whole, 0, {0, 2}, 2, log);
  EXPECT_TRUE(ir::differs_by_rank(part));
  EXPECT_EQ(ir::ranks_that_share(part), 1);
  EXPECT_EQ(ir::for_rank(part, 1).to_doubles(), (std::vector<double>{1, 2}));
  EXPECT_EQ(ir::ranks_that_share(ir::rank_part(whole, 0, {0, 0, 2, 2}, 2, log)), 2);
  EXPECT_EQ(ir::ranks_that_share(ir::rank_part(whole, 0, {0, 2, 2, 0}, 2, log)), 1);
  ir::check_ranks_agree(*log, 2);  // nothing was read
  const auto doubled = ir::evaluate_op(ir::get_op("Add"), {}, std::vector{part, part})[0];
  EXPECT_EQ(ir::for_rank(doubled, 1).to_doubles(), (std::vector<double>{2, 4}));
  {
    const ir::ReadScope scope("the pass of this test");
    EXPECT_EQ(part.at(0), 1);
  }
  try {
    ir::check_ranks_agree(*log, 2);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    EXPECT_THAT(error.what(), testing::HasSubstr("the pass of this test has decided by values"));
  }
  // Two parts that are equal for rank 0 alone.
  const auto equals = std::make_shared<ir::ReadLog>();
  EXPECT_TRUE(ir::rank_part(whole, 0, {0, 2}, 2, equals) ==
              ir::rank_part(other, 0, {0, 2}, 2, equals));
  EXPECT_THROW(ir::check_ranks_agree(*equals, 2), Error);
  const auto same = std::make_shared<ir::ReadLog>();
  EXPECT_TRUE(ir::rank_part(whole, 0, {0, 1}, 2, same) == ir::rank_part(other, 0, {0, 0}, 2, same));
  ir::check_ranks_agree(*same, 2);
}

TEST(Sharding, RefusesADimensionThatIsNamedAsTheRank) {
  Context context;
  context.sharding = ranks_of_slow_devices(2);
  const ir::Graph graph = ir::parse_graph(R"(graph @main(%x: f32[rank, 4]) {
    %y = Relu(%x)
    return y = %y
  })");
  try {
    run_pass("shard", graph, context);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("rename it"));
  }
}

}  // namespace
}  // namespace sinter::fusion::test
