// SPDX-License-Identifier: Apache-2.0
#include "fusion/paging/paged_graph.h"

#include <algorithm>

#include <fmt/format.h>

#include "fusion/paging/paging_refused.h"
#include "fusion/regions/rebuild.h"

namespace sinter::fusion {

using ir::Attr;

void refuse_paging(const Node& node, const std::string& why) {
  throw PagingRefused(fmt::format("{}: {}", describe(node), why));
}

PagedGraph::PagedGraph(const Graph& graph, const PagingOptions& paging)
    : old(graph),
      options(paging),
      inputs(decoder_inputs(graph)),
      trials(graph, inputs),
      states(graph, inputs.states),
      b(graph.name()),
      mapped(graph.values().size()) {}

ValueId PagedGraph::as(ValueId value, DType type) {
  return b.type(value).dtype == type ? value : b.add("Cast", {value}, {{"to", Attr(type)}});
}
ValueId PagedGraph::shaped(ValueId value, Shape shape) {
  return b.type(value).shape == shape ? value : b.add("Reshape", {value}, {{"shape", shape}});
}

ValueId PagedGraph::token_positions(const TokenPositions& what, const TensorType& type) {
  const GraphBuilder::OriginScope scope(b, {});
  ValueId value = as(places, type.dtype);
  if (what.more != 0)
    value = b.add("Add", {value, b.scalar(type.dtype, static_cast<double>(what.more))});
  Shape shape(type.shape.size(), Dim(1));
  if (!shape.empty()) shape[what.axis] = Dim::symbol(paged_names::kTokens);
  return shaped(value, shape);
}

bool PagedGraph::is_crossed(ValueId value) const {
  return std::ranges::find(inputs.crossed, value) != inputs.crossed.end();
}

}  // namespace sinter::fusion
