// Element types of products.
#pragma once

#include <optional>

#include <sinter/dtype.h>

namespace sinter::ir {

/// Integers of 8 bits, signed or not.
constexpr bool is_eight_bit_integer(DType type) {
  return type == DType::kInt8 || type == DType::kUInt8;
}

/// The element type of the product of matrices of `a` and `b`, or of such a convolution. Operands
/// of 8 bits give the sums themselves, which are wider: i32 of integers, whose signs may differ.
/// Others share their type with the result. Nothing if there is no such product.
constexpr std::optional<DType> product_type(DType a, DType b) {
  if (is_eight_bit_integer(a) && is_eight_bit_integer(b)) return DType::kInt32;
  if (a != b || a == DType::kBool) return std::nullopt;
  return a;
}

}  // namespace sinter::ir
