// SPDX-License-Identifier: Apache-2.0
// A token for each row of logits, and log probabilities.
#pragma once

#include <cstddef>
#include <span>

#include "runtime/executor.h"
#include "runtime/plan/plan_data.h"

namespace sinter::runtime::cpu {

/// A SamplingStep of one bound shape. A thread does whole rows. Greedy draws allocate nothing.
class Sampling {
 public:
  Sampling(const plan::fb::PlanT& plan, const plan::fb::SamplingStepT& step,
           const BoundShape& shape, int threads);

  /// Bytes that each thread needs, 64-byte aligned: a row as floats.
  std::size_t workspace_bytes() const;
  void run(std::span<std::byte* const> buffers, std::span<std::byte* const> workspaces) const;

 private:
  void draw_row(std::span<std::byte* const> buffers, std::int64_t row, std::byte* workspace) const;

  plan::fb::SamplingStepT step_;  // its buffers
  DType dtype_ = DType::kFloat32;
  std::int64_t rows_ = 0, vocabulary_ = 0, sets_ = 0, biases_ = 0;
  int threads_ = 1;
};

/// A LogprobsStep of one bound shape. A thread does whole rows; rows that want nothing cost
/// nothing.
class Logprobs {
 public:
  Logprobs(const plan::fb::PlanT& plan, const plan::fb::LogprobsStepT& step,
           const BoundShape& shape, int threads);

  /// As Sampling's.
  std::size_t workspace_bytes() const;
  void run(std::span<std::byte* const> buffers, std::span<std::byte* const> workspaces) const;

 private:
  void tell_row(std::span<std::byte* const> buffers, std::int64_t row, std::byte* workspace) const;

  plan::fb::LogprobsStepT step_;  // its buffers
  DType dtype_ = DType::kFloat32;
  std::int64_t rows_ = 0, vocabulary_ = 0;
  int threads_ = 1;
};

}  // namespace sinter::runtime::cpu
