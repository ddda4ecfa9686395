// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <unordered_map>

#include <fmt/format.h>
#include <sinter/error.h>

#include "ir/constants/recipe.h"
#include "ir/graph.h"
#include "ir/graph_checks.h"

namespace sinter::ir {
namespace {

void mix(std::size_t& hash, std::size_t value) {
  hash ^= value + 0x9e3779b97f4a7c15ull + (hash << 6) + (hash >> 2);
}

/// The inputs, with the first two sorted if the operator is commutative: a+b is b+a.
std::vector<ValueId> canonical_inputs(const Node& node) {
  std::vector<ValueId> inputs = node.inputs;
  if (node.op->commutative && inputs.size() >= 2 && inputs[1] < inputs[0])
    std::swap(inputs[0], inputs[1]);
  return inputs;
}

std::size_t hash_of(const Graph& body);

std::size_t hash_of(const Node& node) {
  std::size_t hash = std::hash<const void*>()(node.op);
  for (const ValueId id : canonical_inputs(node)) mix(hash, id.position());
  mix(hash, hash_of(node.attrs));
  if (node.body) mix(hash, hash_of(*node.body));
  return hash;
}

/// Equal for structurally equal bodies, whatever their node order: distinguishes thousands of
/// regions that read one value.
std::size_t hash_of(const Graph& body) {
  std::size_t sum = body.nodes().size();
  for (const Node& node : body.nodes()) {
    std::size_t hash = std::hash<const void*>()(node.op);
    mix(hash, hash_of(node.attrs));
    for (const ValueId input : node.inputs)
      if (const auto& constant = body.value(input).constant) mix(hash, constant->hash());
    sum += hash;
  }
  return sum;
}

bool same_node(const Node& a, const Node& b) {
  if (a.op != b.op || canonical_inputs(a) != canonical_inputs(b) || !(a.attrs == b.attrs) ||
      (a.body == nullptr) != (b.body == nullptr))
    return false;
  return a.body == b.body || structurally_equal(*a.body, *b.body);
}

/// Accumulates origins of equal nodes, which may be thousands: sorts them when their number has
/// doubled, and finally in finish().
void add_origins(std::vector<std::string>& into, std::size_t& in_order,
                 const std::vector<std::string>& from) {
  into.insert(into.end(), from.begin(), from.end());
  constexpr std::size_t kFew = 16;
  if (into.size() > kFew && into.size() < 2 * in_order) return;
  sort_unique(into);
  in_order = into.size();
}

}  // namespace

struct GraphBuilder::Impl {
  std::shared_ptr<Graph::Parts> graph = std::make_shared<Graph::Parts>();
  std::vector<std::string> origins;
  std::unordered_map<std::int32_t, std::size_t> merged;       // nodes, with their count of sorted
                                                              // origins
  std::unordered_multimap<std::uint64_t, ValueId> constants;  // by Tensor::hash
  std::unordered_multimap<std::size_t, NodeId> nodes;         // by hash_of
  std::vector<bool> constant;                                 // by node: is_constant
  std::map<std::string, ValueId, std::less<>> extents;        // by symbol

  ValueId new_value(Value value) {
    const ValueId id{static_cast<std::int32_t>(graph->values.size())};
    graph->values.push_back(std::move(value));
    return id;
  }

  /// Whether `node` depends on no graph input.
  bool is_constant(const Node& node) const {
    return std::ranges::all_of(node.inputs, [&](ValueId input) {
      const Value& value = graph->values[input.position()];
      return value.constant || (value.producer.valid() && constant[value.producer.position()]);
    });
  }

