// SPDX-License-Identifier: Apache-2.0
#include "frontend/bodies.h"

#include <algorithm>

#include "frontend/symbols/inputs.h"
#include "runtime/format_error.h"

namespace sinter::frontend {
namespace {

using ir::Dim;
using ir::Graph;

/// A symbol for the value of input `name` that no dimension of `graphs` uses.
std::string symbol_for(const std::string& name, const std::vector<Graph>& graphs) {
  std::string symbol = symbol_name(name);
  while (std::ranges::any_of(graphs,
                             [&](const Graph& graph) { return graph.ranges().count(symbol) != 0; }))
    symbol += "_value";
  return symbol;
}

/// A graph with the inputs and outputs of both graphs; a dimension that differs becomes a function
/// of `flag`.
Graph bindings_of(const Graph& where_false, const Graph& where_true, const Dim& flag) {
  ir::GraphBuilder builder(where_false.name());
  for (const Graph* graph : {&where_false, &where_true})
    for (const auto& [symbol, range] : graph->ranges()) {
      ir::Range all = range;
      if (const auto known = builder.ranges().find(symbol); known != builder.ranges().end()) {
        all.min = std::min(all.min, known->second.min);
        all.max = std::max(all.max, known->second.max);
      }
      builder.range(symbol, all);
    }
  builder.range(*flag.as_symbol(), {0, 1, nullptr});
  for (const ir::ValueId input : where_false.inputs())
    builder.input(where_false.value(input).name, where_false.type(input));
  for (std::size_t i = 0; i < where_false.outputs().size(); ++i) {
    const std::string& name = where_false.output_names()[i];
    const ir::TensorType &a = where_false.type(where_false.outputs()[i]),
                         &b = where_true.type(where_true.outputs()[i]);
    if (a.dtype != b.dtype || a.shape.size() != b.shape.size())
      throw unsupported_error(
          "output '{}' is {} where '{}' is false and {} where it is true: give "
          "that input (--constant)",
          name, ir::to_string(a), flag.to_string(), ir::to_string(b));
    ir::Shape shape;
    for (std::size_t d = 0; d < a.shape.size(); ++d)
      shape.push_back(a.shape[d] + flag * (b.shape[d] - a.shape[d]));
    // Any value of this type will do: nothing computes this graph.
    builder.output(name, builder.add("Expand", {builder.scalar(a.dtype, 0)}, {{"shape", shape}}));
  }
  return builder.finish();
}

}  // namespace

ImportedModel import_bodies(const std::string& flag, const ImportOptions& options,
                            const std::function<ImportedModel(const ImportOptions&)>& import_one) {
  ImportOptions one = options;
  one.flags[flag] = true;
  ImportedModel where_true = import_one(one);
  one.flags[flag] = false;
  ImportedModel result = import_one(one);
  std::vector<Graph> graphs;
  graphs.push_back(std::move(result.graph));
  graphs.push_back(std::move(where_true.graph));
  const std::string symbol = symbol_for(flag, graphs);
  result.graph = bindings_of(graphs[0], graphs[1], Dim::symbol(symbol));
  result.flag = ImportedModel::Flag{flag, symbol, std::move(graphs)};
  for (std::string& warning : where_true.warnings)
    if (std::ranges::find(result.warnings, warning) == result.warnings.end())
      result.warnings.push_back(std::move(warning));
  return result;
}

}  // namespace sinter::frontend
