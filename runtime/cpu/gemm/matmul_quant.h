// SPDX-License-Identifier: Apache-2.0
// Matrix products with quantized weights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "runtime/cpu/gemm/matmul_dnnl.h"
#include "runtime/cpu/ops/quant_ops.h"
#include "runtime/executor.h"
#include "runtime/plan/plan_data.h"

namespace sinter::runtime::cpu {

/// One product for one bound shape. Few rows of x are multiplied with the numbers as they are read,
/// at the speed of memory; for more, blocks of weights become floats that stay in a cache, while
/// they are multiplied with the first rows.
class MatmulQuant {
 public:
  /// `plan` and `shape` have been checked; the step has a quantization. `weights` gets the numbers,
  /// their scales as float32, their zero points and offsets in panels.
  MatmulQuant(const plan::PlanData& plan, const plan::fb::MatmulStepT& step,
              const BoundShape& shape, PackedWeights& weights, int threads);

  /// Bytes that each thread needs, 64-byte aligned.
  std::size_t workspace_bytes() const { return workspace_floats_ * sizeof(float); }
  /// `buffers` has the address of each of plan.buffers.
  void run(std::span<std::byte* const> buffers, std::span<std::byte* const> workspaces) const;

 private:
  struct Operand {
    std::uint32_t buffer = 0;
    DType dtype = DType::kFloat32;
    std::int64_t step = 1;           // elements from column to column
    std::vector<std::int64_t> rows;  // element that each row begins with, all batches
  };
  class Worker;

  /// True if rows are read where they lie.
  static bool takes_floats(const Operand& operand) {
    return operand.dtype == DType::kFloat32 && operand.step == 1;
  }

  Operand operand(const plan::fb::MatrixT& matrix, std::span<const std::int64_t> values) const;
  void pack(const plan::PlanData& plan, const plan::fb::MatmulStepT& step, const BoundShape& shape,
            PackedWeights& weights);

  std::vector<std::int64_t> batch_;
  std::int64_t m_ = 0, n_ = 0, k_ = 0, rows_ = 0;
  Operand a_, d_, residual_;
  bool has_residual_ = false;
  std::int64_t bias_ = -1;
  float alpha_ = 1;
  plan::fb::Activation activation_ = plan::fb::Activation::None;
  QuantPanels weights_;
  std::shared_ptr<const PackedWeights::Entry> values_, scales_, zeros_, offsets_;  // of these
  bool direct_ = false;
  int threads_ = 1;
  std::size_t workspace_floats_ = 0;
};

}  // namespace sinter::runtime::cpu
