// SPDX-License-Identifier: Apache-2.0
// Finds caches: inputs that the model returns updated, for the next run.
#include <algorithm>
#include <optional>

#include <fmt/format.h>
#include <sinter/error.h>

#include "fusion/passes/passes.h"
#include "fusion/patterns/caches.h"

namespace sinter::fusion {
namespace {

std::string names_of(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "'" : ", '") + name + "'";
  return text.empty() ? "none" : text;
}

int index_of(const std::vector<std::string>& names, const std::string& name, const char* what) {
  const auto at = std::ranges::find(names, name);
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
    return std::ranges::any_of(states_, [&](const ir::State& other) {
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

  ir::State state_of(ValueId input, int output) const {
    return {static_cast<int>(graph_.input_number(input).value()), output};
  }

  std::optional<ir::State> found(int output) const {
    const ValueId value = graph_.outputs()[static_cast<std::size_t>(output)];
    if (const auto input = windowed_cache(graph_, value)) {
      const ir::State state = state_of(*input, output);
      return is_taken(state) ? std::nullopt : std::optional(state);
    }
    const auto history = cache_history(graph_, value);
    if (!history || !(graph_.type(history->input) == graph_.type(value))) return std::nullopt;
    const ir::State state = state_of(history->input, output);
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
  GraphBuilder builder(graph.name());
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
