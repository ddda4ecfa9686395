// SPDX-License-Identifier: Apache-2.0
// SampleTokens on the emulator against the reference: blocks and clusters, cuts among equal logits,
// sets, biases and penalties.
#ifdef SINTER_WITH_CUDA
#include <cmath>

#include <gtest/gtest.h>

#include "codegen/families/sampling/emit_sampling.h"
#include "ir/graph.h"
#include "ir/reference/evaluate.h"
#include "runtime/plan/plan_data.h"
#include "tests/codegen/emulation/cuda_emulation.h"
#include "tests/support/sampling_operands.h"

namespace sinter::test {
namespace {

constexpr std::int64_t kLikeliest = 20;

struct SamplingCase {
  DType dtype;
  std::int64_t vocabulary;
  bool tells = true;  // log probabilities
};

codegen::SamplingProblem problem_of(const SamplingCase& test) {
  codegen::SamplingProblem problem;
  problem.reals = 1, problem.integers = 2, problem.sets = 3, problem.biased = 4;
  problem.biases = 5, problem.wanted = 6;
  problem.tokens = 7, problem.likeliest = 8, problem.logprobs = 9;
  problem.most_likeliest = test.tells ? static_cast<int>(kLikeliest) : 0;
  problem.dtype = test.dtype;
  problem.vocabulary = test.vocabulary;
  problem.rows = ir::Dim::symbol("rows");
  problem.set_count = 3;
  problem.bias_count = 5;
  return problem;
}

/// Kernels sum in float32, in whole units of 2^-40.
void expect_logprobs(const Memory& memory, const std::vector<ir::Tensor>& expected) {
  const auto* likeliest = reinterpret_cast<const std::int32_t*>(memory[8].data());
  const auto* logprobs = reinterpret_cast<const float*>(memory[9].data());
  for (std::int64_t i = 0; i < expected[1].element_count(); ++i)
    EXPECT_EQ(likeliest[i], expected[1].at_int(i)) << "likeliest " << i;
  for (std::int64_t i = 0; i < expected[2].element_count(); ++i) {
    const double wanted = expected[2].at(i);
    if (std::isinf(wanted))
      EXPECT_EQ(logprobs[i], wanted) << i;
    else
      EXPECT_NEAR(logprobs[i], wanted, 2e-6 + 1e-7 * std::abs(wanted)) << i;
  }
}

TEST(Sampling, KernelsDrawWhatTheReferenceDraws) {
  const SamplingCase cases[] = {{DType::kFloat32, 37},
                                {DType::kFloat32, 11},
                                {DType::kFloat16, 1000},
                                {DType::kFloat32, 3000, false},
                                {DType::kBFloat16, 4500}};
  const auto rows = static_cast<std::int64_t>(rows_to_draw().size());
  std::vector<codegen::EmittedKernel> kernels;
  std::vector<codegen::ExprTable> tables;
  for (const SamplingCase& test : cases) {
    tables.push_back(codegen::ExprTable({{"rows", ir::Range{1, 100}}}));
    codegen::KernelRequest request;
    request.name = "sample_" + std::to_string(kernels.size());
    kernels.push_back(emit_sampling(problem_of(test), request, tables.back()));
  }
  const EmulatedKernels library(kernels);
  int drawn = 0;
  for (std::size_t c = 0; c < kernels.size(); ++c)
    // Clusters of blocks take long here.
    for (int kind = 0; kind < (cases[c].vocabulary > 4096 ? 2 : 4); ++kind) {
      const auto inputs = logprobs_operands(cases[c].dtype, cases[c].vocabulary, kind, c + 17);
      SCOPED_TRACE(kernels[c].step.variants[0]->schedule + " " + std::to_string(kind));
      EXPECT_EQ(kernels[c].step.variants[0]->cluster > 1, cases[c].vocabulary > 4096);
      const auto expected = ir::evaluate_op(ir::get_op("SampleTokens"),
                                            {{"likeliest", ir::Attr(kLikeliest)}}, inputs);
      plan::fb::PlanT plan;
      tables[c].write(plan);
      Memory memory(10);
      for (std::size_t i = 0; i < inputs.size(); ++i)
        memory[i].assign(inputs[i].bytes().begin(), inputs[i].bytes().end());
      for (std::size_t i = 0; i < expected.size(); ++i)
        memory[inputs.size() + i].assign(expected[i].bytes().size(), std::byte{0xa5});
      library.run(kernels[c].step, 0,
                  plan::evaluate_expressions(plan, std::vector<std::int64_t>{rows}), memory);
      const auto* tokens = reinterpret_cast<const std::int32_t*>(memory[7].data());
      for (std::int64_t i = 0; i < rows; ++i) {
        EXPECT_EQ(tokens[i], expected[0].at_int(i)) << "row " << i;
        drawn += tokens[i] > 0 ? 1 : 0;
      }
      if (cases[c].tells) expect_logprobs(memory, expected);
    }
  EXPECT_GT(drawn, 200);
}

TEST(Sampling, NanIsNoToken) {
  auto inputs = sampling_operands(DType::kFloat32, 40, 0, 1);
  std::vector<double> values = inputs[0].to_doubles();
  values[40 * 4 + 39] = NAN;
  inputs[0] = ir::Tensor::from_doubles(DType::kFloat32, inputs[0].shape(), values);
  const ir::Tensor tokens = ir::evaluate_op(ir::get_op("SampleTokens"), {}, inputs)[0];
  EXPECT_EQ(tokens.at_int(4), 40);
  EXPECT_LT(tokens.at_int(5), 40);
}

}  // namespace
}  // namespace sinter::test
#endif
