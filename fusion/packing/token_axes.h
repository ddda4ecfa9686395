// Which dimensions of a value are the batch and the sequence of a padded batch, and what a node is
// once its sequences lie end to end.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "fusion/context.h"

namespace sinter::fusion {

/// The sizes of a padded batch [batch, sequence], and what it has packed: `tokens` rows.
struct TokenDims {
  Dim batch, sequence, tokens;
};

/// Dimensions of a value. One that several dimensions are merged into begins with the batch;
/// `merged` is what stands behind it there. If both are one dimension, it is batch * sequence.
/// -1: a dimension in front of those that an operand of a broadcast has.
struct TokenAxes {
  int batch = 0, sequence = 1;
  Dim merged = 1;

  bool is_flat() const { return batch == sequence; }
  friend bool operator==(const TokenAxes&, const TokenAxes&) = default;
};

inline std::size_t dimension(int axis) { return static_cast<std::size_t>(axis); }

/// Of a packed value: `shape` without the batch, and `tokens` in place of the sequence. Of
/// dimensions that broadcast, the sequence's stays one.
Shape packed_shape(const Shape& shape, const TokenAxes& axes, const TokenDims& dims);
/// Where dimension `d`, not the batch's own, stands in it.
std::int64_t packed_axis(const TokenAxes& axes, std::int64_t d);

/// The axes that `operand` of a pointwise operator has whose result of rank `rank` has `axes`.
TokenAxes aligned(const TokenAxes& axes, std::size_t rank, std::size_t operand_rank);

/// What the operands of `node` have to be for its result to be one with `axes` which is computed
/// token by token: for each operand its axes, or nothing where it is the same for all tokens.
/// Nothing if the node mixes tokens, or is not known not to.
using OperandAxes = std::vector<std::optional<TokenAxes>>;
std::optional<OperandAxes> operand_axes(const Graph& graph, const Node& node, const TokenAxes& axes,
                                        const TokenDims& dims);

/// The axes that the result of `node` has, if operand number `operand` has `axes` and the node is
/// computed token by token.
std::optional<TokenAxes> result_axes(const Graph& graph, const Node& node, std::size_t operand,
                                     const TokenAxes& axes, const TokenDims& dims);

/// `node`, whose result has `axes`, of packed operands.
ValueId add_packed(GraphBuilder& builder, const Graph& graph, const Node& node,
                   const TokenAxes& axes, std::span<const ValueId> operands, const TokenDims& dims);

}  // namespace sinter::fusion
