// Views as addresses: which element of which tensor an element of a view is.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace sinter::ir {

/// Where element `index` of a value lies once the views that make it are followed back.
struct TracedSource {
  ValueId source;          // not made by a view, but for the case below
  std::vector<Dim> index;  // one per dimension of `source`, over the caller's symbols
  std::vector<ViewSource::Guard> guards;  // all must hold for this source to apply
};
struct TracedView {
  std::vector<TracedSource> sources;  // their guards exclude each other
  double fill = 0;                    // where none applies
};

/// Follows `value` at `index` (one Dim per dimension) through view nodes for which `through` is
/// true (all, if empty). `ranges` bounds the index symbols and the graph's symbols. Guards that are
/// proven to hold are left out, sources that are proven never to apply are dropped.
///
/// A view of several sources (Concat) has no fill: its sources cover all of its elements. Where two
/// views with different fills follow each other, the inner one is not followed: it is then a
/// source, though a view makes it.
TracedView trace_view(const Graph& graph, ValueId value, std::span<const Dim> index,
                      const Ranges& ranges, const std::function<bool(const Node&)>& through = {});

/// The source of such a view, if it is one alone and has no guards.
std::optional<TracedSource> trace_to_source(const Graph& graph, ValueId value,
                                            std::span<const Dim> index, const Ranges& ranges,
                                            const std::function<bool(const Node&)>& through = {});

/// value[i0, i1, ..] = source[offset + sum strides[d] * i_d], in elements of the dense source.
struct StridedAccess {
  ValueId source;
  Dim offset;
  std::vector<Dim> strides;
};

/// `value` as one strided access of what its views start from; nothing if a view selects, pads or
/// does not map linearly.
std::optional<StridedAccess> strided_access(const Graph& graph, ValueId value,
                                            const std::function<bool(const Node&)>& through = {});

/// The number that integer `value` holds at `index`, if it follows from the index alone: what
/// generators, constants of one element, views and integer arithmetic on them make.
std::optional<Dim> index_of_value(const Graph& graph, ValueId value, std::span<const Dim> index,
                                  const Ranges& ranges);

/// Splits `expr` into offset and strides over the given index symbols; nothing if it is not linear
/// in them.
struct LinearForm {
  Dim offset;
  std::vector<Dim> strides;
};
std::optional<LinearForm> linear_form(const Dim& expr, std::span<const std::string> symbols);

/// Names for index symbols that no model can use: "$0", "$1", ...
std::string index_symbol(int d);
/// The first `count` of them.
std::vector<std::string> index_symbol_names(std::size_t count);
/// Symbols index_symbol(0..shape.size()) as Dims; adds their ranges [0, dim - 1] to `ranges`, with
/// the dimension as symbolic_max.
std::vector<Dim> index_symbols(const Shape& shape, Ranges& ranges);

}  // namespace sinter::ir
