// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <sinter/error.h>

#include "ir/graph.h"
#include "ir/graph_checks.h"

namespace sinter::ir {
namespace {

class Verifier {
 public:
  explicit Verifier(const Graph& graph) : graph_(graph) {}

  void run() {
    check_values();
    for (const Node& node : graph_.nodes())
      if (node.op && node.op->kind == OpKind::kExtent)
        extents_.emplace(node.attrs.get_string("symbol"), node.outputs.at(0));
    for (std::size_t i = 0; i < graph_.nodes().size(); ++i) {
      const Node& node = graph_.nodes()[i];
      if (!node.op) fail(fmt::format("node {} has no operator", i));
      try {
        check_node(node, NodeId{static_cast<std::int32_t>(i)});
      } catch (Error& error) {
        error.add_context(fmt::format("node {}: {}", i, describe(*node.op, node.origins)));
        throw;
      }
    }
    check_users();
    check_interface();
  }

 private:
  [[noreturn]] static void fail(std::string message) {
    throw Error(ErrorCode::kInternal, std::move(message));
  }

  bool exists(ValueId id) const { return id.valid() && id.position() < graph_.values().size(); }

  void check_values() const {
    std::vector<bool> is_input(graph_.values().size());
    for (const ValueId id : graph_.inputs()) {
      if (!exists(id)) fail(fmt::format("input {} does not exist", id.index));
      if (is_input[id.position()]) fail(fmt::format("value {} is an input twice", id.index));
      is_input[id.position()] = true;
    }
    for (std::size_t i = 0; i < graph_.values().size(); ++i) {
      const Value& value = graph_.values()[i];
      const int roles =
          (is_input[i] ? 1 : 0) + (value.constant ? 1 : 0) + (value.producer.valid() ? 1 : 0);
      if (roles != 1)
        fail(fmt::format("value {} ('{}') must be one of input, constant and result", i,
                         value.name));
      if (value.constant && !(value.constant->type() == value.type))
        fail(fmt::format("constant {} ('{}') is typed {}, but holds {}", i, value.name,
                         to_string(value.type), to_string(value.constant->type())));
      if (!value.producer.valid()) continue;
      const auto producer = value.producer.position();
      const auto output = static_cast<std::size_t>(value.output_index);
      if (producer >= graph_.nodes().size() || output >= graph_.nodes()[producer].outputs.size() ||
          graph_.nodes()[producer].outputs[output].index != static_cast<std::int32_t>(i))
        fail(fmt::format("value {} ('{}') is not the output {} of node {}", i, value.name,
                         value.output_index, producer));
    }
  }

  void check_node(const Node& node, NodeId id) const {
    std::vector<TensorType> input_types;
    for (const ValueId input : node.inputs) {
      if (!exists(input)) fail(fmt::format("input value {} does not exist", input.index));
      if (graph_.value(input).producer >= id)
        fail(fmt::format("reads value {}, which a later node makes", input.index));
      input_types.push_back(graph_.type(input));
    }
    check_extents(node, id);
    std::vector<TensorType> inferred;
    try {
      if (!(complete_attrs(*node.op, node.attrs) == node.attrs))
        fail("attributes do not match the operator's schema");
      inferred = infer_types(*node.op, node.attrs, input_types, node.body.get());
    } catch (const Error& error) {
      fail(error.what());
    }
    if (inferred.size() != node.outputs.size())
      fail(
          fmt::format("has {} outputs, but {} are inferred", node.outputs.size(), inferred.size()));
    for (std::size_t i = 0; i < inferred.size(); ++i) {
      const ValueId output = node.outputs[i];
      if (!exists(output) || graph_.value(output).producer != id)
        fail(fmt::format("output {} is not a value that the node makes", i));
      if (!(graph_.type(output) == inferred[i]))
        fail(fmt::format("output {} is typed {}, but {} is inferred", i,
                         to_string(graph_.type(output)), to_string(inferred[i])));
    }
    if (!std::ranges::is_sorted(node.origins) ||
        std::adjacent_find(node.origins.begin(), node.origins.end()) != node.origins.end())
      fail("origins are not sorted and unique");
    if (node.body) with_context("body", [&] { verify(*node.body); });
  }

  /// Nodes that name a computed size must follow its Extent and list it.
  void check_extents(const Node& node, NodeId id) const {
    if (extents_.empty()) return;
    std::vector<ValueId> wanted;
    for (const std::string& symbol : named_symbols(node, graph_.types(node.outputs)))
      if (const auto extent = extents_.find(symbol); extent != extents_.end()) {
        if (graph_.value(extent->second).producer >= id)
          fail(fmt::format("names '{}', which a later node makes", symbol));
        wanted.push_back(extent->second);
      }
    std::ranges::sort(wanted);
    if (wanted != node.extents) fail("does not know the sizes that it names");
  }

  void check_users() const {
    std::vector<std::vector<NodeId>> users(graph_.values().size());
    for (std::size_t i = 0; i < graph_.nodes().size(); ++i)
      for (const auto* ids : {&graph_.nodes()[i].inputs, &graph_.nodes()[i].extents})
        for (const ValueId input : *ids) {
          auto& list = users[input.position()];
          const NodeId id{static_cast<std::int32_t>(i)};
          if (list.empty() || list.back() != id) list.push_back(id);
        }
    for (std::size_t i = 0; i < users.size(); ++i)
      if (users[i] != graph_.users(ValueId{static_cast<std::int32_t>(i)}))
        fail(fmt::format("the users of value {} ('{}') are not those that read it", i,
                         graph_.values()[i].name));
  }

  void check_interface() const {
    if (graph_.outputs().empty()) fail("there are no outputs");
    if (graph_.outputs().size() != graph_.output_names().size())
      fail(fmt::format("{} outputs have {} names", graph_.outputs().size(),
                       graph_.output_names().size()));
    for (const ValueId id : graph_.outputs())
      if (!exists(id)) fail(fmt::format("output value {} does not exist", id.index));
    try {
      for (const auto& [symbol, range] : graph_.ranges()) check_range(symbol, range);
      check_states(graph_);
    } catch (const Error& error) {
      fail(error.what());
    }
  }

  const Graph& graph_;
  std::map<std::string, ValueId, std::less<>> extents_;  // by symbol
};

}  // namespace

void verify(const Graph& graph) {
  with_context(fmt::format("graph '{}'", graph.name()), [&] { Verifier(graph).run(); });
}

}  // namespace sinter::ir
