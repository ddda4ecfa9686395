// Reshapes dimension by dimension; constants that broadcast, in front of views.
#pragma once

#include <optional>
#include <vector>

#include "ir/graph.h"

namespace sinter::fusion {

/// Dimensions `from` to `from_end` of one shape that hold as many elements as `to` to `to_end` of
/// another, in row-major order.
struct ReshapeRun {
  std::size_t from, from_end, to, to_end;
};
/// The smallest runs of a reshape, in order; nothing where sizes are too symbolic to tell.
std::optional<std::vector<ReshapeRun>> reshape_runs(const ir::Shape& from, const ir::Shape& to);

/// The constant behind `value`, seen through expansions, which broadcasting makes good; or null.
const ir::Tensor* broadcast_constant(const ir::Graph& graph, ir::ValueId value);

/// `tensor` with ones in front of its shape, of rank `rank`. Null if it has more dimensions.
std::optional<ir::Tensor> with_rank(const ir::Tensor& tensor, std::size_t rank);

/// The constant that does to the input of `view` (a Transpose or Reshape) what `constant` does to
/// its output, where both broadcast. `constant` has the output's rank, the result the input's.
/// Nothing if no constant does.
std::optional<ir::Tensor> before_view(const ir::Graph& graph, const ir::Node& view,
                                      const ir::Tensor& constant);

}  // namespace sinter::fusion
