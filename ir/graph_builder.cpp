#include <algorithm>
#include <unordered_map>

#include <fmt/format.h>
#include <sinter/error.h>

#include "ir/graph.h"
#include "ir/graph_checks.h"

namespace sinter::ir {
namespace {

void mix(std::size_t& hash, std::size_t value) {
  hash ^= value + 0x9e3779b97f4a7c15ull + (hash << 6) + (hash >> 2);
}

/// The inputs with the first two in order where they may be exchanged: a+b is b+a.
std::vector<ValueId> canonical_inputs(const Node& node) {
  std::vector<ValueId> inputs = node.inputs;
  if (node.op->commutative && inputs.size() >= 2 && inputs[1] < inputs[0])
    std::swap(inputs[0], inputs[1]);
  return inputs;
}

// Attributes and bodies are left to the comparison: operator and inputs tell most nodes apart.
std::size_t hash_of(const Node& node) {
  std::size_t hash = std::hash<const void*>()(node.op);
  for (const ValueId id : canonical_inputs(node)) mix(hash, static_cast<std::size_t>(id.index));
  return hash;
}

bool same_node(const Node& a, const Node& b) {
  if (a.op != b.op || canonical_inputs(a) != canonical_inputs(b) || !(a.attrs == b.attrs) ||
      (a.body == nullptr) != (b.body == nullptr))
    return false;
  return a.body == b.body || structurally_equal(*a.body, *b.body);
}

void merge_origins(std::vector<std::string>& into, const std::vector<std::string>& from) {
  into.insert(into.end(), from.begin(), from.end());
  std::sort(into.begin(), into.end());
  into.erase(std::unique(into.begin(), into.end()), into.end());
}

}  // namespace

struct GraphBuilder::Impl {
  Graph graph;
  std::vector<std::string> origins;
  std::unordered_multimap<std::uint64_t, ValueId> constants;  // by Tensor::hash
  std::unordered_multimap<std::size_t, NodeId> nodes;         // by hash_of

  ValueId new_value(Value value) {
    const ValueId id{static_cast<std::int32_t>(graph.values_.size())};
    graph.values_.push_back(std::move(value));
    return id;
  }

  Value& value(ValueId id) {
    if (!id.valid() || static_cast<std::size_t>(id.index) >= graph.values_.size())
      throw Error(ErrorCode::kInternal,
                  fmt::format("value {} does not exist in the graph being built", id.index));
    return graph.values_[static_cast<std::size_t>(id.index)];
  }
};

GraphBuilder::GraphBuilder(std::string name) : impl_(std::make_unique<Impl>()) {
  impl_->graph.name_ = std::move(name);
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
  Value value;
  value.type = std::move(type);
  value.name = std::move(name);
  const ValueId id = impl_->new_value(std::move(value));
  impl_->graph.inputs_.push_back(id);
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
    if (known.constant != tensor && !(*known.constant == *tensor)) continue;
    if (known.name.empty()) known.name = std::move(name);
    return it->second;
  }
  Value value;
  value.type = tensor->type();
  value.name = std::move(name);
  value.constant = std::move(tensor);
  const ValueId id = impl_->new_value(std::move(value));
  impl_->constants.emplace(hash, id);
  return id;
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

  Graph& graph = impl_->graph;
  const std::size_t hash = hash_of(node);
  const auto [begin, end] = impl_->nodes.equal_range(hash);
  for (auto it = begin; it != end; ++it) {
    Node& known = graph.nodes_[static_cast<std::size_t>(it->second.index)];
    if (!same_node(known, node)) continue;
    merge_origins(known.origins, node.origins);
    return known.outputs;
  }

  const NodeId id{static_cast<std::int32_t>(graph.nodes_.size())};
  for (std::size_t i = 0; i < output_types.size(); ++i) {
    Value value;
    value.type = std::move(output_types[i]);
    value.producer = id;
    value.output_index = static_cast<int>(i);
    node.outputs.push_back(impl_->new_value(std::move(value)));
  }
  graph.nodes_.push_back(std::move(node));
  impl_->nodes.emplace(hash, id);
  return graph.nodes_.back().outputs;
}

void GraphBuilder::output(std::string name, ValueId value) {
  impl_->value(value);
  impl_->graph.outputs_.push_back(value);
  impl_->graph.output_names_.push_back(std::move(name));
}

