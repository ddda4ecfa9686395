// Values of a padded batch [batch, sequence] with its tokens end to end, and back.
#pragma once

#include <map>
#include <string>
#include <tuple>

#include "fusion/packing/token_axes.h"

namespace sinter::fusion {

/// Packs values of one graph while it is copied into `builder`. Everything is made when it is first
/// asked for.
class Packing {
 public:
  /// `mask`: an input of `graph` [batch, sequence] of 0 and 1. `symbol`: of how many rows a packed
  /// batch has. `first`: every sequence has to have a token at its first position.
  Packing(GraphBuilder& builder, const Graph& graph, ValueId mask, std::string symbol, bool first);

  const TokenDims& dims() const { return dims_; }
  /// [sequences + 1] of i64: where in the packed rows each sequence begins, and the last one ends.
  ValueId bounds();

  /// `value` is `copy` in the builder, padded.
  void set_copy(ValueId value, ValueId copy) { copies_[value] = copy; }
  /// `value`, whose padding holds nothing of meaning, is `packed`, with `axes`.
  void set_packed(ValueId value, const TokenAxes& axes, ValueId packed);
  /// Whether the padding of `value` holds nothing of meaning, and which axes it has.
  const TokenAxes* axes_of(ValueId value) const;

  /// `value` packed: computed token by token as far back as that goes, then gathered. Throws
  /// Error(kUnsupported) if nothing can be.
  ValueId packed(ValueId value, const TokenAxes& axes);
  /// The packed `value` of type `type` padded, with zeros where there is no token.
  ValueId padded(ValueId value, const TensorType& type, const TokenAxes& axes);

 private:
  /// Which token each row is, which position and which sequence it has; which row each token is.
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
