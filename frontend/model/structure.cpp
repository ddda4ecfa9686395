// SPDX-License-Identifier: Apache-2.0
#include "frontend/model/structure.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <unordered_map>

#include <onnx.pb.h>

#include "runtime/format_error.h"

namespace sinter::frontend {
namespace {

[[noreturn]] void invalid(std::string message) { throw invalid_model_error(std::move(message)); }

constexpr int kNotANode = -1;

/// Names that `graph` and its subgraphs read but do not define.
void collect_captures(const onnx::GraphProto& graph, std::vector<std::string>& captures) {
  std::unordered_set<std::string> defined;
  for (const auto& input : graph.input()) defined.insert(input.name());
  for (const auto& tensor : graph.initializer()) defined.insert(tensor.name());
  for (const auto& sparse : graph.sparse_initializer()) defined.insert(sparse.values().name());
  for (const auto& node : graph.node())
    for (const std::string& name : node.output()) defined.insert(name);
  std::vector<std::string> read;
  for (const auto& node : graph.node()) {
    read.insert(read.end(), node.input().begin(), node.input().end());
    for (const auto& attribute : node.attribute())
      if (attribute.has_g()) collect_captures(attribute.g(), read);
  }
  for (const auto& output : graph.output()) read.push_back(output.name());
  for (std::string& name : read)
    if (!name.empty() && defined.count(name) == 0) captures.push_back(std::move(name));
}

/// Names that a node reads: its inputs and its subgraphs' captures.
std::vector<std::string> names_read(const onnx::NodeProto& node) {
  std::vector<std::string> names;
  for (const std::string& name : node.input())
    if (!name.empty()) names.push_back(name);
  for (const auto& attribute : node.attribute())
    if (attribute.has_g()) collect_captures(attribute.g(), names);
  return names;
}

/// The definition of each value name: a node's index, or kNotANode for inputs and initializers.
std::unordered_map<std::string, int> collect_definitions(const Body& body) {
  std::unordered_map<std::string, int> definitions;
  for (const std::string& input : body.inputs) {
    if (input.empty()) invalid("a graph input has no name");
    if (!definitions.emplace(input, kNotANode).second)
      invalid(fmt::format("two graph inputs are named '{}'; names must be unique", input));
  }
  std::unordered_set<std::string> initializers;
  for (const std::string& tensor : body.initializers) {
    if (tensor.empty()) invalid("an initializer has no name");
    if (!initializers.insert(tensor).second)
      invalid(fmt::format("two initializers are named '{}'; names must be unique", tensor));
    definitions.emplace(tensor, kNotANode);  // may also be an input, whose default it then is
  }
  const auto label = [&](int i) { return node_label(*body.nodes[static_cast<std::size_t>(i)], i); };
  for (int i = 0; i < static_cast<int>(body.nodes.size()); ++i) {
    for (const std::string& name : body.nodes[static_cast<std::size_t>(i)]->output()) {
      if (name.empty()) continue;
      const auto [previous, is_new] = definitions.emplace(name, i);
      if (is_new) continue;
      const std::string other = previous->second == kNotANode
                                    ? "a graph input or initializer"
                                    : fmt::format("node '{}'", label(previous->second));
      invalid(
          fmt::format("value '{}' is defined twice: by {} and by node '{}'; names must be unique",
                      name, other, label(i)));
    }
  }
  return definitions;
}

/// The names of the nodes of one cycle among the nodes that the topological sort did not reach.
std::string describe_cycle(const Body& body,
                           const std::unordered_map<std::string, int>& definitions,
                           const std::vector<int>& waiting_for) {
  // Every unreached node reads an output of another unreached node, so following such inputs ends
  // in a cycle.
  const auto predecessor = [&](int node) {
    for (const std::string& name : names_read(*body.nodes[static_cast<std::size_t>(node)])) {
      const auto found = definitions.find(name);
      if (found == definitions.end() || found->second == kNotANode) continue;
      if (waiting_for[static_cast<std::size_t>(found->second)] > 0) return found->second;
    }
    return kNotANode;
  };
  const auto label = [&](int i) { return node_label(*body.nodes[static_cast<std::size_t>(i)], i); };
  int node = kNotANode;
  for (int i = 0; i < static_cast<int>(body.nodes.size()) && node == kNotANode; ++i)
    if (waiting_for[static_cast<std::size_t>(i)] > 0) node = i;
  std::vector<int> path;
  std::vector<bool> visited(waiting_for.size(), false);
  while (!visited[static_cast<std::size_t>(node)]) {
    visited[static_cast<std::size_t>(node)] = true;
    path.push_back(node);
    node = predecessor(node);
  }
  path.erase(path.begin(), std::ranges::find(path, node));
  std::ranges::reverse(path);
  // Shows only the first nodes of a long cycle.
  constexpr std::size_t kShown = 12;
  std::string text;
  for (std::size_t i = 0; i < path.size() && i < kShown; ++i)
    text += fmt::format("'{}' -> ", label(path[i]));
  if (path.size() > kShown) text += fmt::format("... {} more ... -> ", path.size() - kShown);
  return text + fmt::format("'{}'", label(path[0]));
}

/// Reads versions by domain from `imports` of `what` ("the model").
template <typename Imports>
Opsets read_opsets(const Imports& imports, const std::string& what) {
  Opsets opsets;
  for (const auto& import : imports) {
    const std::string domain = is_onnx_domain(import.domain()) ? "" : import.domain();
    const auto [known, is_new] = opsets.emplace(domain, import.version());
    if (!domain.empty()) continue;
    if (!is_new && known->second != import.version())
      invalid(fmt::format("{} imports two versions of the ai.onnx operator set, {} and {}", what,
                          import.version(), known->second));
    if (import.version() < kMinOpset || import.version() > kMaxOpset)
      throw unsupported_error(
          "{} uses version {} of the ai.onnx operator set; supported are {} to {}: export with "
          "another opset, or convert with onnx.version_converter",
          what, import.version(), kMinOpset, kMaxOpset);
  }
  return opsets;
}

/// The first node of ai.onnx, or null.
template <typename Nodes>
const onnx::NodeProto* first_onnx_node(const Nodes& nodes) {
  for (const auto& node : nodes)
    if (is_onnx_domain(node.domain())) return &node;
  return nullptr;
}

}  // namespace

bool is_onnx_domain(const std::string& domain) { return domain.empty() || domain == "ai.onnx"; }

std::string plain_domain(const std::string& domain) {
  return is_onnx_domain(domain) ? std::string() : domain;
}

std::string node_label(const onnx::NodeProto& node, int index) {
  return node.name().empty() ? fmt::format("{}_{}", node.op_type(), index) : node.name();
}

Body body_of(const onnx::GraphProto& graph, Body::Kind kind) {
  Body body;
  body.kind = kind;
  for (const auto& node : graph.node()) body.nodes.push_back(&node);
  for (const auto& input : graph.input()) body.inputs.push_back(input.name());
  for (const auto& tensor : graph.initializer()) body.initializers.push_back(tensor.name());
  for (const auto& sparse : graph.sparse_initializer())
    body.initializers.push_back(sparse.values().name());
  for (const auto& output : graph.output()) body.outputs.push_back(output.name());
  return body;
}

Body body_of(const onnx::FunctionProto& function) {
  Body body;
  body.kind = Body::Kind::kFunction;
  for (const auto& node : function.node()) body.nodes.push_back(&node);
  body.inputs.assign(function.input().begin(), function.input().end());
  body.outputs.assign(function.output().begin(), function.output().end());
  return body;
}

Opsets checked_opsets(const onnx::ModelProto& model) {
  Opsets opsets = read_opsets(model.opset_import(), "the model");
  if (opsets.count("") != 0) return opsets;
  const auto* node = first_onnx_node(model.graph().node());
  if (node == nullptr && model.opset_import_size() > 0) return opsets;
  invalid(
      fmt::format("the model does not say which version of the ai.onnx operator set it uses (no "
                  "opset_import){}: it is truncated or not written by an ONNX exporter",
                  node == nullptr ? "" : fmt::format(", but has a node {}", node->op_type())));
}

Opsets checked_opsets(const onnx::FunctionProto& function, const Opsets& outer) {
  Opsets opsets = read_opsets(function.opset_import(), "the function");
  opsets.insert(outer.begin(), outer.end());
  if (opsets.count("") == 0)
    if (const auto* node = first_onnx_node(function.node()))
      invalid(
          fmt::format("the function does not say which version of the ai.onnx operator set it "
                      "uses, but has a node {}",
                      node->op_type()));
  return opsets;
}

GraphStructure check_structure(const Body& body) {
  const bool is_model = body.kind == Body::Kind::kModel;
  if (body.outputs.empty()) invalid("the graph has no outputs: nothing would be computed");
  const auto definitions = collect_definitions(body);

  GraphStructure structure;
  const std::size_t count = body.nodes.size();
  std::vector<int> waiting_for(count, 0);  // number of inputs whose producer is not placed yet
  std::vector<std::vector<int>> consumers(count);
  for (std::size_t i = 0; i < count; ++i) {
    for (const std::string& name : names_read(*body.nodes[i])) {
      structure.used.insert(name);
      const auto found = definitions.find(name);
      if (found == definitions.end()) {
        if (body.kind == Body::Kind::kSubgraph) continue;
        invalid(fmt::format(
            "node '{}' ({}) reads '{}', which no graph input, initializer or node defines",
            node_label(*body.nodes[i], static_cast<int>(i)), body.nodes[i]->op_type(), name));
      }
      if (found->second == kNotANode) continue;
      if (found->second >= static_cast<int>(i)) structure.was_sorted = false;
      consumers[static_cast<std::size_t>(found->second)].push_back(static_cast<int>(i));
      ++waiting_for[i];
    }
  }
  std::unordered_set<std::string> outputs;
  for (const std::string& output : body.outputs) {
    if (definitions.find(output) == definitions.end() && body.kind != Body::Kind::kSubgraph)
      invalid(fmt::format(
          "the graph returns '{}', which no graph input, initializer or node defines", output));
    if (!outputs.insert(output).second && is_model)
      invalid(fmt::format("two graph outputs are named '{}'; names must be unique", output));
    structure.used.insert(output);
  }

  // Takes the lowest ready index first: a sorted graph keeps its order, an unsorted one changes
  // little.
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
        fmt::format("the graph has a cycle: {}", describe_cycle(body, definitions, waiting_for)));
  return structure;
}

}  // namespace sinter::frontend
