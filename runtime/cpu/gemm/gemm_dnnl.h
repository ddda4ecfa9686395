// SPDX-License-Identifier: Apache-2.0
// A GEMM of float32, bfloat16 or 8-bit integers, divided into parts with a primitive each.
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

/// An operand [batch.., rows, columns]; offset and strides are elements from the start of a plan
/// buffer. Stride 0 repeats a matrix.
struct GemmOperand {
  std::uint32_t buffer = 0;
  std::int64_t offset = 0;
  std::vector<std::int64_t> batch_strides;
  std::int64_t row_stride = 0, column_stride = 0;
  DType type = DType::kFloat32;
};

/// A batched GEMM: d = activation(alpha * a b + bias + residual). Types: a and b have one type;
/// bias and residual have d's, which is float32, or bfloat16 accumulated in float32 and rounded
/// once. Integers have no epilogue.
struct Product {
  std::vector<std::int64_t> batch;
  std::int64_t m = 0, n = 0, k = 0;
  GemmOperand a, b, d;
  std::optional<GemmOperand> residual;
  std::optional<std::uint32_t> bias;    // plan buffer of n elements
  const std::byte* b_weight = nullptr;  // address of buffer b if it is a weight
  float alpha = 1;
  plan::fb::Activation activation = plan::fb::Activation::None;
  float activation_a = 0, activation_b = 0;
};

/// True if oneDNN accepts the operand's strides: sorted by stride, dimensions must not overlap.
/// Views with steps and diagonals may.
bool is_taken(const GemmOperand& operand, const std::vector<std::int64_t>& batch, std::int64_t rows,
              std::int64_t columns);

/// Divides a nonempty GEMM whose operands are all taken into parts, and packs the weights for them.
/// The division depends only on sizes.
PrimitiveParts divide_product(Product product, PackedWeights& weights, int threads);

}  // namespace sinter::runtime::cpu
