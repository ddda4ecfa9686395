// Products of 16-bit floats on CPUs without instructions for them: float32 copies of the operands
// are multiplied, and the result is rounded once.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "runtime/cpu/gemm/gemm_dnnl.h"
#include "runtime/cpu/host_buffer.h"

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

  /// Lines of an operand, which lie in a plan buffer, and where their dense copies go.
  struct Lines {
    DType type = DType::kFloat32;
    std::uint32_t buffer = 0;
    std::vector<std::int64_t> starts;                         // of each matrix, in elements
    std::int64_t count = 0, length = 0, pitch = 0, step = 1;  // of a matrix
    HostBuffer copy;
    std::int64_t elements() const { return std::ssize(starts) * count * length; }
  };
  static Lines lines_of(const GemmOperand& operand, const std::vector<std::int64_t>& batch,
                        std::int64_t rows, std::int64_t columns);
  /// The operand as its dense copy, which is buffer `role` of the product that is executed.
  static GemmOperand dense(const GemmOperand& operand, const std::vector<std::int64_t>& batch,
                           const Lines& lines, Role role);
  static void convert_line(const Lines& lines, std::byte* base, float* copy, std::int64_t line,
                           bool widens);
  void convert(Lines& lines, std::span<std::byte* const> buffers, bool widens);

  std::array<std::optional<Lines>, kRoles> lines_;
  std::shared_ptr<const PackedWeights::Entry> weight_;
  std::array<std::byte*, kRoles> copies_{};
  std::optional<PrimitiveParts> parts_;
  int threads_;
};

}  // namespace sinter::runtime::cpu
