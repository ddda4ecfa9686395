// Rows of 8 bits with a scale each, as caches of keys and values may be stored: the one definition
// of the format, which passes write and kernels read.
#pragma once

#include <optional>

#include "ir/graph.h"

namespace sinter::ir {

/// What scales are stored in.
inline constexpr DType kRowScaleType = DType::kFloat32;

/// Types of 8 bits that elements may have.
constexpr bool is_scaled_row_type(DType type) {
  return type == DType::kInt8 || type == DType::kFloat8E4M3FN;
}

/// Elements x of a row of `values` [.., n, d] stand for x * scale, the row's of `scales` [.., n,
/// 1]. So a row needs d bytes and 4.
struct ScaledRows {
  ValueId values, scales;
};

/// `x`, of any float, in rows of `type`. A row's least scale is its largest magnitude over the
/// largest number of the type (448 of f8e4m3fn, 127 of i8), and 2^-100 at least. That is the scale
/// of i8. Of f8e4m3fn the magnitude becomes one of the eight largest numbers (448 to 240): the one
/// that leaves the least sum of squared errors, the largest of equal ones. Elements are x / scale,
/// rounded to nearest even. A row with a NaN is NaN.
ScaledRows add_scaled_rows(GraphBuilder& builder, ValueId x, DType type);

/// `graph` with the rows of which add_scaled_rows() made `rows`, two of its values, as its only
/// output, in `type`. Nothing if `rows` are made otherwise.
std::optional<Graph> rows_before_rounding(const Graph& graph, const ScaledRows& rows, DType type);
/// The same of a graph whose only outputs, in either order, are the rows and their scales, or what
/// Scatters put these into.
std::optional<Graph> rows_before_rounding(const Graph& graph, DType type);

/// What they stand for, rounded to `type`.
ValueId add_dequantized_rows(GraphBuilder& builder, const ScaledRows& rows, DType type);

}  // namespace sinter::ir
