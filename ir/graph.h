// SPDX-License-Identifier: Apache-2.0
// The dataflow graph: immutable, typed, in topological order.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/attributes.h"
#include "ir/op_def.h"
#include "ir/tensor.h"

namespace sinter::ir {

/// Sorts names of ONNX nodes and removes duplicates: merges the origins of nodes.
void sort_unique(std::vector<std::string>& names);

struct ValueId {
  std::int32_t index = -1;
  bool valid() const { return index >= 0; }
  std::size_t position() const { return static_cast<std::size_t>(index); }
  friend auto operator<=>(const ValueId&, const ValueId&) = default;
};
struct NodeId {
  std::int32_t index = -1;
  bool valid() const { return index >= 0; }
  std::size_t position() const { return static_cast<std::size_t>(index); }
  friend auto operator<=>(const NodeId&, const NodeId&) = default;
};

/// A value: a graph input, a constant, or an output of a node.
struct Value {
  TensorType type;
  std::string name;  // the model's name for it, or empty
  NodeId producer;   // invalid for inputs and constants
  int output_index = 0;
  std::shared_ptr<const Tensor> constant;  // null unless a constant
};

struct Node {
  const OpDef* op = nullptr;
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  Attrs attrs;
  std::vector<std::string> origins;   // names of the ONNX nodes this comes from, sorted, unique
  std::shared_ptr<const Graph> body;  // fused nodes only; body inputs correspond to `inputs`
  /// Results of the Extent nodes whose symbols this node uses without reading them as inputs: in
  /// attributes, output types or its body. They precede the node. Sorted and unique.
  std::vector<ValueId> extents;
};

/// A state: output `output` of one run becomes input `input` of the next.
struct State {
  int input = 0;
  int output = 0;
  friend bool operator==(const State&, const State&) = default;
};

class Graph {
 public:
  Graph();
  const std::string& name() const { return parts_->name; }
  /// Values in creation order; ids index this.
  const std::vector<Value>& values() const { return parts_->values; }
  const Value& value(ValueId id) const { return parts_->values[id.position()]; }
  const TensorType& type(ValueId id) const { return value(id).type; }
  std::vector<TensorType> types(std::span<const ValueId> ids) const;
  /// Nodes in topological order; ids index this.
  const std::vector<Node>& nodes() const { return parts_->nodes; }
  const Node& node(NodeId id) const { return parts_->nodes[id.position()]; }
  /// The producer of `id`, or null for inputs and constants.
  const Node* producer(ValueId id) const;
  const std::vector<ValueId>& inputs() const { return parts_->inputs; }
  /// The index of `id` among the inputs; nothing if it is none.
  std::optional<std::size_t> input_number(ValueId id) const;
  const std::vector<ValueId>& outputs() const { return parts_->outputs; }
  const std::vector<std::string>& output_names() const { return parts_->output_names; }
  const Ranges& ranges() const { return parts_->ranges; }
  const std::vector<State>& states() const { return parts_->states; }
  /// Nodes that read `id`, or use the symbol of the size that it holds; in order and unique.
  const std::vector<NodeId>& users(ValueId id) const { return parts_->users[id.position()]; }
  bool is_output(ValueId id) const { return parts_->is_output[id.position()]; }
  bool is_constant(ValueId id) const { return value(id).constant != nullptr; }
  /// True for copies of one graph, which share their contents.
  bool is_same(const Graph& other) const { return parts_ == other.parts_; }

 private:
  friend class GraphBuilder;
  struct Parts {
    std::string name;
    std::vector<Value> values;
    std::vector<Node> nodes;
    std::vector<ValueId> inputs, outputs;
    std::vector<std::string> output_names;
    Ranges ranges;
    std::vector<State> states;
    std::vector<std::vector<NodeId>> users;
    std::vector<bool> is_output;  // by value
  };
  explicit Graph(std::shared_ptr<const Parts> parts) : parts_(std::move(parts)) {}

