// SPDX-License-Identifier: Apache-2.0
#include "codegen/plan/plan_buffers.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <sinter/error.h>

#include "codegen/program/describe.h"
#include "codegen/program/loop_lowering.h"
#include "ir/ranks/rank_parts.h"
#include "ir/recurrence/linear_attention.h"
#include "runtime/plan/ranks/peer_memory.h"

namespace sinter::codegen {

using ir::NodeId;
using plan::fb::BufferKind;

namespace {

/// The index of `value` in `list`, or nothing.
std::optional<std::size_t> position_of(const std::vector<ValueId>& list, ValueId value) {
  const auto at = std::ranges::find(list, value);
  if (at == list.end()) return std::nullopt;
  return static_cast<std::size_t>(at - list.begin());
}

/// "'add_mul' of 'layer/Add_3'": a region's operators and its first ONNX node.
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
  if (node.op->kind != OpKind::kFused) return {};
  const std::string& kind = node.attrs.get_string("kind");
  std::vector<ScatterRegion> regions;
  if (kind == "scatter") {
    const Graph& body = *node.body;
    for (const ScatteredValues& found : scattered_values(body)) {
      const Node& scatter = *body.producer(body.outputs()[found.result]);
      regions.push_back({found.data, found.result, body.type(scatter.inputs[1]),
                         reads_once(body, body.inputs()[found.data])});
    }
    return regions;
  }
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
    : scope_{&graph, {}, {}, {}, {}, {}}, exprs_(exprs) {
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
      graph.states() != scope_.graph->states())
    differ("their bindings");
  scope_ = {&graph, {}, {}, {}, {}, {}};
  share_changed();
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    const ir::Value& info = graph.value(graph.inputs()[i]);
    if (info.name != inputs_[i]->name ||
        static_cast<std::uint8_t>(info.type.dtype) != inputs_[i]->dtype)
      differ(info.name);
    scope_.by_value.emplace(root(graph.inputs()[i]), inputs_[i]->buffer);
  }
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    const ValueId value = graph.outputs()[i];
    if (static_cast<std::uint8_t>(graph.type(value).dtype) != outputs_[i]->dtype)
      differ(outputs_[i]->name);
    // A state keeps its old value until all steps have read it.
    if (state_of_output_.contains(static_cast<int>(i))) continue;
    // The first output of a computed value gets the value's buffer.
    const ValueId origin = root(value);
    if (graph.producer(origin)) scope_.by_value.emplace(origin, outputs_[i]->buffer);
  }
  share_extents();
}

std::uint32_t PlanBuffers::peers() {
  if (!peers_)
    peers_ = add(plan::kPeersBuffer,
                 {DType::kUInt8, {Dim(static_cast<std::int64_t>(sizeof(plan::PeerTable)))}}, 0);
  return *peers_;
}

void PlanBuffers::share_extents() {
  for (const Node& node : scope_.graph->nodes()) {
    if (node.op->kind != OpKind::kExtent) continue;
    if (node.op->name == "TokenCount") {
      const auto input = scope_.graph->input_number(root(node.inputs[0]));
      const auto& readers = scope_.graph->users(node.outputs[0]);
      const bool is_read = std::ranges::any_of(readers, [&](const ir::NodeId reader) {
        const auto& inputs = scope_.graph->node(reader).inputs;
        return std::ranges::find(inputs, node.outputs[0]) != inputs.end();
      });
      if (!input || is_read || scope_.graph->is_output(node.outputs[0]))
        throw Error(ErrorCode::kUnsupported,
                    "TokenCount counts the tokens of an input, and nothing reads the number");
      exprs_.set_tokens(node.attrs.get_string("symbol"), *input, node.attrs.get_int("first") != 0);
      continue;
    }
    const std::uint32_t buffer = add(BufferKind::Extent, {DType::kInt64, {}}, extents_++);
    exprs_.set_extent(node.attrs.get_string("symbol"), buffer);
    scope_.by_value.emplace(node.outputs[0], buffer);
    // The source is computed in this buffer, unless it has another already.
    const ValueId source = root(node.inputs[0]);
    if (scope_.graph->producer(source)) scope_.by_value.emplace(source, buffer);
  }
}

ValueId PlanBuffers::root(ValueId value) const {
  for (;;) {
    if (const auto moved = scope_.in_place.find(value); moved != scope_.in_place.end()) {
      value = moved->second;
      continue;
    }
    const Node* node = scope_.graph->producer(value);
    if (!node || node->op->name != "Reshape") return value;
    value = node->inputs[0];
  }
}

