// SPDX-License-Identifier: Apache-2.0
// Samplers on a real GPU: they choose the tokens that the reference chooses, and feed themselves.
#include <array>
#include <cmath>

#include <gtest/gtest.h>

#include "fusion/append_sampler.h"
#include "ir/reference/evaluate.h"
#include "ir/text/text.h"
#include "tests/gpu/support.h"
#include "tests/support/sampling_operands.h"

namespace sinter::gpu_test {
namespace {

constexpr int kSteps = 6;

/// Logits are a row of a table, by the token that is fed in.
ir::Graph decoder(std::int64_t vocabulary, const char* type) {
  const std::string v = std::to_string(vocabulary), t = type;
  return ir::parse_graph(
      "graph @main(%input_ids: i64[1, n], %position: i64[1], %table: " + t + "[8, " + v +
      "]) ranges {n: 1..8} {\n  %eight = const i64[] {8}\n" + "  %row = Mod(%input_ids, %eight)\n" +
      "  %logits = Gather(%table, %row) {axis = 0}\n" + "  return logits = %logits\n}\n");
}

using Case = std::tuple<std::int64_t, const char*, fusion::SamplerOptions>;
class Samplers : public ::testing::TestWithParam<Case> {};

TEST_P(Samplers, ChooseTheReferencesTokens) {
  const auto& [vocabulary, type, options] = GetParam();
  const ir::Graph graph = fusion::append_sampler(decoder(vocabulary, type), options);
  std::vector<ir::Tensor> inputs = random_inputs(decoder(vocabulary, type), {{"n", 3}}, 5);
  const auto integers = [](std::vector<std::int64_t> shape, std::vector<std::int64_t> values) {
    return ir::Tensor::from_ints(DType::kInt64, std::move(shape), values);
  };
  inputs[0] = integers({1, 3}, {4, 1, 6});
  inputs[1] = integers({1}, {0});
  inputs.push_back(integers({1}, {0}));
  if (!options.is_greedy())
    inputs.push_back(ir::Tensor::of<std::uint64_t>(DType::kUInt64, {1}, {1234567}));
  Session session(compile(graph, true));
  for (std::size_t i = 0; i < inputs.size(); ++i)
    session.set_input(graph.value(graph.inputs()[i]).name, view_of(inputs[i]));
  for (int step = 0; step < kSteps; ++step) {
    const auto expected = ir::evaluate(graph, inputs);
    session.run();
    ASSERT_EQ(tensor_of(session.output("token")).at_int(0), expected[0].at_int(0)) << step;
    EXPECT_EQ(tensor_of(session.output("next_position")).at_int(0), 3 + step);
    for (const ir::State& state : graph.states())
      inputs[static_cast<std::size_t>(state.input)] =
          expected[static_cast<std::size_t>(state.output)];
    if (step > 0) continue;
    inputs[0] = integers({1, 1}, {-1});
    session.set_input("input_ids", view_of(inputs[0]));
  }
}

fusion::SamplerOptions drawing(double temperature, std::int64_t top_k = 0, double top_p = 1) {
  fusion::SamplerOptions options;
  options.temperature = temperature, options.top_k = top_k, options.top_p = top_p;
  return options;
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const std::int64_t vocabulary : {1, 33, 5000, 49152})
    for (const fusion::SamplerOptions& options :
         {fusion::SamplerOptions(), drawing(1), drawing(0.7, 40, 0.9), drawing(0.5, 1),
          drawing(2, 0, 0.8), drawing(1, 7)})
      all.emplace_back(vocabulary, "f32", options);
  for (const char* type : {"f16", "bf16"}) {  // with many equal logits
    all.emplace_back(20000, type, fusion::SamplerOptions());
    all.emplace_back(20000, type, drawing(0.1, 50, 0.95));
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, Samplers, ::testing::ValuesIn(cases()));

/// Rows of their own parameters in one step: SampleTokens.
class SampledRows : public ::testing::TestWithParam<std::pair<const char*, std::int64_t>> {};

TEST_P(SampledRows, AreTheReferences) {
  const auto& [type, vocabulary] = GetParam();
  const std::string words = std::to_string((vocabulary + 31) / 32), v = std::to_string(vocabulary);
  const ir::Graph graph = ir::parse_graph(
      "graph @main(%logits: " + std::string(type) + "[n, " + v +
      "], %reals: f64[n, 4], %integers: i64[n, 6], %sets: i32[3, " + words +
      "], %biased: i32[5], %biases: f32[5]) ranges {n: 1..300} {\n" +
      "  %token = SampleTokens(%logits, %reals, %integers, %sets, %biased, %biases)\n" +
      "  return token = %token\n}\n");
  Session session(compile(graph, true));
  for (int kind = 0; kind < 4; ++kind) {
    const auto inputs =
        test::sampling_operands(graph.type(graph.inputs()[0]).dtype, vocabulary, kind, 77);
    for (std::size_t i = 0; i < inputs.size(); ++i)
      session.set_input(graph.value(graph.inputs()[i]).name, view_of(inputs[i]));
    const ir::Tensor expected = ir::evaluate(graph, inputs)[0];
    session.run();
    const ir::Tensor found = tensor_of(session.output("token"));
    for (std::int64_t i = 0; i < expected.element_count(); ++i)
      EXPECT_EQ(found.at_int(i), expected.at_int(i)) << "kind " << kind << " row " << i;
    session.run();
    EXPECT_TRUE(found == tensor_of(session.output("token"))) << "another token in another run";
  }
}

TEST_P(SampledRows, TellTheReferencesLogprobs) {
  const auto& [type, vocabulary] = GetParam();
  const std::string words = std::to_string((vocabulary + 31) / 32), v = std::to_string(vocabulary);
  const ir::Graph graph = ir::parse_graph(
      "graph @main(%logits: " + std::string(type) + "[n, " + v +
      "], %reals: f64[n, 4], %integers: i64[n, 6], %sets: i32[3, " + words +
      "], %biased: i32[5], %biases: f32[5], %wanted: i32[n]) ranges {n: 1..300} {\n" +
      "  %token, %likeliest, %logprobs = SampleTokens(%logits, %reals, %integers, %sets, %biased, "
      "%biases, %wanted) {likeliest = 20}\n" +
      "  return token = %token, likeliest = %likeliest, logprobs = %logprobs\n}\n");
  Session session(compile(graph, true));
  for (int kind = 0; kind < 4; ++kind) {
    const auto inputs =
        test::logprobs_operands(graph.type(graph.inputs()[0]).dtype, vocabulary, kind, 77);
    for (std::size_t i = 0; i < inputs.size(); ++i)
      session.set_input(graph.value(graph.inputs()[i]).name, view_of(inputs[i]));
    const auto expected = ir::evaluate(graph, inputs);
    session.run();
    EXPECT_TRUE(tensor_of(session.output("token")) == expected[0]) << "kind " << kind;
    EXPECT_TRUE(tensor_of(session.output("likeliest")) == expected[1]) << "kind " << kind;
    const ir::Tensor found = tensor_of(session.output("logprobs"));
    for (std::int64_t i = 0; i < found.element_count(); ++i) {
      const double wanted = expected[2].at(i);
      if (std::isinf(wanted))
        EXPECT_EQ(found.at(i), wanted) << "kind " << kind << " element " << i;
      else
        EXPECT_NEAR(found.at(i), wanted, 2e-6 + 1e-7 * std::abs(wanted))
            << "kind " << kind << " element " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, SampledRows,
                         ::testing::Values(std::pair("f32", std::int64_t{33}),
                                           std::pair("f16", std::int64_t{5000}),
                                           std::pair("f32", std::int64_t{49152}),
                                           std::pair("f16", std::int64_t{128256}),
                                           std::pair("bf16", std::int64_t{128256})));

}  // namespace
}  // namespace sinter::gpu_test
