// SPDX-License-Identifier: Apache-2.0
// Matmuls that oneDNN does not support: float64, integers of more than 8 bits, too many dimensions,
// empty sizes. Operands are packed into panels that threads share; each thread multiplies a part of
// the rows by a part of the panels.
#pragma once

#include <cstddef>
#include <span>
#include <variant>
#include <vector>

#include "runtime/executor.h"
#include "runtime/plan/plan_data.h"

namespace sinter::runtime::cpu {

class MatmulGeneric {
 public:
  /// Throws Error(kUnsupported) for a mix of float and integer operands.
  MatmulGeneric(const plan::PlanData& plan, const plan::fb::MatmulStepT& step,
                const BoundShape& shape, int threads);
  /// Bytes of copied operands.
  std::uint64_t own_bytes() const;
  void execute(std::span<std::byte* const> buffers);

 private:
  struct Operand {
    std::uint32_t buffer = 0;
    DType dtype = DType::kFloat32;
    std::int64_t offset = 0, row_stride = 0, col_stride = 0;
    std::vector<std::int64_t> batch_strides;
    /// The first element of the batch's matrix at `index`.
    std::byte* at(std::span<std::byte* const> buffers, std::span<const std::int64_t> index) const;
  };
  /// Scratch memory for one matrix of the batch, of one thread or shared.
  template <typename T>
  struct Scratch {
    std::vector<T> panels;            // of b
    std::vector<T> rows, sums;        // a block of rows of a, and their sums with a panel
    std::vector<std::int64_t> index;  // of the matrix in the batch
  };
  template <typename T>
  using Scratches = std::vector<Scratch<T>>;  // one for each thread
  struct Block {
    std::int64_t row = 0, rows = 0, panel = 0, panels = 0;
  };

  void find_index(std::int64_t batch, std::vector<std::int64_t>& index) const;
  template <typename T>
  void run(std::span<std::byte* const> buffers, Scratches<T>& scratches) const;
  template <typename T>
  void pack(const std::byte* b, std::int64_t panel, std::int64_t panels, T* to) const;
  template <typename T>
  void multiply(std::span<std::byte* const> buffers, std::span<const std::int64_t> index,
                const Block& block, const T* panels, Scratch<T>& scratch) const;
  template <typename T>
  void finish(std::span<std::byte* const> buffers, std::span<const std::int64_t> index,
              const Block& block, const T* sums) const;

  std::int64_t m_ = 0, n_ = 0, k_ = 0, batches_ = 1;
  std::vector<std::int64_t> batch_;
  Operand a_, b_, d_, residual_;
  bool has_residual_ = false;
  std::int64_t bias_ = -1;
  double alpha_ = 1;
  plan::fb::Activation activation_ = plan::fb::Activation::None;
  bool batch_by_thread_ = false;  // each thread multiplies whole matrices of the batch
  int threads_ = 1;
  // Unsigned, so that integer products and sums wrap.
  std::variant<Scratches<double>, Scratches<std::uint32_t>, Scratches<std::uint64_t>> scratches_;
};

}  // namespace sinter::runtime::cpu
