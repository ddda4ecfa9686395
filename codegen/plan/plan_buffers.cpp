#include "codegen/plan/plan_buffers.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>
#include <sinter/error.h>

#include "codegen/program/describe.h"
#include "codegen/program/loop_lowering.h"

namespace sinter::codegen {

using plan::fb::BufferKind;

namespace {

/// Where `value` stands among `list`, or nothing.
std::optional<std::size_t> position_of(const std::vector<ValueId>& list, ValueId value) {
  const auto at = std::ranges::find(list, value);
  if (at == list.end()) return std::nullopt;
  return static_cast<std::size_t>(at - list.begin());
}

/// "'add_mul' of 'layer/Add_3'": a region's operators, and the ONNX nodes that it comes from.
std::string label(const Node& node) {
  const std::string stem = "'" + name_stem(node) + "'";
  return node.origins.empty() ? stem : stem + " of '" + node.origins.front() + "'";
}

bool reads_once(const Graph& body, ValueId input) {
  const auto& users = body.users(input);
  if (users.size() != 1) return false;
  const auto& reads = body.node(users[0]).inputs;
  return std::ranges::count(reads, input) == 1;
}

}  // namespace

std::vector<ScatterRegion> scatter_regions(const Node& node) {
  if (!node.body) return {};
  const std::string& kind = node.attrs.get_string("kind");
  if (kind == "scatter") {
    const ScatteredValues found = scattered_values(*node.body);
    const Node& scatter = *node.body->producer(node.body->outputs()[found.result]);
    return {{found.data, found.result, node.body->type(scatter.inputs[1]),
             reads_once(*node.body, node.body->inputs()[found.data])}};
  }
  std::vector<ScatterRegion> regions;
  if (kind != "horizontal" && kind != "attention") return regions;
  for (const Node& part : node.body->nodes())
    for (const ScatterRegion& inner : scatter_regions(part)) {
      const ValueId data = part.inputs[inner.data];
      const auto from = position_of(node.body->inputs(), data);
      const auto to = position_of(node.body->outputs(), part.outputs[inner.result]);
      if (!from || !to)
        throw Error(ErrorCode::kInternal, "a scatter among others changes what is no operand");
      regions.push_back(
          {*from, *to, inner.updates, inner.reads_once && reads_once(*node.body, data)});
    }
  return regions;
}

PlanBuffers::PlanBuffers(const Graph& graph, ExprTable& exprs, const Graph& bindings)
    : graph_(&graph), exprs_(exprs) {
  for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
    const ir::Value& info = graph.value(graph.inputs()[i]);
    const TensorType type{info.type.dtype, bindings.type(bindings.inputs()[i]).shape};
    const auto& states = graph.states();
    const auto state = std::ranges::find_if(
        states, [&](const ir::State& one) { return one.input == static_cast<int>(i); });
    const bool kept = state != states.end();
    const std::size_t number = kept ? static_cast<std::size_t>(state - states.begin()) : i;
    const std::uint32_t buffer =
        add(kept ? BufferKind::State : BufferKind::Input, type, static_cast<std::uint32_t>(number));
    if (kept) state_of_output_.emplace(state->output, buffer);
    inputs_.push_back(binding(info.name, type, buffer));
  }
  for (std::size_t i = 0; i < graph.outputs().size(); ++i) {
    const TensorType type{graph.type(graph.outputs()[i]).dtype,
                          bindings.type(bindings.outputs()[i]).shape};
    const auto state = state_of_output_.find(static_cast<int>(i));
    const std::uint32_t buffer = state != state_of_output_.end()
                                     ? state->second
                                     : add(BufferKind::Output, type, static_cast<std::uint32_t>(i));
    outputs_.push_back(binding(graph.output_names()[i], type, buffer));
  }
  begin(graph);
}

