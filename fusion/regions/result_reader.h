// SPDX-License-Identifier: Apache-2.0
// Kernels that read another kernel's result, and whether one can be computed when that is stored.
#pragma once

#include <optional>
#include <vector>

#include "fusion/context.h"
#include "fusion/regions/region.h"

namespace sinter::fusion {

/// A kernel of kind "pointwise" or "reduction" that reads a result, maybe through reshapes.
struct ResultReader {
  NodeId node;
  std::vector<NodeId> reshapes;
  ValueId read;  // the value that it reads: the result, or its last reshape
};

/// All readers of `result`, in the order of the graph's users.
std::vector<ResultReader> result_readers(const Graph& graph, ValueId result);

/// Whether the reader can run together with `maker`, whose output is `result`: it reads the result
/// through one path, and needs nothing else that depends on the maker.
Verdict is_next(const Graph& graph, const Node& maker, ValueId result, const ResultReader& reader);

/// Whether a kernel's body follows a result elementwise: for each step over `space`, with
/// reductions over `axes`, it needs of its input `result` only that step's element; or, with
/// `half`, the corresponding elements in both halves of the result's 2 * `half` columns, or in all
/// even and all odd ones.
Verdict follows(const Graph& body, ValueId result, const Shape& space, const Ints& axes,
                const std::optional<Dim>& half);

/// True if another node needs `value`, a result or a reshape of it on the path.
bool is_read_beside(const Graph& graph, ValueId value, const ResultReader& reader);

}  // namespace sinter::fusion
