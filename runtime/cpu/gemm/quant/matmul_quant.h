// SPDX-License-Identifier: Apache-2.0
// Matmuls with quantized weights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "runtime/cpu/gemm/matmul_dnnl.h"
#include "runtime/cpu/gemm/quant/quant_weights.h"
#include "runtime/executor.h"
#include "runtime/plan/plan_data.h"

namespace sinter::runtime::cpu {

/// A matmul with quantized weights for one bound shape.
class MatmulQuant {
 public:
  /// `plan` and `shape` must have been verified; the step must have a quantization.
  MatmulQuant(const plan::PlanData& plan, const plan::fb::MatmulStepT& step,
              const BoundShape& shape, PackedWeights& weights, int threads);

  /// Bytes for each thread, 64-byte aligned.
  std::size_t workspace_bytes() const { return workspace_floats_ * sizeof(float); }
  /// `buffers` holds the address of each of plan.buffers.
  void run(std::span<std::byte* const> buffers, std::span<std::byte* const> workspaces) const;

 private:
  struct Operand {
    std::uint32_t buffer = 0;
    DType dtype = DType::kFloat32;
    std::int64_t step = 1;           // column stride in elements
    std::vector<std::int64_t> rows;  // offset of each row, over all batches
  };
  class Rows;

  /// True if rows are read in place.
  static bool takes_floats(const Operand& operand) {
    return operand.dtype == DType::kFloat32 && operand.step == 1;
  }

  Operand operand(const plan::fb::MatrixT& matrix, std::span<const std::int64_t> values) const;

  std::vector<std::int64_t> batch_;
  std::int64_t m_ = 0, n_ = 0, k_ = 0, rows_ = 0;
  Operand a_, d_, residual_;
  bool has_residual_ = false;
  std::int64_t bias_ = -1;
  float alpha_ = 1;
  plan::fb::Activation activation_ = plan::fb::Activation::None;
  QuantWeights weights_;
  int threads_ = 1;
  std::size_t workspace_floats_ = 0;
};

}  // namespace sinter::runtime::cpu
