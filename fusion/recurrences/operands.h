// SPDX-License-Identifier: Apache-2.0
// What updates a state for one token, as products of elements; the tokens of a chain of steps, as
// operands of LinearAttention.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "fusion/recurrences/terms.h"

namespace sinter::fusion {

/// Symbols of a state's dimensions; the constant 0 for one of size 1 or none.
struct StateIndex {
  Dim batch, head, key, value;
};

/// factor * the product of the elements, each of which has an index over a StateIndex.
struct StepOperand {
  double factor = 1;
  std::vector<ElementAt> factors;
};
/// Whether they are the same product, in any order.
bool is_same(const StepOperand& a, const StepOperand& b);

/// The sizes of what an operand is for; `channel` is the symbol of the last dimension.
struct OperandShape {
  StateIndex index;
  Dim channel;
  Dim batch, heads, channels;
};

/// Whether each element is at the batch, the head or the one that shares it with its neighbours,
/// the channel, or at constants.
bool fits(const Graph& graph, const StepOperand& operand, const OperandShape& shape);

/// Where values of tokens come from.
struct TokenSource {
  std::function<ValueId(ValueId)> read;  // the new value of an old one
  // The new one has all tokens in front.
  std::function<bool(ValueId)> is_lifted = [](ValueId) { return false; };
  Dim count = 1;  // of tokens that a lifted value has
};

/// The same operand of consecutive tokens, or of one whose values are lifted, as [batch, tokens,
/// heads or a divisor, channels] of `type`.
ValueId emit_tokens(GraphBuilder& builder, const Graph& graph, std::span<const StepOperand> tokens,
                    const OperandShape& shape, DType type, const TokenSource& source);

/// The value itself where it need not change.
ValueId of_type(GraphBuilder& builder, ValueId value, DType type);
ValueId transposed(GraphBuilder& builder, ValueId value, const Ints& perm);
ValueId reshaped(GraphBuilder& builder, ValueId value, const Shape& shape);
/// [batch, tokens, 1 or a divisor of the heads, channels] for each head.
ValueId for_each_head(GraphBuilder& builder, ValueId value, const Dim& heads);

}  // namespace sinter::fusion
