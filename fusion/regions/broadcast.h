// Reshapes dimension by dimension; constants that broadcast, in front of views.
#pragma once

#include <optional>
#include <vector>

#include "fusion/context.h"

namespace sinter::fusion {

/// Dimensions `from` to `from_end` of one shape that hold as many elements as `to` to `to_end` of
/// another, in row-major order.
struct ReshapeRun {
  std::size_t from, from_end, to, to_end;
};
/// The smallest runs of a reshape, in order; nothing where sizes are too symbolic to tell.
std::optional<std::vector<ReshapeRun>> reshape_runs(const Shape& from, const Shape& to);

/// The permutation that undoes `perm`.
Ints inverse(const Ints& perm);

/// The constant behind `value`, seen through expansions, which broadcasting makes good; or null.
const Tensor* broadcast_constant(const Graph& graph, ValueId value);

/// `tensor` with ones in front of its shape, of rank `rank`. Null if it has more dimensions.
std::optional<Tensor> with_rank(const Tensor& tensor, std::size_t rank);

/// The constant that does to the input of `view` (a Transpose or Reshape) what `constant` does to
/// its output, where both broadcast. `constant` has the output's rank, the result the input's.
/// Nothing if no constant does.
std::optional<Tensor> before_view(const Graph& graph, const Node& view, const Tensor& constant);

}  // namespace sinter::fusion
