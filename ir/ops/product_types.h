// SPDX-License-Identifier: Apache-2.0
// Element types of matmuls.
#pragma once

#include <optional>

#include <sinter/dtype.h>

namespace sinter::ir {

/// 8-bit integers, signed or not.
constexpr bool is_eight_bit_integer(DType type) {
  return type == DType::kInt8 || type == DType::kUInt8;
}

/// 8-bit floats that GPUs multiply.
constexpr bool is_multiplied_float8(DType type) {
  return type == DType::kFloat8E4M3FN || type == DType::kFloat8E5M2;
}

/// The result type of a matmul or convolution of `a` and `b`. 8-bit operands give the accumulators,
/// which are wider: i32 for integers of any signedness, f32 for floats of either format. Other
/// operands share their type with the result. Nothing if unsupported.
constexpr std::optional<DType> product_type(DType a, DType b) {
  if (is_eight_bit_integer(a) && is_eight_bit_integer(b)) return DType::kInt32;
  if (is_multiplied_float8(a) && is_multiplied_float8(b)) return DType::kFloat32;
  if (a != b || a == DType::kBool || is_float8(a)) return std::nullopt;
  return a;
}

}  // namespace sinter::ir
