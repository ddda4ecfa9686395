// SPDX-License-Identifier: Apache-2.0
// Products of 16-bit floats on CPUs without instructions for them: float32 copies of the operands
// are multiplied, and the result is rounded once.
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
  /// As Product says, with a, b and d of any floats of up to 32 bits; nothing is empty. A weight b
  /// is widened once for a plan.
  MatmulWidened(const Product& product, PackedWeights& weights, int threads);

  /// Bytes that each thread needs.
  std::size_t workspace_bytes() const { return parts_->workspace_bytes(); }
  /// Of the float32 copies, but for weights.
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
