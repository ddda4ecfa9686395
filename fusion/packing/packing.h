// SPDX-License-Identifier: Apache-2.0
// Converts values of a padded batch [batch, sequence] to packed tokens, and back.
#pragma once

#include <map>
#include <string>
#include <tuple>

#include "fusion/packing/token_axes.h"

namespace sinter::fusion {

/// Packs values of one graph while it is copied into `builder`. Everything is created at first
/// use.
class Packing {
 public:
  /// `mask`: an input of `graph`, [batch, sequence], of 0 and 1. `symbol`: the number of rows of a
  /// packed batch. `first`: every sequence must have a token at its first position.
  Packing(GraphBuilder& builder, const Graph& graph, ValueId mask, std::string symbol, bool first);

  const TokenDims& dims() const { return dims_; }
  /// [sequences + 1] of i64: begin of each sequence in the packed rows, and the end of the last.
  ValueId bounds();

  /// In the builder, `value` is `copy`, padded.
  void set_copy(ValueId value, ValueId copy) { copies_[value] = copy; }
  /// `value`, whose padding is meaningless, is `packed`, with `axes`.
  void set_packed(ValueId value, const TokenAxes& axes, ValueId packed);
  /// The axes of `value` if its padding is meaningless, otherwise null.
  const TokenAxes* axes_of(ValueId value) const;

  /// `value` packed: computed token by token from as far back as possible, where inputs are
  /// gathered. Throws Error(kUnsupported) if that is nowhere possible.
  ValueId packed(ValueId value, const TokenAxes& axes);
  /// Pads the packed `value`, of type `type`, with zeros.
  ValueId padded(ValueId value, const TensorType& type, const TokenAxes& axes);

 private:
  /// Computes the token, position and sequence of each row, and the row of each token.
  void find_rows();
  ValueId size(const Dim& dim);
  ValueId by_tokens(ValueId value, const TokenAxes& axes);
  ValueId gathered(ValueId value, const TokenAxes& axes);
  ValueId reshaped(ValueId value, const Shape& shape);
  ValueId transposed(ValueId value, const Ints& perm);

  GraphBuilder& b_;
  const Graph& graph_;
  ValueId mask_;
  std::string symbol_;
  bool first_;
  TokenDims dims_;
  bool known_ = false;
  ValueId order_, position_, sequence_, row_, exists_, bounds_;
  std::map<ValueId, ValueId> copies_;
  std::map<ValueId, TokenAxes> axes_;
  std::map<std::tuple<ValueId, int, int>, ValueId> packed_;
};

}  // namespace sinter::fusion
