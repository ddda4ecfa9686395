// SPDX-License-Identifier: Apache-2.0
// Finds the batch and sequence dimensions of values in a padded batch, and converts nodes to packed
// sequences.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "fusion/context.h"

namespace sinter::fusion {

/// The sizes of a padded batch [batch, sequence], and its packed size of `tokens` rows.
struct TokenDims {
  Dim batch, sequence, tokens;
};

/// Dimensions of a value. A dimension into which several are merged starts with the batch; `merged`
/// is the product of the others. If batch and sequence are one dimension, it is batch * sequence.
/// -1: a dimension that a broadcast operand lacks.
struct TokenAxes {
  int batch = 0, sequence = 1;
  Dim merged = 1;

  bool is_flat() const { return batch == sequence; }
  friend bool operator==(const TokenAxes&, const TokenAxes&) = default;
};

inline std::size_t dimension(int axis) { return static_cast<std::size_t>(axis); }

/// Shape of the packed value: without the batch, and with `tokens` instead of the sequence. A
/// broadcast sequence dimension stays 1.
Shape packed_shape(const Shape& shape, const TokenAxes& axes, const TokenDims& dims);
/// Index in it of dimension `d`, which is not only the batch.
std::int64_t packed_axis(const TokenAxes& axes, std::int64_t d);

/// The axes of `operand` of a pointwise operator whose result, of rank `rank`, has `axes`.
TokenAxes aligned(const TokenAxes& axes, std::size_t rank, std::size_t operand_rank);

/// The axes that each operand of `node` must have for a result with `axes` computed token by token;
/// an operand without axes is the same for all tokens. Nothing if the node mixes tokens, or is
/// unknown.
using OperandAxes = std::vector<std::optional<TokenAxes>>;
std::optional<OperandAxes> operand_axes(const Graph& graph, const Node& node, const TokenAxes& axes,
                                        const TokenDims& dims);

/// The axes of the result of `node` if operand `operand` has `axes` and the node is computed token
/// by token.
std::optional<TokenAxes> result_axes(const Graph& graph, const Node& node, std::size_t operand,
                                     const TokenAxes& axes, const TokenDims& dims);

/// `node`, whose result has `axes`, on packed operands.
ValueId add_packed(GraphBuilder& builder, const Graph& graph, const Node& node,
                   const TokenAxes& axes, std::span<const ValueId> operands, const TokenDims& dims);

}  // namespace sinter::fusion