  Value& value(ValueId id) {
    if (!id.valid() || id.position() >= graph->values.size())
      throw Error(ErrorCode::kInternal,
                  fmt::format("value {} does not exist in the graph being built", id.index));
    return graph->values[id.position()];
  }
};

GraphBuilder::GraphBuilder(std::string name) : impl_(std::make_unique<Impl>()) {
  impl_->graph->name = std::move(name);
}
GraphBuilder::~GraphBuilder() = default;
GraphBuilder::GraphBuilder(GraphBuilder&&) noexcept = default;
GraphBuilder& GraphBuilder::operator=(GraphBuilder&&) noexcept = default;

ValueId GraphBuilder::input(std::string name, TensorType type) {
  try {
    check_type(type);
  } catch (Error& error) {
    error.add_context(fmt::format("input '{}'", name));
    throw;
  }
  const ValueId id = impl_->new_value({.type = std::move(type), .name = std::move(name)});
  impl_->graph->inputs.push_back(id);
  return id;
}

ValueId GraphBuilder::constant(Tensor tensor, std::string name) {
  return constant(std::make_shared<const Tensor>(std::move(tensor)), std::move(name));
}

ValueId GraphBuilder::constant(std::shared_ptr<const Tensor> tensor, std::string name) {
  const std::uint64_t hash = tensor->hash();
  const auto [begin, end] = impl_->constants.equal_range(hash);
  for (auto it = begin; it != end; ++it) {
    Value& known = impl_->value(it->second);
    if (known.constant != tensor && (differs_by_rank(*known.constant) != differs_by_rank(*tensor) ||
                                     !(*known.constant == *tensor)))
      continue;
    if (known.name.empty()) known.name = std::move(name);
    return it->second;
  }
  TensorType type = tensor->type();
  const ValueId id = impl_->new_value(
      {.type = std::move(type), .name = std::move(name), .constant = std::move(tensor)});
  impl_->constants.emplace(hash, id);
  return id;
}

ValueId GraphBuilder::placeholder(const TensorType& type) {
  return add("Placeholder", {},
             {{"dtype", type.dtype},
              {"id", static_cast<std::int64_t>(impl_->graph->values.size())},
              {"shape", type.shape}});
}

ValueId GraphBuilder::scalar(DType dtype, double value) {
  return constant(Tensor::scalar(dtype, value));
}

ValueId GraphBuilder::add(std::string_view op, std::vector<ValueId> inputs, Attrs attrs) {
  const auto outputs = add_multi(op, std::move(inputs), std::move(attrs));
  if (outputs.size() != 1)
    throw Error(ErrorCode::kInternal,
                fmt::format("{} has {} outputs, not one", op, outputs.size()));
  return outputs.front();
}

std::vector<ValueId> GraphBuilder::add_multi(std::string_view op_name, std::vector<ValueId> inputs,
                                             Attrs attrs, std::shared_ptr<const Graph> body) {
  const OpDef& op = get_op(op_name);
  Node node;
  node.op = &op;
  node.inputs = std::move(inputs);
  node.origins = impl_->origins;
  node.body = std::move(body);
  std::vector<TensorType> input_types;
  for (const ValueId id : node.inputs) input_types.push_back(impl_->value(id).type);

  std::vector<TensorType> output_types;
  try {
    node.attrs = complete_attrs(op, std::move(attrs));
    output_types = infer_types(op, node.attrs, input_types, node.body.get());
  } catch (Error& error) {
    error.add_context(describe(op, node.origins));
    throw;
  }

  Graph::Parts& graph = *impl_->graph;
  const std::size_t hash = hash_of(node);
  const auto [begin, end] = impl_->nodes.equal_range(hash);
  for (auto it = begin; it != end; ++it) {
    Node& known = graph.nodes[it->second.position()];
    if (!same_node(known, node)) continue;
    if (impl_->constant[it->second.position()]) {
      // Shared constants (a table, an epsilon) get no origins; otherwise each layer's kernel would
      // list the nodes of all layers.
      if (known.origins != node.origins) known.origins.clear();
      return known.outputs;
    }
    std::size_t& in_order =
        impl_->merged.emplace(it->second.index, known.origins.size()).first->second;
    add_origins(known.origins, in_order, node.origins);
    return known.outputs;
  }

  const NodeId id{static_cast<std::int32_t>(graph.nodes.size())};
  if (!impl_->extents.empty())
    for (const std::string& symbol : named_symbols(node, output_types))
      if (const ValueId extent = this->extent(symbol); extent.valid())
        node.extents.push_back(extent);
  std::ranges::sort(node.extents);
  for (std::size_t i = 0; i < output_types.size(); ++i)
    node.outputs.push_back(impl_->new_value(
        {.type = std::move(output_types[i]), .producer = id, .output_index = static_cast<int>(i)}));
  impl_->constant.push_back(impl_->is_constant(node));
  graph.nodes.push_back(std::move(node));
  impl_->nodes.emplace(hash, id);
  const Node& added = graph.nodes.back();
  if (op.kind == OpKind::kExtent &&
      !impl_->extents.emplace(added.attrs.get_string("symbol"), added.outputs[0]).second)
    throw Error(ErrorCode::kInternal,
                fmt::format("'{}' stands for two sizes", added.attrs.get_string("symbol")));
  return added.outputs;
}

void GraphBuilder::output(std::string name, ValueId value) {
  impl_->value(value);
  impl_->graph->outputs.push_back(value);
  impl_->graph->output_names.push_back(std::move(name));
}

void GraphBuilder::range(std::string symbol, Range range) {
  check_range(symbol, range);
  impl_->graph->ranges.insert_or_assign(std::move(symbol), std::move(range));
}

void GraphBuilder::state(State state) { impl_->graph->states.push_back(state); }

void GraphBuilder::name(ValueId value, std::string name) {
  Value& named = impl_->value(value);
  if (named.name.empty()) named.name = std::move(name);
}

const std::string& GraphBuilder::name(ValueId value) const { return impl_->value(value).name; }

const TensorType& GraphBuilder::type(ValueId value) const { return impl_->value(value).type; }

const Tensor* GraphBuilder::constant_of(ValueId value) const {
  return impl_->value(value).constant.get();
}

std::shared_ptr<const Tensor> GraphBuilder::shared_constant(ValueId value) const {
  return impl_->value(value).constant;
}

ValueId GraphBuilder::extent(std::string_view symbol) const {
  const auto known = impl_->extents.find(symbol);
  return known == impl_->extents.end() ? ValueId() : known->second;
}

const Node* GraphBuilder::producer(ValueId value) const {
  const NodeId id = impl_->value(value).producer;
  return id.valid() ? &impl_->graph->nodes[id.position()] : nullptr;
}

const Ranges& GraphBuilder::ranges() const { return impl_->graph->ranges; }

GraphBuilder::OriginScope::OriginScope(GraphBuilder& builder, std::vector<std::string> origins)
    : builder_(builder), saved_(std::move(builder.impl_->origins)) {
  sort_unique(origins);
  builder_.impl_->origins = std::move(origins);
}

GraphBuilder::OriginScope::~OriginScope() { builder_.impl_->origins = std::move(saved_); }

Graph GraphBuilder::finish() {
  Graph::Parts& built = *impl_->graph;
  for (const auto& [node, in_order] : impl_->merged)
    sort_unique(built.nodes[static_cast<std::size_t>(node)].origins);
  if (built.outputs.empty())
    throw Error(ErrorCode::kInvalidModel, fmt::format("graph '{}' has no outputs", built.name));

  // Nodes are in topological order: backwards, all readers of a node are visited before it.
  std::vector<bool> live(built.values.size());
  const auto mark = [&](ValueId id) { live[id.position()] = true; };
  for (const ValueId id : built.inputs) mark(id);
  for (const ValueId id : built.outputs) mark(id);
  std::vector<bool> live_node(built.nodes.size());
  for (std::size_t i = built.nodes.size(); i-- > 0;) {
    const Node& node = built.nodes[i];
    live_node[i] =
        is_size_check(node, built.ranges) ||
        std::ranges::any_of(node.outputs, [&](ValueId id) { return live[id.position()]; });
    if (!live_node[i]) continue;
    for (const auto* ids : {&node.inputs, &node.outputs, &node.extents})
      for (const ValueId id : *ids) mark(id);
  }

  auto parts = std::make_shared<Graph::Parts>();
  Graph::Parts& graph = *parts;
  std::vector<NodeId> new_node(built.nodes.size());
  for (std::size_t i = 0, next = 0; i < built.nodes.size(); ++i)
    if (live_node[i]) new_node[i].index = static_cast<std::int32_t>(next++);
  std::vector<ValueId> new_value(built.values.size());
  graph.values.reserve(static_cast<std::size_t>(std::ranges::count(live, true)));
  graph.nodes.reserve(static_cast<std::size_t>(std::ranges::count(live_node, true)));
  for (std::size_t i = 0; i < built.values.size(); ++i) {
    if (!live[i]) continue;
    new_value[i].index = static_cast<std::int32_t>(graph.values.size());
    Value& value = built.values[i];
    if (value.producer.valid()) value.producer = new_node[value.producer.position()];
    graph.values.push_back(std::move(value));
  }
  const auto renumber = [&](std::vector<ValueId>& ids) {
    for (ValueId& id : ids) id = new_value[id.position()];
  };
  graph.users.resize(graph.values.size());
  for (std::size_t i = 0; i < built.nodes.size(); ++i) {
    if (!live_node[i]) continue;
    Node& node = built.nodes[i];
    renumber(node.inputs);
    renumber(node.outputs);
    renumber(node.extents);
    for (const auto* ids : {&node.inputs, &node.extents})
      for (const ValueId id : *ids) {
        auto& users = graph.users[id.position()];
        if (users.empty() || users.back() != new_node[i]) users.push_back(new_node[i]);
      }
    graph.nodes.push_back(std::move(node));
  }
  renumber(built.inputs);
  renumber(built.outputs);
  graph.name = std::move(built.name);
  graph.inputs = std::move(built.inputs);
  graph.outputs = std::move(built.outputs);
  graph.output_names = std::move(built.output_names);
  graph.ranges = std::move(built.ranges);
  graph.states = std::move(built.states);
  graph.is_output.resize(graph.values.size());
  for (const ValueId id : graph.outputs) graph.is_output[id.position()] = true;
  impl_ = std::make_unique<Impl>();
  const Graph result(std::move(parts));
  with_context(fmt::format("graph '{}'", result.name()), [&] { check_states(result); });
  return result;
}

}  // namespace sinter::ir