bool PlanBuffers::is_state(ValueId input) const {
  const std::vector<ValueId>& inputs = scope_.graph->inputs();
  for (std::size_t k = 0; k < scope_.states.size(); ++k)
    if (inputs[1 + k] == input) return true;
  return std::ranges::any_of(scope_.graph->states(), [&](const ir::State& state) {
    return scope_.graph->inputs()[static_cast<std::size_t>(state.input)] == input;
  });
}

namespace {

/// An input that a node updates and the output with the new value: a Scatter's data, a loop's
/// state, or a LinearAttention's, each element of which is read and written by one thread.
struct Changed {
  std::size_t input = 0, output = 0;
  bool reads_once = false;  // nothing else in the node reads that input
};

std::vector<Changed> changed_by(const Node& node) {
  std::vector<Changed> all;
  if (node.op->kind == OpKind::kWhile) {
    for (std::size_t k = 0; k < node.outputs.size(); ++k) all.push_back({1 + k, k, true});
    return all;
  }
  for (const ScatterRegion& region : scatter_regions(node))
    all.push_back({region.data, region.result, region.reads_once});
  if (node.op->kind == OpKind::kFused && node.attrs.get_string("kind") == "linear_attention") {
    const Graph& body = *node.body;
    const Node& layer = body.nodes()[0];
    const auto state = ir::linear_attention_inputs(layer.attrs).state;
    const auto input = state ? position_of(body.inputs(), layer.inputs[*state]) : std::nullopt;
    const auto output = position_of(body.outputs(), layer.outputs[1]);
    if (input && output) all.push_back({*input, *output, true});
  }
  return all;
}

}  // namespace

void PlanBuffers::share_changed() {
  const Graph& graph = *scope_.graph;
  // The last node that reads each root; outputs are read after all nodes.
  std::map<ValueId, std::size_t>& last = scope_.last;
  for (std::size_t n = 0; n < graph.nodes().size(); ++n)
    if (graph.nodes()[n].op->name != "Reshape")
      for (const ValueId input : graph.nodes()[n].inputs) last[root(input)] = n;
  for (const ValueId output : graph.outputs()) last[root(output)] = graph.nodes().size();
  std::map<ValueId, ValueId> in_place;
  for (std::size_t n = 0; n < graph.nodes().size(); ++n) {
    const Node& node = graph.nodes()[n];
    for (const Changed& changed : changed_by(node)) {
      const ValueId data = root(node.inputs[changed.input]);
      // The node's other reads must not see its writes.
      const bool once = changed.reads_once &&
                        std::ranges::count_if(
                            node.inputs, [&](ValueId input) { return root(input) == data; }) == 1;
      if ((graph.producer(data) || is_state(data)) && last[data] == n && once)
        in_place.emplace(data, node.outputs[changed.output]);
      else if (!once)
        scope_.not_in_place[data] = fmt::format("{} reads its old value beside", label(node));
      else if (last[data] < graph.nodes().size())
        scope_.not_in_place[data] = fmt::format("{} reads its old value after {} has changed it",
                                                label(graph.nodes()[last[data]]), label(node));
      else
        scope_.not_in_place[data] = "its old value is an output, too";
    }
  }
  scope_.in_place = std::move(in_place);
}

PlanBuffers::Loop PlanBuffers::begin_body(const Node& loop) {
  Loop result;
  result.first_state = of(loop.inputs[1]);
  for (std::size_t k = 0; k < loop.outputs.size(); ++k) {
    const std::uint32_t source = of(loop.inputs[1 + k]), target = of(loop.outputs[k]);
    if (source != target) result.initial.push_back({source, target, k});
    result.states.push_back(target);
  }
  for (std::size_t i = 1 + loop.outputs.size(); i < loop.inputs.size(); ++i)
    result.captured.push_back(of(loop.inputs[i]));
  const Graph& body = *loop.body;
  result.counter = scratch(body.type(body.inputs()[0]));
  outer_.push_back(std::exchange(scope_, {&body, result.states, {}, {}, {}, {}}));
  share_changed();
  std::vector<std::uint32_t> inputs{result.counter};
  inputs.insert(inputs.end(), result.states.begin(), result.states.end());
  inputs.insert(inputs.end(), result.captured.begin(), result.captured.end());
  for (std::size_t i = 0; i < inputs.size(); ++i)
    scope_.by_value.emplace(root(body.inputs()[i]), inputs[i]);
  share_new_states();
  share_extents();
  return result;
}