void PlanBuffers::begin(const Graph& graph) {
  const auto differ = [](const std::string& name) {
    throw Error(ErrorCode::kInternal, "entry points differ in '" + name + "'");
  };
  if (graph.inputs().size() != inputs_.size() || graph.outputs().size() != outputs_.size() ||
      graph.states() != graph_->states())
    differ("their bindings");
  graph_ = &graph;
  by_value_.clear();
  in_place_.clear();
  not_in_place_.clear();
  share_scattered();
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    const ir::Value& info = graph.value(graph.inputs()[i]);
    if (info.name != inputs_[i]->name ||
        static_cast<std::uint8_t>(info.type.dtype) != inputs_[i]->dtype)
      differ(info.name);
    by_value_.emplace(root(graph.inputs()[i]), inputs_[i]->buffer);
  }
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    const ValueId value = graph.outputs()[i];
    if (static_cast<std::uint8_t>(graph.type(value).dtype) != outputs_[i]->dtype)
      differ(outputs_[i]->name);
    // A state keeps its old value until all steps have read it.
    if (state_of_output_.contains(static_cast<int>(i))) continue;
    // The first output of a computed value is where it is computed.
    const ValueId origin = root(value);
    if (graph.producer(origin)) by_value_.emplace(origin, outputs_[i]->buffer);
  }
}

ValueId PlanBuffers::root(ValueId value) const {
  for (;;) {
    if (const auto moved = in_place_.find(value); moved != in_place_.end()) {
      value = moved->second;
      continue;
    }
    const Node* node = graph_->producer(value);
    if (!node || node->op->name != "Reshape") return value;
    value = node->inputs[0];
  }
}

bool PlanBuffers::is_state(ValueId input) const {
  return std::ranges::any_of(graph_->states(), [&](const ir::State& state) {
    return graph_->inputs()[static_cast<std::size_t>(state.input)] == input;
  });
}

void PlanBuffers::share_scattered() {
  // The last node that reads each root; outputs are read after all.
  std::map<ValueId, std::size_t> last;
  for (std::size_t n = 0; n < graph_->nodes().size(); ++n)
    if (graph_->nodes()[n].op->name != "Reshape")
      for (const ValueId input : graph_->nodes()[n].inputs) last[root(input)] = n;
  for (const ValueId output : graph_->outputs()) last[root(output)] = graph_->nodes().size();
  std::map<ValueId, ValueId> in_place;
  for (std::size_t n = 0; n < graph_->nodes().size(); ++n) {
    const Node& node = graph_->nodes()[n];
    for (const ScatterRegion& region : scatter_regions(node)) {
      const ValueId data = root(node.inputs[region.data]);
      // What the node reads beside must not see what it writes.
      const bool once = region.reads_once && std::ranges::count_if(node.inputs, [&](ValueId input) {
                                               return root(input) == data;
                                             }) == 1;
      if ((graph_->producer(data) || is_state(data)) && last[data] == n && once)
        in_place.emplace(data, node.outputs[region.result]);
      else if (!once)
        not_in_place_[data] = fmt::format("{} reads its old value beside", label(node));
      else if (last[data] < graph_->nodes().size())
        not_in_place_[data] = fmt::format("{} reads its old value after {} has changed it",
                                          label(graph_->nodes()[last[data]]), label(node));
      else
        not_in_place_[data] = "its old value is an output, too";
    }
  }
  in_place_ = std::move(in_place);
}

std::uint32_t PlanBuffers::add(BufferKind kind, const TensorType& type, std::uint32_t binding) {
  plan::fb::BufferT buffer;
  buffer.kind = kind;
  buffer.dtype = static_cast<std::uint8_t>(type.dtype);
  bytes_.push_back(ir::element_count(type.shape) *
                   Dim(static_cast<std::int64_t>(size_of(type.dtype))));
  buffer.bytes = exprs_.intern(bytes_.back());
  buffer.binding = binding;
  buffers_.push_back(std::move(buffer));
  used_.push_back(false);
  return static_cast<std::uint32_t>(buffers_.size() - 1);
}

std::unique_ptr<plan::fb::BindingT> PlanBuffers::binding(const std::string& name,
                                                         const TensorType& type,
                                                         std::uint32_t buffer) {
  auto result = std::make_unique<plan::fb::BindingT>();
  result->name = name;
  result->dtype = static_cast<std::uint8_t>(type.dtype);
  for (const Dim& dim : type.shape) result->shape.push_back(exprs_.intern(dim));
  result->buffer = buffer;
  return result;
}

