// SPDX-License-Identifier: Apache-2.0
// Operators that have a kernel in the runtime.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "runtime/cpu/gemm/dnnl/packed_weights.h"
#include "runtime/executor.h"
#include "runtime/operators/operator_kernel.h"

namespace sinter::runtime::cpu {

/// An OperatorStep for one bound shape.
class OperatorStep {
 public:
  /// `plan` must outlive the step. Throws the errors of OperatorKernel::prepare.
  OperatorStep(const plan::fb::PlanT& plan, const plan::fb::OperatorStepT& step,
               const BoundShape& shape, PackedWeights& weights, int threads,
               const RankPlace& ranks);

  const std::string& name() const { return step_->operator_name; }
  std::size_t workspace_bytes() const { return prepared_->workspace_bytes(); }
  void run(std::span<std::byte* const> buffers, std::span<std::byte* const> workspaces) const {
    prepared_->run({*step_, buffers}, workspaces);
  }
  std::string note(std::span<std::byte* const> buffers) const {
    return prepared_->note({*step_, buffers});
  }

 private:
  const plan::fb::OperatorStepT* step_;
  std::unique_ptr<PreparedOperator> prepared_;
};

}  // namespace sinter::runtime::cpu
