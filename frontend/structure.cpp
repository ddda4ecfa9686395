#include "frontend/structure.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <string_view>
#include <unordered_map>

#include <fmt/format.h>
#include <onnx.pb.h>
#include <sinter/error.h>

namespace sinter::frontend {
namespace {

[[noreturn]] void invalid(std::string message) {
  throw Error(ErrorCode::kInvalidModel, std::move(message));
}

constexpr int kNotANode = -1;

/// Who defines each value name: a node's index, or kNotANode for inputs and initializers.
std::unordered_map<std::string, int> collect_definitions(const onnx::GraphProto& graph) {
  std::unordered_map<std::string, int> definitions;
  for (const auto& input : graph.input()) {
    if (input.name().empty()) invalid("a graph input has no name");
    if (!definitions.emplace(input.name(), kNotANode).second)
      invalid(fmt::format("two graph inputs are named '{}'; names must be unique", input.name()));
  }
  std::unordered_set<std::string> initializers;
  for (const auto& tensor : graph.initializer()) {
    if (tensor.name().empty()) invalid("an initializer has no name");
    if (!initializers.insert(tensor.name()).second)
      invalid(fmt::format("two initializers are named '{}'; names must be unique", tensor.name()));
    definitions.emplace(tensor.name(), kNotANode);  // it may also be an input: its default
  }
  for (const auto& sparse : graph.sparse_initializer())
    definitions.emplace(sparse.values().name(), kNotANode);
  for (int i = 0; i < graph.node_size(); ++i) {
    for (const std::string& name : graph.node(i).output()) {
      if (name.empty()) continue;
      const auto [previous, is_new] = definitions.emplace(name, i);
      if (is_new) continue;
      const std::string other =
          previous->second == kNotANode
              ? "a graph input or initializer"
              : fmt::format("node '{}'",
                            node_label(graph.node(previous->second), previous->second));
      invalid(
          fmt::format("value '{}' is defined twice: by {} and by node '{}'; names must be unique",
                      name, other, node_label(graph.node(i), i)));
    }
  }
  return definitions;
}

/// The names of the nodes of one cycle among those that a topological sort could not reach.
std::string describe_cycle(const onnx::GraphProto& graph,
                           const std::unordered_map<std::string, int>& definitions,
                           const std::vector<int>& waiting_for) {
  // Every unreached node reads an output of another one, so walking along such inputs must return.
  const auto predecessor = [&](int node) {
    for (const std::string& name : graph.node(node).input()) {
      const auto found = definitions.find(name);
      if (found == definitions.end() || found->second == kNotANode) continue;
      if (waiting_for[static_cast<std::size_t>(found->second)] > 0) return found->second;
    }
    return kNotANode;
  };
  int node = kNotANode;
  for (int i = 0; i < graph.node_size() && node == kNotANode; ++i)
    if (waiting_for[static_cast<std::size_t>(i)] > 0) node = i;
  std::vector<int> path;
  std::vector<bool> visited(waiting_for.size(), false);
  while (!visited[static_cast<std::size_t>(node)]) {
    visited[static_cast<std::size_t>(node)] = true;
    path.push_back(node);
    node = predecessor(node);
  }
  path.erase(path.begin(), std::find(path.begin(), path.end(), node));
  std::reverse(path.begin(), path.end());
  // A long cycle is shown by its first nodes: the way round is clear from them.
  constexpr std::size_t kShown = 12;
  std::string text;
  for (std::size_t i = 0; i < path.size() && i < kShown; ++i)
    text += fmt::format("'{}' -> ", node_label(graph.node(path[i]), path[i]));
  if (path.size() > kShown) text += fmt::format("... {} more ... -> ", path.size() - kShown);
  return text + fmt::format("'{}'", node_label(graph.node(path[0]), path[0]));
}

}  // namespace

bool is_onnx_domain(const std::string& domain) { return domain.empty() || domain == "ai.onnx"; }

std::string node_label(const onnx::NodeProto& node, int index) {
  return node.name().empty() ? fmt::format("{}_{}", node.op_type(), index) : node.name();
}

std::int64_t checked_opset(const onnx::ModelProto& model) {
  std::int64_t version = 0;
  bool found = false;
  for (const auto& import : model.opset_import()) {
    if (!is_onnx_domain(import.domain())) continue;
    if (found && import.version() != version)
      invalid(fmt::format("the model imports two versions of the ai.onnx operator set, {} and {}",
                          version, import.version()));
    version = import.version();
    found = true;
  }
  if (!found) {
    const auto& nodes = model.graph().node();
    const auto node = std::find_if(nodes.begin(), nodes.end(), [](const auto& candidate) {
      return is_onnx_domain(candidate.domain());
    });
    if (node == nodes.end() && model.opset_import_size() > 0) return 0;
    invalid(fmt::format(
        "the model does not say which version of the ai.onnx operator set it uses (no "
        "opset_import){}: it is truncated or not written by an ONNX exporter",
        node == nodes.end() ? "" : fmt::format(", but has a node {}", node->op_type())));
  }
  if (version < kMinOpset || version > kMaxOpset)
    throw Error(ErrorCode::kUnsupported,
                fmt::format("the model uses version {} of the ai.onnx operator set; supported are "
                            "{} to {}: export with another opset, or convert with "
                            "onnx.version_converter",
                            version, kMinOpset, kMaxOpset));
  return version;
}

GraphStructure check_structure(const onnx::GraphProto& graph) {
  if (graph.node_size() == 0) invalid("the graph is empty: it has no nodes");
  if (graph.output_size() == 0) invalid("the graph has no outputs: nothing would be computed");
  const auto definitions = collect_definitions(graph);

  GraphStructure structure;
  const std::size_t count = static_cast<std::size_t>(graph.node_size());
  std::vector<int> waiting_for(count, 0);  // inputs whose producer has not been placed
  std::vector<std::vector<int>> consumers(count);
  for (int i = 0; i < graph.node_size(); ++i) {
    for (const std::string& name : graph.node(i).input()) {
      if (name.empty()) continue;
      const auto found = definitions.find(name);
      if (found == definitions.end())
        invalid(fmt::format(
            "node '{}' ({}) reads '{}', which no graph input, initializer or node defines",
            node_label(graph.node(i), i), graph.node(i).op_type(), name));
      structure.used.insert(name);
      if (found->second == kNotANode) continue;
      if (found->second >= i) structure.was_sorted = false;
      consumers[static_cast<std::size_t>(found->second)].push_back(i);
      ++waiting_for[static_cast<std::size_t>(i)];
    }
  }
  std::unordered_set<std::string> outputs;
  for (const auto& output : graph.output()) {
    if (definitions.find(output.name()) == definitions.end())
      invalid(
          fmt::format("the graph returns '{}', which no graph input, initializer or node defines",
                      output.name()));
    if (!outputs.insert(output.name()).second)
      invalid(fmt::format("two graph outputs are named '{}'; names must be unique", output.name()));
    structure.used.insert(output.name());
  }

  // The lowest ready index first: a sorted graph keeps its order, an unsorted one changes little.
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  for (std::size_t i = 0; i < count; ++i)
    if (waiting_for[i] == 0) ready.push(static_cast<int>(i));
  while (!ready.empty()) {
    const int node = ready.top();
    ready.pop();
    structure.order.push_back(node);
    for (const int consumer : consumers[static_cast<std::size_t>(node)])
      if (--waiting_for[static_cast<std::size_t>(consumer)] == 0) ready.push(consumer);
  }
  if (structure.order.size() != count)
    invalid(
        fmt::format("the graph has a cycle: {}", describe_cycle(graph, definitions, waiting_for)));
  return structure;
}

}  // namespace sinter::frontend
