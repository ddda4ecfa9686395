// SPDX-License-Identifier: Apache-2.0
// SampleTokens on a real GPU: it draws the tokens that the reference draws.
#include <cmath>

#include <gtest/gtest.h>

#include "ir/reference/evaluate.h"
#include "ir/text/text.h"
#include "tests/gpu/support.h"
#include "tests/support/sampling_operands.h"

namespace sinter::gpu_test {
namespace {

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
