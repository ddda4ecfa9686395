// SPDX-License-Identifier: Apache-2.0
// Dense copies of operands of products.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/cpu/gemm/gemm_dnnl.h"
#include "runtime/cpu/host_buffer.h"

namespace sinter::runtime::cpu {

/// An operand as lines along the dimension of the lesser stride, and their copies, one after the
/// other: in the operand's own type, or as float32 of a float type of up to 32 bits. A matrix that
/// a batch repeats is copied once.
class OperandLines {
 public:
  OperandLines(const GemmOperand& operand, const std::vector<std::int64_t>& batch,
               std::int64_t rows, std::int64_t columns, DType copied_as);

  /// The copy, as buffer `buffer`.
  GemmOperand dense(std::uint32_t buffer) const;
  std::size_t bytes() const;
  /// Equal for operands of one buffer whose copies are equal.
  std::string layout() const;

  /// Memory for the copy, that copy() writes and copy_back() reads.
  void reserve();
  std::byte* data() const { return copy_.data(); }
  std::uint64_t own_bytes() const { return copy_.capacity(); }
  void copy(std::span<std::byte* const> buffers, int threads);
  void copy_back(std::span<std::byte* const> buffers, int threads);
  /// All lines of the buffer that begins at `base`, by the calling thread.
  void copy_from(const std::byte* base, std::byte* to) const;
  std::uint32_t buffer() const { return operand_.buffer; }

 private:
  struct Line {
    std::int64_t begin;      // in the buffer, bytes
    std::size_t copy_begin;  // in the copy
  };
  Line line(std::int64_t index) const;
  std::int64_t count() const;
  void copy_line(const Line& at, const std::byte* base, std::byte* to) const;
  template <typename Move>
  void each_line(int threads, const Move& move) const;

  GemmOperand operand_;
  std::vector<std::int64_t> batch_;
  DType copied_as_;
  bool by_rows_;
  std::vector<std::int64_t> starts_;                            // of each matrix, in elements
  std::int64_t lines_ = 0, length_ = 0, pitch_ = 0, step_ = 1;  // of a matrix
  HostBuffer copy_;
};

/// The copy of a weight, whose buffer lies at `data`: one for a plan.
std::shared_ptr<const PackedWeights::Entry> copied_weight(OperandLines lines, const std::byte* data,
                                                          PackedWeights& weights);

/// Operands that oneDNN does not take as they lie (see is_taken), copied densely in front of each
/// product. Copies are buffers behind the plan's.
class CopiedOperands {
 public:
  /// `plan_buffers`: how many there are.
  CopiedOperands(Product& product, std::size_t plan_buffers, PackedWeights& weights);

  bool none() const { return addresses_.empty(); }
  std::uint64_t own_bytes() const;
  /// The addresses of all buffers that the product has.
  std::span<std::byte* const> copy(std::span<std::byte* const> buffers, int threads);

 private:
  std::vector<OperandLines> lines_;
  std::shared_ptr<const PackedWeights::Entry> weight_;
  std::size_t plan_buffers_;
  std::vector<std::uint32_t> kept_;  // buffers of the plan that are read or written as they lie
  std::vector<std::byte*> addresses_;
};

}  // namespace sinter::runtime::cpu
