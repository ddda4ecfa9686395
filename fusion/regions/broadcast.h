// SPDX-License-Identifier: Apache-2.0
// Correspondence of dimensions in reshapes; broadcast constants before views.
#pragma once

#include <optional>
#include <vector>

#include "fusion/context.h"

namespace sinter::fusion {

/// Dimensions `from` to `from_end` of one shape with as many elements as `to` to `to_end` of
/// another, in row-major order.
struct ReshapeRun {
  std::size_t from, from_end, to, to_end;
};
/// The smallest runs of a reshape, in order; nothing if symbolic sizes leave them undecided.
std::optional<std::vector<ReshapeRun>> reshape_runs(const Shape& from, const Shape& to);

/// The inverse permutation.
Ints inverse(const Ints& perm);

/// The constant behind `value`, through expansions, which broadcasting makes redundant; or null.
const Tensor* broadcast_constant(const Graph& graph, ValueId value);

/// `tensor` with leading ones, of rank `rank`. Nothing if it has more dimensions.
std::optional<Tensor> with_rank(const Tensor& tensor, std::size_t rank);

/// The constant for the input of `view` (a Transpose or Reshape) that corresponds to `constant` for
/// its output, where both broadcast. `constant` has the output's rank, the result the input's.
/// Nothing if there is none.
std::optional<Tensor> before_view(const Graph& graph, const Node& view, const Tensor& constant);

}  // namespace sinter::fusion