std::uint32_t PlanBuffers::of(ValueId value) {
  value = root(value);
  if (const auto known = by_value_.find(value); known != by_value_.end()) return known->second;
  const ir::Value& info = graph_->value(value);
  const std::uint32_t buffer =
      info.constant ? weight(info.constant) : add(BufferKind::Arena, info.type, 0);
  by_value_.emplace(value, buffer);
  return buffer;
}

std::uint32_t PlanBuffers::weight(const std::shared_ptr<const Tensor>& constant) {
  const std::uint64_t hash = constant->hash();
  const auto [begin, end] = weights_by_hash_.equal_range(hash);
  for (auto it = begin; it != end; ++it)
    if (*it->second.first == *constant) return it->second.second;
  const std::uint32_t buffer = add(BufferKind::Weight, constant->type(), 0);
  weights_.emplace(buffer, constant);
  weights_by_hash_.emplace(hash, std::make_pair(constant, buffer));
  return buffer;
}

std::shared_ptr<const Tensor> PlanBuffers::constant_of(std::uint32_t buffer) const {
  const auto at = weights_.find(buffer);
  return at == weights_.end() ? nullptr : at->second;
}

BufferSize PlanBuffers::size(std::uint32_t buffer) const {
  return {bytes_[buffer], size_of(type(buffer))};
}

DType PlanBuffers::type(std::uint32_t buffer) const {
  return static_cast<DType>(buffers_[buffer].dtype);
}

std::vector<PlanBuffers::Copy> PlanBuffers::copies() {
  std::vector<Copy> result, states;
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    std::uint32_t source = of(graph_->outputs()[i]);
    const std::uint32_t target = outputs_[i]->buffer;
    if (source == target) continue;
    const bool is_state = state_of_output_.contains(static_cast<int>(i));
    if (is_state && buffers_[source].kind == BufferKind::State) {
      // The other state may have its new value before this one is copied.
      const std::uint32_t between = scratch(graph_->type(graph_->outputs()[i]));
      result.push_back({source, between, i});
      source = between;
    }
    (is_state ? states : result).push_back({source, target, i});
  }
  result.insert(result.end(), states.begin(), states.end());
  return result;
}

std::string PlanBuffers::why_copied(const ir::State& state) {
  const ValueId input = graph_->inputs()[static_cast<std::size_t>(state.input)];
  const ValueId output = graph_->outputs()[static_cast<std::size_t>(state.output)];
  if (of(input) == of(output)) return "";
  const auto refused = not_in_place_.find(input);
  if (refused != not_in_place_.end()) return refused->second;
  const Node* node = graph_->producer(root(output));
  return node ? fmt::format("{} makes a new value, it does not change the old one", label(*node))
              : "it is another input";
}

void PlanBuffers::use(std::uint32_t buffer, std::uint32_t step) {
  plan::fb::BufferT& entry = buffers_[buffer];
  if (entry.kind == BufferKind::Arena) {
    entry.first_step = used_[buffer] ? std::min(entry.first_step, step) : step;
    entry.last_step = used_[buffer] ? std::max(entry.last_step, step) : step;
  }
  used_[buffer] = true;
}

void PlanBuffers::place_weights(plan::PlanParts& parts) {
  constexpr std::uint64_t kAlignment = plan::kWeightAlignment;
  std::uint64_t end = 0;
  for (const auto& [buffer, constant] : weights_) {
    if (!used_[buffer]) {
      buffers_[buffer].bytes = exprs_.intern(0);
      continue;
    }
    end = (end + kAlignment - 1) / kAlignment * kAlignment;
    buffers_[buffer].weight_offset = end;
    parts.weights.emplace_back(end, constant->byte_count(), [constant = constant] {
      ir::HeldBytes held = constant->hold();
      return plan::PieceBytes{held.bytes, std::move(held.owner)};
    });
    end += constant->byte_count();
  }
}

void PlanBuffers::write(plan::PlanParts& parts) {
  place_weights(parts);
  for (plan::fb::BufferT& buffer : buffers_)
    parts.meta.buffers.push_back(std::make_unique<plan::fb::BufferT>(std::move(buffer)));
  parts.meta.inputs = std::move(inputs_);
  parts.meta.outputs = std::move(outputs_);
}

}  // namespace sinter::codegen
