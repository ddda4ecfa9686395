// Element types of products.
#pragma once

#include <optional>

#include <sinter/dtype.h>

namespace sinter::ir {

/// Integers of 8 bits, signed or not.
constexpr bool is_eight_bit_integer(DType type) {
  return type == DType::kInt8 || type == DType::kUInt8;
}

/// Floats of 8 bits of which there are products: those that GPUs multiply.
constexpr bool is_multiplied_float8(DType type) {
  return type == DType::kFloat8E4M3FN || type == DType::kFloat8E5M2;
}

/// The element type of the product of matrices of `a` and `b`, or of such a convolution. Operands
/// of 8 bits give the sums themselves, which are wider: i32 of integers, whose signs may differ,
/// f32 of floats, whose formats may. Others share their type with the result. Nothing if there is
/// no such product.
constexpr std::optional<DType> product_type(DType a, DType b) {
  if (is_eight_bit_integer(a) && is_eight_bit_integer(b)) return DType::kInt32;
  if (is_multiplied_float8(a) && is_multiplied_float8(b)) return DType::kFloat32;
  if (a != b || a == DType::kBool || is_float8(a)) return std::nullopt;
  return a;
}

}  // namespace sinter::ir
