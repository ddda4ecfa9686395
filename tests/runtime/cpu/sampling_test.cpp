// SPDX-License-Identifier: Apache-2.0
// SampleTokens on the CPU against the reference.
#include <cmath>

#include <gtest/gtest.h>

#include "ir/graph.h"
#include "ir/reference/evaluate.h"
#include "tests/runtime/plan/plan_builder.h"
#include "tests/support/sampling_operands.h"

namespace sinter::testing {
namespace {

constexpr std::int64_t kLikeliest = 20, kVocabulary = 300;

Plan sampling_plan(DType dtype) {
  PlanBuilder b;
  const Id rows = b.symbol("rows", 1, 64), count = b.constant(kVocabulary);
  const Id sets = b.constant(3), biases = b.constant(5),
           words = b.constant((kVocabulary + 31) / 32);
  const PlanBuilder::Tensor logits = b.input_of("logits", dtype, {rows, count}),
                            tokens = b.output_of("tokens", DType::kInt32, {rows});
  b.call("sampling",
         {logits, b.input_of("reals", DType::kFloat64, {rows, b.constant(4)}),
          b.input_of("integers", DType::kInt64, {rows, b.constant(6)}),
          b.input_of("sets", DType::kInt32, {sets, words}),
          b.input_of("biased", DType::kInt32, {biases}),
          b.input_of("biases", DType::kFloat32, {biases})},
         {tokens});
  b.call("logprobs", {logits, tokens, b.input_of("wanted", DType::kInt32, {rows})},
         {b.output_of("likeliest", DType::kInt32, {rows, b.constant(kLikeliest)}),
          b.output_of("logprobs", DType::kFloat32, {rows, b.constant(kLikeliest + 1)})});
  return b.build();
}

class CpuSampling : public ::testing::TestWithParam<DType> {};

TEST_P(CpuSampling, IsTheReferences) {
  Session session(sampling_plan(GetParam()));
  for (int kind = 0; kind < 4; ++kind) {
    const auto inputs = test::logprobs_operands(GetParam(), kVocabulary, kind, 3);
    const auto expected =
        ir::evaluate_op(ir::get_op("SampleTokens"), {{"likeliest", ir::Attr(kLikeliest)}}, inputs);
    const char* const names[] = {"logits", "reals",  "integers", "sets",
                                 "biased", "biases", "wanted"};
    for (std::size_t i = 0; i < inputs.size(); ++i)
      session.set_input(names[i],
                        TensorView{inputs[i].dtype(), inputs[i].shape(), inputs[i].bytes().data()});
    session.run();
    const auto tokens = session.output("tokens").as<std::int32_t>();
    const auto likeliest = session.output("likeliest").as<std::int32_t>();
    const auto logprobs = session.output("logprobs").as<float>();
    for (std::size_t i = 0; i < tokens.size(); ++i)
      EXPECT_EQ(tokens[i], expected[0].at_int(static_cast<std::int64_t>(i))) << i;
    for (std::size_t i = 0; i < likeliest.size(); ++i)
      EXPECT_EQ(likeliest[i], expected[1].at_int(static_cast<std::int64_t>(i))) << i;
    for (std::size_t i = 0; i < logprobs.size(); ++i)
      EXPECT_FLOAT_EQ(logprobs[i], static_cast<float>(expected[2].at(static_cast<std::int64_t>(i))))
          << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Types, CpuSampling,
                         ::testing::Values(DType::kFloat32, DType::kFloat16, DType::kBFloat16));

}  // namespace
}  // namespace sinter::testing