void GraphBuilder::range(std::string symbol, Range range) {
  check_range(symbol, range);
  impl_->graph.ranges_.insert_or_assign(std::move(symbol), std::move(range));
}

void GraphBuilder::state(State state) { impl_->graph.states_.push_back(state); }

void GraphBuilder::name(ValueId value, std::string name) {
  Value& named = impl_->value(value);
  if (named.name.empty()) named.name = std::move(name);
}

const TensorType& GraphBuilder::type(ValueId value) const { return impl_->value(value).type; }

const Tensor* GraphBuilder::constant_of(ValueId value) const {
  return impl_->value(value).constant.get();
}

const Node* GraphBuilder::producer(ValueId value) const {
  const NodeId id = impl_->value(value).producer;
  return id.valid() ? &impl_->graph.node(id) : nullptr;
}

const Ranges& GraphBuilder::ranges() const { return impl_->graph.ranges_; }

GraphBuilder::OriginScope::OriginScope(GraphBuilder& builder, std::vector<std::string> origins)
    : builder_(builder), saved_(std::move(builder.impl_->origins)) {
  std::sort(origins.begin(), origins.end());
  origins.erase(std::unique(origins.begin(), origins.end()), origins.end());
  builder_.impl_->origins = std::move(origins);
}

GraphBuilder::OriginScope::~OriginScope() { builder_.impl_->origins = std::move(saved_); }

Graph GraphBuilder::finish() {
  Graph& built = impl_->graph;
  if (built.outputs_.empty())
    throw Error(ErrorCode::kInvalidModel, fmt::format("graph '{}' has no outputs", built.name_));

  // Nodes are in topological order: backwards, every node has been reached before it is looked at.
  std::vector<bool> live(built.values_.size());
  const auto mark = [&](ValueId id) { live[static_cast<std::size_t>(id.index)] = true; };
  for (const ValueId id : built.inputs_) mark(id);
  for (const ValueId id : built.outputs_) mark(id);
  std::vector<bool> live_node(built.nodes_.size());
  for (std::size_t i = built.nodes_.size(); i-- > 0;) {
    const Node& node = built.nodes_[i];
    live_node[i] = std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId id) {
      return live[static_cast<std::size_t>(id.index)];
    });
    if (!live_node[i]) continue;
    for (const ValueId id : node.inputs) mark(id);
    for (const ValueId id : node.outputs) mark(id);
  }

  Graph graph;
  std::vector<NodeId> new_node(built.nodes_.size());
  for (std::size_t i = 0, next = 0; i < built.nodes_.size(); ++i)
    if (live_node[i]) new_node[i].index = static_cast<std::int32_t>(next++);
  std::vector<ValueId> new_value(built.values_.size());
  for (std::size_t i = 0; i < built.values_.size(); ++i) {
    if (!live[i]) continue;
    new_value[i].index = static_cast<std::int32_t>(graph.values_.size());
    Value& value = built.values_[i];
    if (value.producer.valid())
      value.producer = new_node[static_cast<std::size_t>(value.producer.index)];
    graph.values_.push_back(std::move(value));
  }
  const auto renumber = [&](std::vector<ValueId>& ids) {
    for (ValueId& id : ids) id = new_value[static_cast<std::size_t>(id.index)];
  };
  graph.users_.resize(graph.values_.size());
  for (std::size_t i = 0; i < built.nodes_.size(); ++i) {
    if (!live_node[i]) continue;
    Node& node = built.nodes_[i];
    renumber(node.inputs);
    renumber(node.outputs);
    for (const ValueId id : node.inputs) {
      auto& users = graph.users_[static_cast<std::size_t>(id.index)];
      if (users.empty() || users.back() != new_node[i]) users.push_back(new_node[i]);
    }
    graph.nodes_.push_back(std::move(node));
  }
  renumber(built.inputs_);
  renumber(built.outputs_);
  graph.name_ = std::move(built.name_);
  graph.inputs_ = std::move(built.inputs_);
  graph.outputs_ = std::move(built.outputs_);
  graph.output_names_ = std::move(built.output_names_);
  graph.ranges_ = std::move(built.ranges_);
  graph.states_ = std::move(built.states_);
  impl_ = std::make_unique<Impl>();
  with_context(fmt::format("graph '{}'", graph.name_), [&] { check_states(graph); });
  return graph;
}

}  // namespace sinter::ir