namespace {

/// True if every reader of `value` in the body contributes to `result`, and so precedes it.
bool is_read_before(const Graph& body, ValueId value, ValueId result) {
  std::set<const Node*> needed;
  std::vector<ValueId> open{result};
  while (!open.empty()) {
    const Node* node = body.producer(open.back());
    open.pop_back();
    if (node && needed.insert(node).second)
      open.insert(open.end(), node->inputs.begin(), node->inputs.end());
  }
  return std::ranges::all_of(body.users(value),
                             [&](NodeId user) { return needed.contains(&body.node(user)); });
}

/// True if a region reads input `input` only at the index that it writes, and only for output
/// `output`: both may then share memory.
bool is_elementwise(const Node& region, std::size_t input, std::size_t output) {
  const std::string& kind = region.attrs.get_string("kind");
  if (!region.body || (kind != "pointwise" && kind != "scatter")) return false;
  const Graph& body = *region.body;
  const Shape& shape = body.type(body.inputs()[input]).shape;
  std::vector<ValueId> open{body.inputs()[input]};
  std::set<ValueId> seen(open.begin(), open.end());
  while (!open.empty()) {
    const ValueId value = open.back();
    open.pop_back();
    for (const NodeId id : body.users(value)) {
      const Node& user = body.node(id);
      const bool is_update = user.op->scatter() != nullptr && user.inputs[1] == value &&
                             std::ranges::count(user.inputs, value) == 1;
      if (is_update) continue;
      if (user.op->kind != OpKind::kPointwise || body.type(user.outputs[0]).shape != shape)
        return false;
      if (seen.insert(user.outputs[0]).second) open.push_back(user.outputs[0]);
    }
  }
  return seen.contains(body.outputs()[output]) &&
         is_read_before(body, body.inputs()[input], body.outputs()[output]);
}

}  // namespace

std::optional<std::size_t> PlanBuffers::last_use(ValueId value) const {
  std::optional<std::size_t> result;
  for (;;) {
    for (const Node* node; (node = scope_.graph->producer(value)) && node->op->name == "Reshape";)
      value = node->inputs[0];
    if (const auto last = scope_.last.find(value); last != scope_.last.end())
      result = std::max(result.value_or(0), last->second);
    // A value that updates it in place continues to use its memory.
    const auto moved = scope_.in_place.find(value);
    if (moved == scope_.in_place.end()) return result;
    value = moved->second;
  }
}

bool PlanBuffers::can_replace(ValueId before, ValueId after, NodeId producer) const {
  const auto last = last_use(before);
  const auto at = static_cast<std::size_t>(producer.index);
  // No node reads the old value at or after its producer.
  if (!last || *last < at) return true;
  if (*last > at) return false;
  const Node& node = scope_.graph->node(producer);
  const auto reads = [&](ValueId input) { return root(input) == root(before); };
  const auto input = std::ranges::find_if(node.inputs, reads);
  const auto output = std::ranges::find(node.outputs, after);
  return node.op->kind == OpKind::kFused && *input == before && output != node.outputs.end() &&
         std::ranges::count_if(node.inputs, reads) == 1 &&
         scope_.graph->type(before) == scope_.graph->type(after) &&
         is_elementwise(node, static_cast<std::size_t>(input - node.inputs.begin()),
                        static_cast<std::size_t>(output - node.outputs.begin()));
}

void PlanBuffers::share_new_states() {
  const Graph& body = *scope_.graph;
  for (std::size_t k = 0; k < scope_.states.size(); ++k) {
    const ValueId before = body.inputs()[1 + k], after = root(body.outputs()[k]);
    const NodeId producer = body.value(after).producer;
    const bool changes_another = std::ranges::any_of(
        scope_.in_place, [&](const auto& change) { return root(change.second) == after; });
    if (producer.valid() && !changes_another && can_replace(before, after, producer))
      scope_.by_value.emplace(after, scope_.states[k]);
  }
}

std::vector<PlanBuffers::Copy> PlanBuffers::end_body() {
  std::vector<Copy> result, behind;
  const std::vector<std::uint32_t>& states = scope_.states;
  for (std::size_t k = 0; k < states.size(); ++k) {
    const ValueId value = scope_.graph->outputs()[k];
    std::uint32_t source = of(value);
    if (source == states[k]) continue;
    if (std::ranges::find(states, source) != states.end()) {
      // A copy of the other state may precede: keep the old value.
      const std::uint32_t between = scratch(scope_.graph->type(value));
      result.push_back({source, between, k});
      source = between;
    }
    behind.push_back({source, states[k], k});
  }
  result.insert(result.end(), behind.begin(), behind.end());
  scope_ = std::move(outer_.back());
  outer_.pop_back();
  return result;
}

