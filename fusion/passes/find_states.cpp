// Caches: inputs of which the model gives a changed copy back, for the next run.
#include <algorithm>
#include <optional>

#include <fmt/format.h>
#include <sinter/error.h>

#include "fusion/passes/passes.h"
#include "ir/affine.h"

namespace sinter::fusion {
namespace {

using ir::Graph;
using ir::Node;
using ir::NodeId;
using ir::ValueId;

bool moves_all(const Node& node) {
  return node.op->name == "Transpose" || node.op->name == "Reshape";
}

/// What became of an input: the nodes from the output back to it, Scatters and views.
struct History {
  ValueId input;
  std::vector<NodeId> nodes;  // the last first
};

std::optional<History> history_of(const Graph& graph, ValueId output) {
  History result{output, {}};
  bool changed = false;
  while (const Node* node = graph.producer(result.input)) {
    const bool scatters = node->op->scatter() != nullptr;
    if (!scatters && !moves_all(*node)) return std::nullopt;
    changed = changed || scatters;
    result.nodes.push_back(graph.value(result.input).producer);
    result.input = node->inputs[0];
  }
  if (!changed || graph.is_constant(result.input)) return std::nullopt;
  return result;
}

/// True if the views on the way leave every element where it was.
bool keeps_places(const Graph& graph, const History& history, const ir::TensorType& type) {
  ir::GraphBuilder builder("views");
  for (const auto& [symbol, range] : graph.ranges()) builder.range(symbol, range);
  ValueId value = builder.input("x", type);
  for (auto id = history.nodes.rbegin(); id != history.nodes.rend(); ++id)
    if (const Node& node = graph.node(*id); moves_all(node))
      value = builder.add(node.op->name, {value}, node.attrs);
  builder.output("y", value);
  const Graph views = builder.finish();
  ir::Ranges ranges = views.ranges();
  const auto index = ir::index_symbols(type.shape, ranges);
  const ir::TracedView traced = ir::trace_view(views, views.outputs()[0], index, ranges);
  return traced.sources.size() == 1 && traced.sources[0].guards.empty() &&
         traced.sources[0].index == index;
}

/// True if the old value is read on the way to the new one alone, and the new one is used in the
/// same run: a model that only gives a changed tensor back need not mean to get it again.
bool is_cache(const Graph& graph, const History& history) {
  const auto on_the_way = [&](NodeId id) {
    return std::find(history.nodes.begin(), history.nodes.end(), id) != history.nodes.end();
  };
  bool is_new = false, is_used = false;
  ValueId value = history.input;
  for (auto id = history.nodes.rbegin(); id != history.nodes.rend(); ++id) {
    if (!is_new && (graph.users(value).size() != 1 || graph.is_output(value))) return false;
    const Node& node = graph.node(*id);
    if (node.op->scatter() != nullptr) {
      is_new = true;
      if (std::count(node.inputs.begin(), node.inputs.end(), value) != 1) return false;
    }
    value = node.outputs[0];
    if (is_new)
      for (const NodeId user : graph.users(value)) is_used = is_used || !on_the_way(user);
  }
  return is_used;
}

std::string names_of(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "'" : ", '") + name + "'";
  return text.empty() ? "none" : text;
}

int index_of(const std::vector<std::string>& names, const std::string& name, const char* what) {
  const auto at = std::find(names.begin(), names.end(), name);
  if (at == names.end())
    throw Error(ErrorCode::kUsage, fmt::format("--state: there is no {} '{}'; the model has {}",
                                               what, name, names_of(names)));
  return static_cast<int>(at - names.begin());
}

class StateFinder {
 public:
  StateFinder(const Graph& graph, const StateOptions& options)
      : graph_(graph), options_(options), states_(graph.states()) {}

  std::vector<ir::State> find() {
    std::vector<std::string> inputs;
    for (const ValueId input : graph_.inputs()) inputs.push_back(graph_.value(input).name);
    for (const auto& [input, output] : options_.pairs)
      add_given(
          {index_of(inputs, input, "input"), index_of(graph_.output_names(), output, "output")});
    if (!options_.find) return states_;
    for (std::size_t i = 0; i < graph_.outputs().size(); ++i)
      if (const auto state = found(static_cast<int>(i))) states_.push_back(*state);
    return states_;
  }

 private:
  bool is_taken(const ir::State& state) const {
    return std::any_of(states_.begin(), states_.end(), [&](const ir::State& other) {
      return other.input == state.input || other.output == state.output;
    });
  }

  void add_given(const ir::State& state) {
    const ValueId input = graph_.inputs()[static_cast<std::size_t>(state.input)];
    const ValueId output = graph_.outputs()[static_cast<std::size_t>(state.output)];
    const std::string& name = graph_.value(input).name;
    if (is_taken(state))
      throw Error(ErrorCode::kUsage,
                  fmt::format("--state: '{}' or its output is in two states", name));
    if (!(graph_.type(input) == graph_.type(output)))
      throw Error(ErrorCode::kUsage,
                  fmt::format("--state: '{}' is {}, but '{}' is {}: a state keeps its type and "
                              "shape; export the model with a cache of fixed length",
                              name, ir::to_string(graph_.type(input)),
                              graph_.output_names()[static_cast<std::size_t>(state.output)],
                              ir::to_string(graph_.type(output))));
    states_.push_back(state);
  }

  std::optional<ir::State> found(int output) const {
    const ValueId value = graph_.outputs()[static_cast<std::size_t>(output)];
    const auto history = history_of(graph_, value);
    if (!history || !(graph_.type(history->input) == graph_.type(value))) return std::nullopt;
    const auto at = std::find(graph_.inputs().begin(), graph_.inputs().end(), history->input);
    const ir::State state{static_cast<int>(at - graph_.inputs().begin()), output};
    if (is_taken(state) || !is_cache(graph_, *history) ||
        !keeps_places(graph_, *history, graph_.type(value)))
      return std::nullopt;
    return state;
  }

  const Graph& graph_;
  const StateOptions& options_;
  std::vector<ir::State> states_;
};

}  // namespace

Graph find_states(const Graph& graph, Context& context) {
  const std::vector<ir::State> states = StateFinder(graph, context.states).find();
  if (states == graph.states()) return graph;
  ir::GraphBuilder builder(graph.name());
  for (const auto& [symbol, range] : graph.ranges()) builder.range(symbol, range);
  std::vector<ValueId> inputs;
  for (const ValueId input : graph.inputs())
    inputs.push_back(builder.input(graph.value(input).name, graph.type(input)));
  const std::vector<ValueId> outputs = ir::inline_graph(builder, graph, inputs);
  for (std::size_t i = 0; i < outputs.size(); ++i)
    builder.output(graph.output_names()[i], outputs[i]);
  for (const ir::State& state : states) builder.state(state);
  return builder.finish();
}

}  // namespace sinter::fusion
