// SPDX-License-Identifier: Apache-2.0
// Matrix products of the types that oneDNN does not multiply (float64, integers of more than 8
// bits), of more dimensions than it takes, and of empty sizes: correct, not fast.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "runtime/executor.h"
#include "runtime/plan/plan_data.h"

namespace sinter::runtime::cpu {

class MatmulGeneric {
 public:
  /// Throws Error(kUnsupported) for operands of different classes of type.
  MatmulGeneric(const plan::PlanData& plan, const plan::fb::MatmulStepT& step,
                const BoundShape& shape);
  void execute(std::span<std::byte* const> buffers);

 private:
  struct Operand {
    std::uint32_t buffer = 0;
    DType dtype = DType::kFloat32;
    std::int64_t offset = 0, row_stride = 0, col_stride = 0;
    std::vector<std::int64_t> batch_strides;
    std::int64_t start(std::span<const std::int64_t> index) const;
  };
  /// Operands of one matrix of the batch, and a row of the result; kept from run to run.
  template <typename Accumulator>
  struct Scratch {
    std::vector<Accumulator> a, b, row;
  };
  template <typename Accumulator>
  void run(std::span<std::byte* const> buffers, Scratch<Accumulator>& scratch);

  std::int64_t m_ = 0, n_ = 0, k_ = 0, batches_ = 1;
  std::vector<std::int64_t> batch_;
  Operand a_, b_, d_, residual_;
  bool has_residual_ = false;
  std::int64_t bias_ = -1;
  double alpha_ = 1;
  plan::fb::Activation activation_ = plan::fb::Activation::None;
  std::vector<std::int64_t> index_;  // of the matrix in the batch
  Scratch<double> floats_;
  Scratch<std::uint64_t> integers_;
};

}  // namespace sinter::runtime::cpu