  std::shared_ptr<const Parts> parts_;
};

/// Symbols that a node with these outputs uses: in attributes, output types or its body, except
/// those that the body itself computes (Extent).
std::set<std::string> named_symbols(const Node& node, Types outputs);

/// Structural equality: same inputs, nodes, attributes, constants, outputs, ranges and states, up
/// to the numbering of values. Ignores names and origins.
bool structurally_equal(const Graph& a, const Graph& b);

/// Builds a Graph. Infers types as nodes are added and shares equal nodes; finish() keeps only what
/// the outputs need. Type errors throw Error(kInvalidModel) that names the node.
class GraphBuilder {
 public:
  explicit GraphBuilder(std::string name = "main");
  ~GraphBuilder();
  GraphBuilder(GraphBuilder&&) noexcept;
  GraphBuilder& operator=(GraphBuilder&&) noexcept;

  ValueId input(std::string name, TensorType type);
  ValueId constant(Tensor tensor, std::string name = {});
  ValueId constant(std::shared_ptr<const Tensor> tensor, std::string name = {});
  /// A value without readers in the finished graph: an input of a body that is built among the
  /// outer nodes.
  ValueId placeholder(const TensorType& type);
  /// A rank-0 constant of `dtype`.
  ValueId scalar(DType dtype, double value);
  /// Adds a node of one output and returns it.
  ValueId add(std::string_view op, std::vector<ValueId> inputs, Attrs attrs = {});
  /// Adds a node with any number of outputs.
  std::vector<ValueId> add_multi(std::string_view op, std::vector<ValueId> inputs, Attrs attrs = {},
                                 std::shared_ptr<const Graph> body = nullptr);
  void output(std::string name, ValueId value);
  void range(std::string symbol, Range range);
  void state(State state);
  /// Sets the model's name of a value, if it has none.
  void name(ValueId value, std::string name);

  const TensorType& type(ValueId value) const;
  /// The model's name for `value`, or nothing.
  const std::string& name(ValueId value) const;
  /// The constant `value`, or null.
  const Tensor* constant_of(ValueId value) const;
  std::shared_ptr<const Tensor> shared_constant(ValueId value) const;
  /// The result of the Extent node whose symbol is `symbol`, or an invalid id.
  ValueId extent(std::string_view symbol) const;
  /// The producer of `value`, or null. The pointer is valid until the next node is added.
  const Node* producer(ValueId value) const;
  const Ranges& ranges() const;

  /// Nodes added during an OriginScope's lifetime get its origins; an inner scope overrides an
  /// outer one.
  class OriginScope {
   public:
    OriginScope(GraphBuilder& builder, std::vector<std::string> origins);
    ~OriginScope();
    OriginScope(const OriginScope&) = delete;
    OriginScope& operator=(const OriginScope&) = delete;

   private:
    GraphBuilder& builder_;
    std::vector<std::string> saved_;
  };

  /// Checks, drops what no output needs (inputs always stay), and returns the graph.
  Graph finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Copies a graph node by node: the frame of most passes. `visit` gets each node with mapped
/// inputs, and returns new values of its outputs, or nothing to copy the node. Names, origins,
/// ranges, states and outputs are kept; an output whose type has changed throws
/// Error(kInternal).
using RewriteVisit = std::function<std::optional<std::vector<ValueId>>(
    GraphBuilder& builder, const Graph& old, const Node& node, std::span<const ValueId> inputs)>;
Graph rewrite(const Graph& graph, const RewriteVisit& visit);

/// Copies `body` into `builder` with `inputs` in place of its inputs; returns its outputs. Nodes
/// keep their origins, or get the builder's if they have none.
std::vector<ValueId> inline_graph(GraphBuilder& builder, const Graph& body,
                                  std::span<const ValueId> inputs);
/// Returns `values` of the body instead of its outputs.
std::vector<ValueId> inline_graph(GraphBuilder& builder, const Graph& body,
                                  std::span<const ValueId> inputs, std::span<const ValueId> values);

/// Checks every invariant (topological order, arity, attribute schema, inferred types equal to
/// stored ones, users, bodies recursively); throws Error(kInternal) naming the node.
void verify(const Graph& graph);

}  // namespace sinter::ir
