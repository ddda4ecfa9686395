// SPDX-License-Identifier: Apache-2.0
// Dense copies of GEMM operands.
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

/// Copies an operand to dense lines along its dimension of smaller stride, in its own type or
/// widened to float32. A matrix that repeats in a batch is copied once.
class OperandLines {
 public:
  OperandLines(const GemmOperand& operand, const std::vector<std::int64_t>& batch,
               std::int64_t rows, std::int64_t columns, DType copied_as);

  /// The copy as an operand in buffer `buffer`.
  GemmOperand dense(std::uint32_t buffer) const;
  std::size_t bytes() const;
  /// A key, equal for operands of one buffer with equal copies.
  std::string layout() const;

  /// Allocates the copy, which copy() writes and copy_back() reads.
  void reserve();
  std::byte* data() const { return copy_.data(); }
  std::uint64_t own_bytes() const { return copy_.capacity(); }
  void copy(std::span<std::byte* const> buffers, int threads);
  void copy_back(std::span<std::byte* const> buffers, int threads);
  /// Copies all lines of the buffer at `base`, in the calling thread.
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
  std::vector<std::int64_t> starts_;  // offset of each matrix, in elements
  std::int64_t lines_ = 0, length_ = 0, pitch_ = 0, step_ = 1;  // of a matrix
  HostBuffer copy_;
};

/// The copy of the weight buffer at `data`; one for a plan.
std::shared_ptr<const PackedWeights::Entry> copied_weight(OperandLines lines, const std::byte* data,
                                                          PackedWeights& weights);

/// Operands that oneDNN does not accept in place (see is_taken), copied densely before each matmul.
/// Copies get buffer numbers after the plan's.
class CopiedOperands {
 public:
  /// `plan_buffers`: number of the plan's buffers.
  CopiedOperands(Product& product, std::size_t plan_buffers, PackedWeights& weights);

  bool none() const { return addresses_.empty(); }
  std::uint64_t own_bytes() const;
  /// Makes the copies and returns the addresses of all buffers of the matmul.
  std::span<std::byte* const> copy(std::span<std::byte* const> buffers, int threads);

 private:
  std::vector<OperandLines> lines_;
  std::shared_ptr<const PackedWeights::Entry> weight_;
  std::size_t plan_buffers_;
  std::vector<std::uint32_t> kept_;  // plan buffers that are read or written in place
  std::vector<std::byte*> addresses_;
};

}  // namespace sinter::runtime::cpu
