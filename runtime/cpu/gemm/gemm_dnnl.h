// SPDX-License-Identifier: Apache-2.0
// One product of float32, bfloat16 or integers of 8 bits, divided into parts that are primitives of
// their own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <dnnl.hpp>
#include <optional>
#include <vector>

#include "runtime/cpu/gemm/dnnl/packed_weights.h"
#include "runtime/cpu/gemm/dnnl/primitive_parts.h"
#include "runtime/plan/plan_data.h"

namespace sinter::runtime::cpu {

/// An operand [batch.., rows, columns]: elements from the start of a plan buffer. A stride of zero
/// repeats a matrix.
struct GemmOperand {
  std::uint32_t buffer = 0;
  std::int64_t offset = 0;
  std::vector<std::int64_t> batch_strides;
  std::int64_t row_stride = 0, column_stride = 0;
  DType type = DType::kFloat32;
};

/// d = activation(alpha * a b + bias + residual), for each of a batch, where a and b are of one
/// type, and bias and residual of d's: float32, or bfloat16 multiplied and summed up in float32 and
/// d rounded once. Of integers d = a b.
struct Product {
  std::vector<std::int64_t> batch;
  std::int64_t m = 0, n = 0, k = 0;
  GemmOperand a, b, d;
  std::optional<GemmOperand> residual;
  std::optional<std::uint32_t> bias;    // plan buffer of n elements
  const std::byte* b_weight = nullptr;  // where buffer b lies, if it is a weight
  float alpha = 1;
  plan::fb::Activation activation = plan::fb::Activation::None;
  float activation_a = 0, activation_b = 0;
};

/// True if oneDNN takes an operand of such sizes as it lies: sorted by stride, each dimension
/// begins where the one before it ends, or behind. Views with steps and diagonals may be otherwise.
bool is_taken(const GemmOperand& operand, const std::vector<std::int64_t>& batch, std::int64_t rows,
              std::int64_t columns);

/// The parts of a product in which nothing is empty and all operands are taken, weights packed for
/// them. How it is divided follows from its sizes alone.
PrimitiveParts divide_product(Product product, PackedWeights& weights, int threads);

}  // namespace sinter::runtime::cpu
