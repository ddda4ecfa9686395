// Values in more than one layout, for pass channels_last.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "fusion/context.h"

namespace sinter::fusion {

/// A layout: dimension i of what is stored is dimension perm[i] of the value.
using Perm = Ints;

/// [n, c, d..] stored as [n, d.., c].
Perm last_perm(std::size_t rank);

bool is_identity(const Perm& perm);
/// Entry i of the result is values[perm[i]]; with `values` a layout, that seen through `perm`.
template <typename T>
std::vector<T> permuted(const std::vector<T>& values, const Perm& perm) {
  std::vector<T> result;
  for (const std::int64_t d : perm) result.push_back(values[static_cast<std::size_t>(d)]);
  return result;
}

/// The layouts in which a reshape moves nothing: `after` of its result if its operand has `before`.
struct ReshapeLayouts {
  Perm before, after;
};
/// Those nearest to an operand in layout `perm`: dimensions that the reshape joins or splits
/// together come to stand together, in order. Nothing where sizes are too symbolic to tell.
std::optional<ReshapeLayouts> through_reshape(const Shape& from, const Shape& to, const Perm& perm);

struct Twin {
  ValueId value;  // of the new graph
  Perm perm;      // not the identity
};

/// The values of a graph in the new graph that is being built: each as it is, transposed, or both.
class Twins {
 public:
  Twins(const Graph& old, GraphBuilder& builder);

  /// `old` is made as `value`, in layout `perm` (empty: as it is).
  void set(ValueId old, ValueId value, const Perm& perm = {});
  /// Null if `old` has been made as it is, or is a constant.
  const Twin* twin(ValueId old) const;
  /// True if `old` depends on no input of the graph.
  bool is_static(ValueId old) const { return static_[at(old)]; }

  /// `old` as it is.
  ValueId plain(ValueId old);
  /// `old` in layout `perm`, of its own rank. Constants are transposed here and now.
  ValueId in(ValueId old, const Perm& perm);
  /// An operand that broadcasts with values in layout `perm`, of the same or a higher rank.
  ValueId broadcast(ValueId old, const Perm& perm);

 private:
  static std::size_t at(ValueId value) { return value.position(); }

  const Graph& old_;
  GraphBuilder& builder_;
  std::vector<ValueId> plain_;
  std::vector<std::optional<Twin>> twins_;
  std::vector<bool> static_;
};

/// A view of `value`; of a constant another constant.
ValueId add_view(GraphBuilder& builder, std::string_view op, ValueId value, const Attrs& attrs);
/// `value` transposed, through the transposes and reshapes in front of it where that leaves fewer.
ValueId add_transpose(GraphBuilder& builder, ValueId value, const Perm& perm);

/// The convolution `node` of operands x [n, d.., c], w [m, k.., c / group] and bias if it has one:
/// a Conv, or, `as_kernels`, what is better: a MatMul where windows are single elements, or lie
/// side by side in an x that is stored for it anyway; windows times weights and a sum where each
/// channel is by itself; zeros behind the channels of a 16-bit x that is stored for it anyway.
ValueId add_channels_last_conv(GraphBuilder& builder, const Node& node,
                               std::span<const ValueId> inputs, bool as_kernels);

}  // namespace sinter::fusion
