// SPDX-License-Identifier: Apache-2.0
// Rows of codes as nodes of a graph: 8-bit rows with a scale each, a storage format of key and
// value caches, whose only definition this is (passes write it and kernels read it); and rows
// gathered from scaled matrices.
#pragma once

#include <optional>

#include "ir/attributes.h"
#include "ir/graph.h"
#include "ir/scale_format.h"

namespace sinter::ir {

/// Type of scales.
inline constexpr DType kRowScaleType = DType::kFloat32;

/// 8-bit element types.
constexpr bool is_scaled_row_type(DType type) {
  return type == DType::kInt8 || type == DType::kFloat8E4M3FN;
}

/// An element x of a row of `values` [.., n, d] represents x * scale, with the row's scale in
/// `scales` [.., n, 1]. A row needs d + 4 bytes.
struct ScaledRows {
  ValueId values, scales;
};

/// `x`, of any float type, as rows of `type`. A row's least scale is its largest magnitude over the
/// type's largest number (448 for f8e4m3fn, 127 for i8), at least 2^-100. That is the scale for i8.
/// For f8e4m3fn the magnitude maps to one of the eight largest numbers (448 to 240): the one with
/// the least squared error, on ties the largest. Elements are x / scale, rounded to nearest even. A
/// row with a NaN is NaN.
ScaledRows add_scaled_rows(GraphBuilder& builder, ValueId x, DType type);

/// `graph` with its only output the rows, in `type`, from which add_scaled_rows() computed `rows`,
/// two of its values. Nothing if `rows` have another origin.
std::optional<Graph> rows_before_rounding(const Graph& graph, const ScaledRows& rows, DType type);
/// The same for a graph whose only outputs, in either order, are the rows and their scales, or the
/// results of Scatters of these.
std::optional<Graph> rows_before_rounding(const Graph& graph, DType type);

/// The dequantized rows, rounded to `type`.
ValueId add_dequantized_rows(GraphBuilder& builder, const ScaledRows& rows, DType type);

/// The numbers, f32 [.., k], that `rows` of codes as a ScaleFormat stores them stand for.
ValueId add_numbers(GraphBuilder& builder, const CodeType& codes, ValueId rows, std::int64_t k);

/// The rows of `weights` that `indices` [..] name, dequantized in f32 and rounded to `type`: [..,
/// k]. Throws Error(kUnsupported) for groups that k is no multiple of, or that rows share.
ValueId add_gathered(GraphBuilder& builder, const ScaledTensor& weights, ValueId indices,
                     DType type);

/// Attribute of a MatMul with scaled weights. 1: targets may round rows of x to 8 bits by blocks
/// (ONNX Runtime's accuracy level 4).
inline constexpr const char* kMayRound = "may_round";

inline bool may_round(const Attrs& attrs) {
  return attrs.has(kMayRound) && attrs.get_int(kMayRound) != 0;
}

}  // namespace sinter::ir
