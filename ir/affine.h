// SPDX-License-Identifier: Apache-2.0
// Views as addresses: maps an element of a view to an element of its source.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace sinter::ir {

/// The source element of a value's element, traced through views.
struct TracedSource {
  ValueId source;          // not computed by a view, except as stated below
  std::vector<Dim> index;  // one per dimension of `source`, over the caller's symbols
  std::vector<ViewSource::Guard> guards;  // all must hold for this source to apply
};
struct TracedView {
  std::vector<TracedSource> sources;  // with mutually exclusive guards
  double fill = 0;                    // where no source applies
};

/// Traces `value` at `index` (one Dim per dimension) through view nodes for which `through` is true
/// (all, if empty). `ranges` bounds the index symbols and the graph's symbols. Omits guards proved
/// to hold, and sources proved never to apply.
///
/// A view of several sources (Concat) has no fill: its sources cover all elements. With two
/// consecutive views of different fills, the inner one is not followed: it is a source, though it
/// is a view.
TracedView trace_view(const Graph& graph, ValueId value, std::span<const Dim> index,
                      const Ranges& ranges, const std::function<bool(const Node&)>& through = {});

/// The source, if it is the only one and has no guards.
std::optional<TracedSource> trace_to_source(const Graph& graph, ValueId value,
                                            std::span<const Dim> index, const Ranges& ranges,
                                            const std::function<bool(const Node&)>& through = {});

/// value[i0, i1, ..] = source[offset + sum strides[d] * i_d], in elements of the dense source.
struct StridedAccess {
  ValueId source;
  Dim offset;
  std::vector<Dim> strides;
};

/// `value` as one strided access of the source of its views; nothing if a view selects, pads or is
/// not linear.
std::optional<StridedAccess> strided_access(const Graph& graph, ValueId value,
                                            const std::function<bool(const Node&)>& through = {});

/// The number in integer `value` at `index`, if it depends only on the index: generators,
/// one-element constants, views and integer arithmetic on them.
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
/// The first `count` of these names.
std::vector<std::string> index_symbol_names(std::size_t count);
/// The symbols index_symbol(0..shape.size()) as Dims; adds their ranges [0, dim - 1] to `ranges`,
/// with the dimension as symbolic_max.
std::vector<Dim> index_symbols(const Shape& shape, Ranges& ranges);

}  // namespace sinter::ir
