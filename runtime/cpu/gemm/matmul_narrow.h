// SPDX-License-Identifier: Apache-2.0
// Products of integers of 8 bits on CPUs on which oneDNN's are not exact.
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
  /// d = a b, of i8 or u8 into i32, with nothing behind it; nothing is empty.
  MatmulNarrow(const Product& product, const plan::PlanData& plan, const BoundShape& shape,
               PackedWeights& weights, int threads);

  /// Bytes that each thread needs.
  std::size_t workspace_bytes() const { return NarrowPanels::workspace_bytes(); }
  void execute(std::span<std::byte* const> buffers, std::span<std::byte* const> workspaces);

 private:
  struct Matrix {
    std::int64_t a, b, d;  // where a and d begin; which of the panels' matrices
  };
  std::vector<Matrix> batch_;
  GemmOperand a_, d_;
  NarrowPanels panels_;
  NarrowParts parts_;
  int threads_;
};

}  // namespace sinter::runtime::cpu
