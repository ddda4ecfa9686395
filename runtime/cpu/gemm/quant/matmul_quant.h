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
#include "runtime/cpu/gemm/quant/rounded_memory.h"
#include "runtime/cpu/ops/quant_ops.h"
#include "runtime/executor.h"
#include "runtime/plan/panels/quant_panels.h"
#include "runtime/plan/plan_data.h"

namespace sinter::runtime::cpu {

/// A matmul with quantized weights for one bound shape. For few rows of x, dequantizes while
/// reading, at memory speed. For more, dequantizes blocks of weights into the cache and reuses them
/// for all rows. Rows that the plan rounds are multiplied in integers.
class MatmulQuant {
 public:
  /// `plan` and `shape` must have been verified; the step must have a quantization. Weights
  /// in panels are read where the plan has them; others are packed into `weights`, scales as
  /// float32.
  MatmulQuant(const plan::PlanData& plan, const plan::fb::MatmulStepT& step,
              const BoundShape& shape, PackedWeights& weights, int threads);

  /// Bytes for each thread, 64-byte aligned.
  std::size_t workspace_bytes() const {
    return rounded_.bytes() + workspace_floats_ * sizeof(float);
  }
  /// `buffers` holds the address of each of plan.buffers.
  void run(std::span<std::byte* const> buffers, std::span<std::byte* const> workspaces) const;

 private:
  struct Operand {
    std::uint32_t buffer = 0;
    DType dtype = DType::kFloat32;
    std::int64_t step = 1;           // column stride in elements
    std::vector<std::int64_t> rows;  // offset of each row, over all batches
  };
  class Worker;

  /// True if rows are read in place.
  static bool takes_floats(const Operand& operand) {
    return operand.dtype == DType::kFloat32 && operand.step == 1;
  }

  Operand operand(const plan::fb::MatrixT& matrix, std::span<const std::int64_t> values) const;
  void round_rows(std::span<std::byte* const> buffers,
                  std::span<std::byte* const> workspaces) const;
  void take(const plan::PlanData& plan, const plan::fb::MatmulStepT& step);
  void pack(const plan::PlanData& plan, const plan::fb::MatmulStepT& step, PackedWeights& weights);
  QuantPanels panels(std::span<std::byte* const> buffers) const;

  std::vector<std::int64_t> batch_;
  std::int64_t m_ = 0, n_ = 0, k_ = 0, rows_ = 0;
  Operand a_, d_, residual_;
  bool has_residual_ = false;
  std::int64_t bias_ = -1;
  float alpha_ = 1;
  plan::fb::Activation activation_ = plan::fb::Activation::None;
  /// Buffers of the plan; -1: none, or packed here.
  struct InPlan {
    std::int64_t values = -1, scales = -1, zeros = -1, offsets = -1;
    bool scales_are_halves = false, offsets_are_halves = false, zeros_are_floats = false;
  };
  QuantPanels weights_;  // without the addresses of weights in the plan
  InPlan in_plan_;
  QuantWeights packed_;    // what is packed here
  RoundedMemory rounded_;  // in front of the first thread's floats
  int threads_ = 1;
  std::size_t workspace_floats_ = 0;
};

}  // namespace sinter::runtime::cpu
