// Kernels that read a kernel's result, and whether one of them can be computed as that is stored.
#pragma once

#include <optional>
#include <vector>

#include "fusion/context.h"
#include "fusion/regions/region.h"

namespace sinter::fusion {

/// A kernel of kind "pointwise" or "reduction" that reads a result, perhaps through reshapes.
struct ResultReader {
  NodeId node;
  std::vector<NodeId> reshapes;
  ValueId read;  // what it reads: the result, or the last reshape of it
};

/// All of `result`, in the order of the graph's users.
std::vector<ResultReader> result_readers(const Graph& graph, ValueId result);

/// Whether the reader can run together with `maker`, of which `result` is an output: it reads the
/// result in one way, and needs nothing else that waits for the maker.
Verdict is_next(const Graph& graph, const Node& maker, ValueId result, const ResultReader& reader);

/// Whether the body of a kernel follows a result element by element: for each step over `space`,
/// with reductions over `axes` of it, it needs of its input `result` the element of that step
/// alone; or, with `half`, those at its place in both halves of the result's 2 * `half` columns.
Verdict follows(const Graph& body, ValueId result, const Shape& space, const Ints& axes,
                const std::optional<Dim>& half);

/// True if something else than the reader needs `value`, a result or a reshape of it on the way.
bool is_read_beside(const Graph& graph, ValueId value, const ResultReader& reader);

}  // namespace sinter::fusion
