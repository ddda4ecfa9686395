// SPDX-License-Identifier: Apache-2.0
// Regions of kind "sampling": their buffers, and the kernel.
#pragma once

#include <cstdint>

#include "codegen/emit/kernel_request.h"
#include "codegen/plan/expr_table.h"

namespace sinter::codegen {

/// Logits and sampling parameters in buffers of the plan: see ir/ops/sampling.cpp.
struct SamplingProblem {
  std::uint32_t logits = 0, reals = 0, integers = 0, sets = 0, biased = 0, biases = 0, tokens = 0;
  /// Most tokens whose log probabilities are returned, besides the drawn one; 0: none at all.
  int most_likeliest = 0;
  std::uint32_t wanted = 0, likeliest = 0, logprobs = 0;
  DType dtype = DType::kFloat32;  // of logits
  std::int64_t vocabulary = 0;
  Dim rows, set_count, bias_count;
};

/// Uses the request's name, origins and device.
EmittedKernel emit_sampling(const SamplingProblem& problem, const KernelRequest& request,
                            ExprTable& exprs);

}  // namespace sinter::codegen