std::uint32_t PlanBuffers::add(BufferKind kind, const TensorType& type, std::uint32_t binding) {
  plan::fb::BufferT buffer;
  buffer.kind = kind;
  buffer.dtype = static_cast<std::uint8_t>(type.dtype);
  // A size that only the run knows gets memory for its maximum.
  bytes_.push_back(ir::largest(ir::element_count(type.shape), exprs_.ranges()) *
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
  if (const auto known = scope_.by_value.find(value); known != scope_.by_value.end())
    return known->second;
  const ir::Value& info = scope_.graph->value(value);
  const std::uint32_t buffer =
      info.constant ? weight(info.constant) : add(BufferKind::Arena, info.type, 0);
  scope_.by_value.emplace(value, buffer);
  return buffer;
}

std::uint32_t PlanBuffers::weight(const std::shared_ptr<const Tensor>& constant) {
  const std::uint64_t hash = constant->hash();
  const auto [begin, end] = weights_by_hash_.equal_range(hash);
  for (auto it = begin; it != end; ++it)
    if (ir::differs_by_rank(*it->second.first) == ir::differs_by_rank(*constant) &&
        *it->second.first == *constant)
      return it->second.second;
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
    std::uint32_t source = of(scope_.graph->outputs()[i]);
    const std::uint32_t target = outputs_[i]->buffer;
    if (source == target) continue;
    const bool is_state = state_of_output_.contains(static_cast<int>(i));
    if (is_state && buffers_[source].kind == BufferKind::State) {
      // A copy of the other state may precede: keep the old value.
      const std::uint32_t between = scratch(scope_.graph->type(scope_.graph->outputs()[i]));
      result.push_back({source, between, i});
      source = between;
    }
    (is_state ? states : result).push_back({source, target, i});
  }
  result.insert(result.end(), states.begin(), states.end());
  return result;
}

std::string PlanBuffers::why_copied(const ir::State& state) {
  const ValueId input = scope_.graph->inputs()[static_cast<std::size_t>(state.input)];
  const ValueId output = scope_.graph->outputs()[static_cast<std::size_t>(state.output)];
  if (of(input) == of(output)) return "";
  const auto refused = scope_.not_in_place.find(input);
  if (refused != scope_.not_in_place.end()) return refused->second;
  const Node* node = scope_.graph->producer(root(output));
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

void PlanBuffers::place_weights(plan::PlanParts& parts, std::int64_t ranks) {
  const auto aligned = [](std::uint64_t bytes) {
    return (bytes + plan::kWeightAlignment - 1) / plan::kWeightAlignment * plan::kWeightAlignment;
  };
  std::uint64_t end = 0;
  const auto place = [&](std::uint64_t at, const Tensor& constant) {
    parts.weights.emplace_back(at, constant.byte_count(), [plain = constant.plain()] {
      ir::HeldBytes held = plain.hold();
      return plan::PieceBytes{held.bytes, std::move(held.owner)};
    });
    end = at + constant.byte_count();
  };
  for (const auto& [buffer, constant] : weights_) {
    if (!used_[buffer]) {
      buffers_[buffer].bytes = exprs_.intern(0);
      continue;
    }
    const std::uint64_t first = aligned(end);
    buffers_[buffer].weight_offset = first;
    if (ranks > 1 && ir::differs_by_rank(*constant)) {
      // Ranks' parts follow each other, each as its kernels read it: none is copied at load.
      const std::int64_t sharing = ir::ranks_that_share(*constant);
      const std::uint64_t step = aligned(constant->byte_count());
      buffers_[buffer].rank_step = step;
      buffers_[buffer].sharing = static_cast<std::uint32_t>(sharing);
      for (std::int64_t r = 0; r < ranks; r += sharing)
        place(first + static_cast<std::uint64_t>(r / sharing) * step, ir::for_rank(*constant, r));
      continue;
    }
    if (constant->buffer() && constant->buffer()->recipe()) traced_.emplace_back(first, constant);
    place(first, *constant);
  }
}

void PlanBuffers::write(plan::PlanParts& parts, std::int64_t ranks) {
  place_weights(parts, ranks);
  for (plan::fb::BufferT& buffer : buffers_)
    parts.meta.buffers.push_back(std::make_unique<plan::fb::BufferT>(std::move(buffer)));
  parts.meta.inputs = std::move(inputs_);
  parts.meta.outputs = std::move(outputs_);
}

}  // namespace sinter::codegen
