// SPDX-License-Identifier: Apache-2.0
// Plans of several ranks on the CPU compute what the reference does, and what one rank does.
#include <filesystem>
#include <fstream>
#include <iterator>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/reference/evaluate.h"
#include "ir/text/text.h"
#include "runtime/plan_access.h"
#include "tests/fusion/random_graph.h"
#include "tests/fusion/support.h"
#include "tests/ranks/ranked_graph.h"
#include "tests/support/paths.h"

namespace sinter::testing {
namespace {

using fusion::test::random_inputs;
using fusion::test::relative_error;

std::size_t collectives(const Plan& plan) {
  std::size_t count = 0;
  for (const auto& step : PlanAccess::data(plan)->meta.steps)
    if (const auto* call = step->work.AsOperatorStep())
      count += call->operator_name == "collective";
  return count;
}

class Ranks : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Count, Ranks, ::testing::Values(2, 3, 4, 8));

TEST_P(Ranks, ComputeRandomGraphs) {
  std::size_t met = 0;
  for (int seed = 0; seed < 40 && !HasFailure(); ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const ir::Graph graph =
        fusion::test::random_graph(static_cast<std::uint64_t>(seed), 5 + 3 * (seed % 20));
    const RankedPlan one = compile_for_ranks(graph, 1);
    const RankedPlan ranked = compile_for_ranks(graph, GetParam());
    EXPECT_EQ(ranked.plan.ranks(), static_cast<std::size_t>(GetParam()));
    met += collectives(ranked.plan);
    Session alone(one.plan), session(ranked.plan);
    for (std::uint64_t run = 0; run < 3; ++run) {
      const auto inputs = random_inputs(graph, run);
      // Functions that the CPU approximates differ from the reference's in both.
      const auto expected = ir::evaluate(graph, inputs), same = run_session(alone, graph, inputs);
      const auto found = run_session(session, graph, inputs);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        EXPECT_LE(relative_error(found[i], same[i]), 1e-9) << graph.output_names()[i];
        EXPECT_LE(relative_error(found[i], expected[i]), 1e-6) << graph.output_names()[i];
      }
      // The same bits each time.
      if (run == 0) {
        EXPECT_EQ(run_session(session, graph, inputs), found);
      }
    }
  }
  EXPECT_GT(met, GetParam() == 8 ? 0U : 10U);
}

ir::Graph layer(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string text((std::istreambuf_iterator<char>(file)), {});
  text = text.substr(0, text.find("----\n"));
  return ir::parse_graph(text.substr(text.find("\ngraph ") + 1));
}

/// A decoder, a mixture, a state-space model, an encoder, speech, a U-Net, with constant weights
/// and with states that go on from run to run.
TEST_P(Ranks, ComputeLayersOfModels) {
  std::size_t met = 0, layers = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(source_dir() + "/tests/fusion/goldens/shard"))
    for (const double start : {0.0, 3e-4}) {
      SCOPED_TRACE(fmt::format("{}, collectives of {} s", entry.path().stem().string(), start));
      const ir::Graph graph = with_constant_weights(layer(entry.path()), 7);
      const RankedPlan one = compile_for_ranks(graph, 1),
                       ranked = compile_for_ranks(graph, GetParam(), start);
      met += collectives(ranked.plan);
      Session alone(one.plan), session(ranked.plan);
      auto inputs = random_inputs(graph, 5);
      for (int run = 0; run < 3; ++run) {
        const auto expected = run_session(alone, graph, inputs);
        const auto found = run_session(session, graph, inputs);
        for (std::size_t i = 0; i < expected.size(); ++i)
          EXPECT_LE(relative_error(found[i], expected[i]), 2e-5) << graph.output_names()[i];
        for (const ir::State& state : graph.states())
          inputs[static_cast<std::size_t>(state.input)] =
              expected[static_cast<std::size_t>(state.output)];
      }
      ++layers;
    }
  EXPECT_GE(layers, 20U);
  EXPECT_GT(met, 10U);
}

/// The plan of several ranks stores each byte of a weight once.
TEST_P(Ranks, ShareTheWeightsOfAFile) {
  const int size = 24 * 8;  // divided by all
  const ir::Graph graph = with_constant_weights(
      ir::parse_graph(fmt::format(
          "graph @main(%x: f32[s, {0}], %a: f32[{0}, {1}], %b: f32[{1}, {0}]) {{\n"
          "  %h = MatMul(%x, %a)\n  %r = Relu(%h)\n  %y = MatMul(%r, %b)\n  return y = %y\n}}",
          size, 4 * size)),
      3);
  const RankedPlan one = compile_for_ranks(graph, 1), ranked = compile_for_ranks(graph, GetParam());
  EXPECT_EQ(collectives(ranked.plan), 1U);
  EXPECT_LE(static_cast<double>(ranked.bytes), 1.05 * static_cast<double>(one.bytes));
  const auto& meta = PlanAccess::data(ranked.plan)->meta;
  std::size_t split = 0;
  for (const auto& buffer : meta.buffers) split += buffer->rank_step > 0;
  EXPECT_EQ(split, 2U);
}

/// A weight of one element for each rank is read by the rank's number, no number in a program.
TEST(RankWeights, OfOneElementDiffer) {
  const ir::Graph graph = with_constant_weights(
      ir::parse_graph("graph @main(%x: f32[s, 4, 64], %g: f32[4, 1], %w: f32[4, 64, 64]) {\n"
                      "  %t = Transpose(%x) {perm = [1, 0, 2]}\n  %h = MatMul(%t, %w)\n"
                      "  %u = Transpose(%h) {perm = [1, 0, 2]}\n  %y = Mul(%u, %g)\n"
                      "  return y = %y\n}"),
      3);
  const RankedPlan ranked = compile_for_ranks(graph, 4);
  Session session(ranked.plan);
  const auto inputs = random_inputs(graph, 1);
  EXPECT_LE(relative_error(run_session(session, graph, inputs)[0], ir::evaluate(graph, inputs)[0]),
            1e-5);
}

TEST(RankWeights, AStateIsGivenAndReadWhole) {
  const ir::Graph graph = with_constant_weights(
      layer(source_dir() + "/tests/fusion/goldens/shard/decoder_layer.txt"), 7);
  const RankedPlan ranked = compile_for_ranks(graph, 2);
  ASSERT_EQ(ranked.report.states.size(), 2U);
  const BindingInfo& keys = ranked.plan.inputs()[ranked.plan.input_index("k")];
  EXPECT_EQ(keys.shape[1].text, "2");
  Session session(ranked.plan);
  EXPECT_THROW(session.set_input("k", {1, 1, 8, 4}, std::vector<float>(32)), Error);
  const auto inputs = random_inputs(graph, 1);
  run_session(session, graph, inputs);
  EXPECT_EQ(session.output("knew").shape, (std::vector<std::int64_t>{1, 2, 8, 4}));
}

}  // namespace
}  // namespace sinter::testing
