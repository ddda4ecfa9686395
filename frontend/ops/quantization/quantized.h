// SPDX-License-Identifier: Apache-2.0
// Arithmetic on quantized values, which represent (value - zero point) * scale.
#pragma once

#include <optional>

#include "frontend/ops/term.h"

namespace sinter::frontend {

Term as_float(NodeContext& node, ValueId value);
/// Input `i`, called `what` in errors, as a scalar; it must have one element.
Term one_number(NodeContext& node, std::size_t i, const char* what);
std::optional<ValueId> optional_input(NodeContext& node, std::size_t i);
/// Throws Error(kUnsupported) unless `dtype` is an integer.
void require_integer(NodeContext& node, DType dtype, const char* what);
/// Throws Error unless input `i`, a zero point of 8-bit floats, is missing or zeros.
void require_zeros(NodeContext& node, std::size_t i, const char* what);

/// value - zero point, exact in int32.
Term difference(NodeContext& node, ValueId value, std::optional<ValueId> zero);

/// round(x / scale) + zero point; float32 operands that broadcast.
Term rounded(const Term& x, const Term& scale, const Term& zero);
/// The same converted to `to`: integers saturate.
Term quantized(const Term& x, const Term& scale, const Term& zero, DType to);

/// A parameter of the left (right) matrix of a matmul: a scalar, one value per row (column), or of
/// the matrix's rank.
ValueId matrix_parameter(NodeContext& node, ValueId parameter, bool left);

/// (a - zero point) (b - zero point) in int32.
Term integer_product(NodeContext& node, ValueId a, std::optional<ValueId> a_zero, ValueId b,
                     std::optional<ValueId> b_zero);

}  // namespace sinter::frontend
