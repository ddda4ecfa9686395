// SPDX-License-Identifier: Apache-2.0
// Matmuls of 8-bit integers for CPUs on which oneDNN's are not exact.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/cpu/gemm/gemm_dnnl.h"
#include "runtime/cpu/gemm/narrow_panels.h"

namespace sinter::runtime::cpu {

class MatmulNarrow {
 public:
  /// d = a b of i8 or u8 into i32, without an epilogue. Requires no empty dimension.
  MatmulNarrow(const Product& product, const plan::PlanData& plan, const BoundShape& shape,
               PackedWeights& weights, int threads);

  /// Bytes for each thread.
  std::size_t workspace_bytes() const { return NarrowPanels::workspace_bytes(); }
  void execute(std::span<std::byte* const> buffers, std::span<std::byte* const> workspaces);

 private:
  struct Matrix {
    std::int64_t a, b, d;  // offsets of a and d; index of the packed matrix b
  };
  std::vector<Matrix> batch_;
  GemmOperand a_, d_;
  NarrowPanels panels_;
  NarrowParts parts_;
  int threads_;
};

}  // namespace sinter::runtime::cpu
