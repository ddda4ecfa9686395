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
  fb::SamplingStepT sampling;
  sampling.rows = rows;
  sampling.vocabulary = count;
  sampling.sets_rows = b.constant(3);
  sampling.biases_count = b.constant(5);
  sampling.logits = b.input("logits", dtype, {rows, count});
  sampling.reals = b.input("reals", DType::kFloat64, {rows, b.constant(4)});
  sampling.integers = b.input("integers", DType::kInt64, {rows, b.constant(6)});
  sampling.sets =
      b.input("sets", DType::kInt32, {sampling.sets_rows, b.constant((kVocabulary + 31) / 32)});
  sampling.biased = b.input("biased", DType::kInt32, {sampling.biases_count});
  sampling.biases = b.input("biases", DType::kFloat32, {sampling.biases_count});
  sampling.tokens = b.output("tokens", DType::kInt32, {rows});
  fb::LogprobsStepT logprobs;
  logprobs.logits = sampling.logits;
  logprobs.tokens = sampling.tokens;
  logprobs.rows = rows;
  logprobs.vocabulary = count;
  logprobs.most = kLikeliest;
  logprobs.wanted = b.input("wanted", DType::kInt32, {rows});
  logprobs.likeliest = b.output("likeliest", DType::kInt32, {rows, b.constant(kLikeliest)});
  logprobs.logprobs = b.output("logprobs", DType::kFloat32, {rows, b.constant(kLikeliest + 1)});
  b.sampling("sample", std::move(sampling));
  b.logprobs("tell", std::move(logprobs));
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
