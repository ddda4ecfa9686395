// SPDX-License-Identifier: Apache-2.0
// Matmuls of 16-bit floats on CPUs without instructions for them: multiplies float32 copies of the
// operands and rounds the result once.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "runtime/cpu/gemm/gemm_dnnl.h"
#include "runtime/cpu/gemm/operand_lines.h"

namespace sinter::runtime::cpu {

class MatmulWidened {
 public:
  /// A Product whose a, b and d are floats of at most 32 bits, without empty dimensions. A weight b
  /// is widened once for a plan.
  MatmulWidened(const Product& product, PackedWeights& weights, int threads);

  /// Bytes for each thread.
  std::size_t workspace_bytes() const { return parts_->workspace_bytes(); }
  /// Bytes of float32 copies, without weights.
  std::uint64_t own_bytes() const;
  void execute(std::span<std::byte* const> buffers, std::span<std::byte* const> workspaces);

 private:
  enum Role : std::uint8_t { kA, kB, kD, kResidual, kBias, kRoles };

  std::array<std::optional<OperandLines>, kRoles> lines_;
  std::shared_ptr<const PackedWeights::Entry> weight_;
  std::array<std::byte*, kRoles> copies_{};
  std::optional<PrimitiveParts> parts_;
  int threads_;
};

}  // namespace sinter::runtime::cpu
