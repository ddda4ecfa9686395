#include "codegen/plan_buffers.h"

#include <algorithm>

#include <fmt/format.h>
#include <sinter/error.h>

#include "codegen/lowering/loop_lowering.h"

namespace sinter::codegen {

using ir::Dim;
using ir::ValueId;
using plan::fb::BufferKind;

PlanBuffers::PlanBuffers(const ir::Graph& graph, ExprTable& exprs) : graph_(graph), exprs_(exprs) {
  share_scattered();
  for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
    const ValueId value = graph.inputs()[i];
    const ir::Value& info = graph.value(value);
    const std::uint32_t buffer = add(BufferKind::Input, info.type, static_cast<std::uint32_t>(i));
    by_value_.emplace(value, buffer);
    inputs_.push_back(binding(info.name, info.type, buffer));
  }
  for (std::size_t i = 0; i < graph.outputs().size(); ++i) {
    const ValueId value = graph.outputs()[i];
    const std::uint32_t buffer =
        add(BufferKind::Output, graph.type(value), static_cast<std::uint32_t>(i));
    outputs_.push_back(binding(graph.output_names()[i], graph.type(value), buffer));
    // The first output of a computed value is where it is computed.
    const ValueId origin = root(value);
    if (graph.producer(origin)) by_value_.emplace(origin, buffer);
  }
}

ValueId PlanBuffers::root(ValueId value) const {
  for (;;) {
    if (const auto moved = in_place_.find(value); moved != in_place_.end()) {
      value = moved->second;
      continue;
    }
    const ir::Node* node = graph_.producer(value);
    if (!node || node->op->name != "Reshape") return value;
    value = node->inputs[0];
  }
}

void PlanBuffers::share_scattered() {
  // The last node that reads each root; outputs are read after all.
  std::map<ValueId, std::size_t> last;
  for (std::size_t n = 0; n < graph_.nodes().size(); ++n)
    if (graph_.nodes()[n].op->name != "Reshape")
      for (const ValueId input : graph_.nodes()[n].inputs) last[root(input)] = n;
  for (const ValueId output : graph_.outputs()) last[root(output)] = graph_.nodes().size();
  std::map<ValueId, ValueId> in_place;
  for (std::size_t n = 0; n < graph_.nodes().size(); ++n) {
    const ir::Node& node = graph_.nodes()[n];
    if (!node.body || node.attrs.get_string("family") != "scatter") continue;
    const ScatteredValues scattered = scattered_values(*node.body);
    const ValueId data = root(node.inputs[scattered.data]);
    // What the node reads beside must not see what it writes.
    const ValueId inner = node.body->inputs()[scattered.data];
    const auto& users = node.body->users(inner);
    const auto& reads = node.body->node(users[0]).inputs;
    const bool once = users.size() == 1 && std::count(reads.begin(), reads.end(), inner) == 1 &&
                      std::count_if(node.inputs.begin(), node.inputs.end(),
                                    [&](ValueId input) { return root(input) == data; }) == 1;
    if (graph_.producer(data) && last[data] == n && once)
      in_place.emplace(data, node.outputs[scattered.result]);
  }
  in_place_ = std::move(in_place);
}

std::uint32_t PlanBuffers::add(BufferKind kind, const ir::TensorType& type, std::uint32_t binding) {
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
                                                         const ir::TensorType& type,
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
  const ir::Value& info = graph_.value(value);
  const std::uint32_t buffer =
      info.constant ? weight(info.constant) : add(BufferKind::Arena, info.type, 0);
  by_value_.emplace(value, buffer);
  return buffer;
}

std::uint32_t PlanBuffers::weight(const std::shared_ptr<const ir::Tensor>& constant) {
  const std::uint64_t hash = constant->hash();
  const auto [begin, end] = weights_by_hash_.equal_range(hash);
  for (auto it = begin; it != end; ++it)
    if (*it->second.first == *constant) return it->second.second;
  const std::uint32_t buffer = add(BufferKind::Weight, constant->type(), 0);
  constexpr std::uint64_t kAlignment = plan::kWeightAlignment;
  weight_bytes_ = (weight_bytes_ + kAlignment - 1) / kAlignment * kAlignment;
  buffers_[buffer].weight_offset = weight_bytes_;
  pieces_.push_back({weight_bytes_, constant->bytes(), constant});
  weight_bytes_ += constant->bytes().size();
  weights_by_hash_.emplace(hash, std::make_pair(constant, buffer));
  return buffer;
}

BufferSize PlanBuffers::size(std::uint32_t buffer) const {
  return {bytes_[buffer], size_of(type(buffer))};
}

DType PlanBuffers::type(std::uint32_t buffer) const {
  return static_cast<DType>(buffers_[buffer].dtype);
}

std::vector<PlanBuffers::Copy> PlanBuffers::copies() {
  std::vector<Copy> result;
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    const std::uint32_t source = of(graph_.outputs()[i]);
    if (source != outputs_[i]->buffer) result.push_back({source, outputs_[i]->buffer, i});
  }
  return result;
}

void PlanBuffers::use(std::uint32_t buffer, std::uint32_t step) {
  plan::fb::BufferT& entry = buffers_[buffer];
  if (entry.kind != BufferKind::Arena) return;
  entry.first_step = used_[buffer] ? std::min(entry.first_step, step) : step;
  entry.last_step = used_[buffer] ? std::max(entry.last_step, step) : step;
  used_[buffer] = true;
}

void PlanBuffers::write(plan::PlanParts& parts) {
  for (plan::fb::BufferT& buffer : buffers_)
    parts.meta.buffers.push_back(std::make_unique<plan::fb::BufferT>(std::move(buffer)));
  parts.meta.inputs = std::move(inputs_);
  parts.meta.outputs = std::move(outputs_);
  parts.weights = std::move(pieces_);
}

}  // namespace sinter::codegen
