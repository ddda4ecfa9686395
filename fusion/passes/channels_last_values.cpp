#include <algorithm>
#include <numeric>

#include "fusion/passes/channels_last.h"
#include "fusion/regions/broadcast.h"
#include "ir/reference/evaluate.h"

namespace sinter::fusion {

using ir::Dim;
using ir::GraphBuilder;
using ir::Node;
using ir::Shape;
using ir::Tensor;
using ir::ValueId;

Perm last_perm(std::size_t rank) {
  Perm perm(rank);
  std::iota(perm.begin(), perm.end(), 0);
  std::rotate(perm.begin() + 1, perm.begin() + 2, perm.end());
  return perm;
}

Perm inverse(const Perm& perm) {
  Perm result(perm.size());
  for (std::size_t i = 0; i < perm.size(); ++i)
    result[static_cast<std::size_t>(perm[i])] = static_cast<std::int64_t>(i);
  return result;
}

bool is_identity(const Perm& perm) { return std::is_sorted(perm.begin(), perm.end()); }

std::optional<ReshapeLayouts> through_reshape(const Shape& from, const Shape& to,
                                              const Perm& perm) {
  const auto runs = reshape_runs(from, to);
  if (!runs) return std::nullopt;
  ReshapeLayouts result;
  const auto append = [&](const ReshapeRun& run) {
    for (std::size_t d = run.from; d < run.from_end; ++d)
      result.before.push_back(static_cast<std::int64_t>(d));
    for (std::size_t d = run.to; d < run.to_end; ++d)
      result.after.push_back(static_cast<std::int64_t>(d));
  };
  for (const std::int64_t dim : perm)
    for (const ReshapeRun& run : *runs)
      if (static_cast<std::size_t>(dim) == run.from && run.from != run.from_end) append(run);
  for (const ReshapeRun& run : *runs)
    if (run.from == run.from_end) append(run);
  return result;
}

ValueId add_view(GraphBuilder& builder, std::string_view op, ValueId value,
                 const ir::Attrs& attrs) {
  const Tensor* constant = builder.constant_of(value);
  if (constant == nullptr) return builder.add(op, {value}, attrs);
  const Tensor inputs[] = {*constant};
  return builder.constant(ir::evaluate_op(ir::get_op(op), attrs, inputs).at(0));
}

namespace {

/// `value` transposed at no cost: what is in front of it is transposed the other way.
std::optional<ValueId> transposed_back(GraphBuilder& builder, ValueId value, const Perm& perm) {
  if (is_identity(perm)) return value;
  const Node* view = builder.producer(value);
  if (view == nullptr) return std::nullopt;
  const ValueId source = view->inputs.empty() ? value : view->inputs[0];
  if (view->op->name == "Transpose")
    return transposed_back(builder, source, permuted(view->attrs.get_ints("perm"), perm));
  if (view->op->name != "Reshape") return std::nullopt;
  const Shape to = builder.type(value).shape;
  const auto layouts = through_reshape(to, builder.type(source).shape, perm);
  if (!layouts || layouts->before != perm) return std::nullopt;
  const auto inner = transposed_back(builder, source, layouts->after);
  if (!inner) return std::nullopt;
  return builder.add("Reshape", {*inner}, {{"shape", permuted(to, perm)}});
}

}  // namespace

ValueId add_transpose(GraphBuilder& builder, ValueId value, const Perm& perm) {
  if (const auto back = transposed_back(builder, value, perm)) return *back;
  const Node* view = builder.producer(value);
  if (view != nullptr && view->op->name == "Transpose")
    return builder.add("Transpose", {view->inputs[0]},
                       {{"perm", permuted(view->attrs.get_ints("perm"), perm)}});
  return add_view(builder, "Transpose", value, {{"perm", perm}});
}

Twins::Twins(const ir::Graph& old, GraphBuilder& builder)
    : old_(old),
      builder_(builder),
      plain_(old.values().size()),
      twins_(old.values().size()),
      static_(old.values().size(), false) {
  for (std::size_t i = 0; i < old.values().size(); ++i)
    static_[i] = old.values()[i].constant != nullptr;
  for (const Node& node : old.nodes()) {
    const bool known = std::all_of(node.inputs.begin(), node.inputs.end(),
                                   [&](ValueId input) { return is_static(input); });
    for (ValueId output : node.outputs) static_[at(output)] = known;
  }
}

void Twins::set(ValueId old, ValueId value, const Perm& perm) {
  if (is_identity(perm)) {
    plain_[at(old)] = value;
    builder_.name(value, old_.value(old).name);
  } else {
    twins_[at(old)] = Twin{value, perm};
  }
}

const Twin* Twins::twin(ValueId old) const {
  const auto& twin = twins_[at(old)];
  return twin ? &*twin : nullptr;
}

ValueId Twins::plain(ValueId old) {
  ValueId& value = plain_[at(old)];
  if (value.valid()) return value;
  const ir::Value& info = old_.value(old);
  if (info.constant != nullptr) return value = builder_.constant(info.constant, info.name);
  const Twin& twin = *twins_[at(old)];
  GraphBuilder::OriginScope scope(builder_, old_.producer(old)->origins);
  value = add_transpose(builder_, twin.value, inverse(twin.perm));
  builder_.name(value, info.name);
  return value;
}

ValueId Twins::in(ValueId old, const Perm& perm) {
  if (is_identity(perm)) return plain(old);
  const Twin* twin = this->twin(old);
  if (twin == nullptr) return add_transpose(builder_, plain(old), perm);
  if (twin->perm == perm) return twin->value;
  return add_transpose(builder_, twin->value, permuted(inverse(twin->perm), perm));
}

ValueId Twins::broadcast(ValueId old, const Perm& perm) {
  Shape shape = old_.type(old).shape;
  if (shape.empty()) return plain(old);
  if (shape.size() == perm.size()) return in(old, perm);
  shape.insert(shape.begin(), perm.size() - shape.size(), Dim(1));
  const ValueId value = add_view(builder_, "Reshape", plain(old), {{"shape", shape}});
  return add_transpose(builder_, value, perm);
}

namespace {

bool all_equal(const Node& node, const char* attr, std::int64_t expected) {
  const auto& values = node.attrs.get_ints(attr);
  return std::all_of(values.begin(), values.end(), [&](auto v) { return v == expected; });
}

}  // namespace

ValueId add_channels_last_conv(GraphBuilder& builder, const Node& node,
                               std::span<const ValueId> inputs, bool as_kernels) {
  const Shape w = builder.type(inputs[1]).shape;
  const std::size_t spatial = w.size() - 2;
  const std::int64_t group = node.attrs.get_int("group");
  std::vector<std::int64_t> kernel;
  for (std::size_t d = 0; d < spatial; ++d) kernel.push_back(w[d + 1].value());
  const bool single = std::all_of(kernel.begin(), kernel.end(), [](auto k) { return k == 1; });
  ValueId result;
  if (as_kernels && group == 1 && single && all_equal(node, "strides", 1) &&
      all_equal(node, "pads_begin", 0) && all_equal(node, "pads_end", 0)) {
    const ValueId rows =
        add_view(builder, "Reshape", inputs[1], {{"shape", Shape{w.front(), w.back()}}});
    // As it lies: products read both ways, and along k is the better one.
    const ValueId columns = builder.add("Transpose", {rows}, {{"perm", Perm{1, 0}}});
    result = builder.add("MatMul", {inputs[0], columns});
  } else if (as_kernels && w.back() == Dim(1) && w.front() == Dim(group)) {
    ir::Attrs windows{{"kernel", kernel}, {"channels_last", std::int64_t{1}}};
    for (const char* name : {"strides", "dilations", "pads_begin", "pads_end"})
      windows.set(name, node.attrs.get(name));
    const ValueId unfolded = builder.add("Unfold", {inputs[0]}, windows);
    // [c, k.., 1] -> [k.., windows of one.., c]
    Perm channel_last(spatial + 1);
    std::iota(channel_last.begin(), channel_last.end() - 1, 1);
    Shape taps(w.begin() + 1, w.end() - 1);
    taps.insert(taps.end(), spatial, Dim(1));
    taps.push_back(w.front());
    const ValueId flat =
        add_view(builder, "Reshape", inputs[1], {{"shape", Shape(w.begin(), w.end() - 1)}});
    const ValueId weights =
        add_view(builder, "Reshape", add_view(builder, "Transpose", flat, {{"perm", channel_last}}),
                 {{"shape", taps}});
    Perm axes(spatial);
    std::iota(axes.begin(), axes.end(), 1);
    result = builder.add("ReduceSum", {builder.add("Mul", {unfolded, weights})},
                         {{"axes", axes}, {"keepdims", std::int64_t{0}}});
  } else {
    ir::Attrs attrs = node.attrs;
    attrs.set("channels_last", std::int64_t{1});
    return builder.add("Conv", {inputs.begin(), inputs.end()}, attrs);
  }
  return inputs.size() > 2 ? builder.add("Add", {result, inputs[2]}) : result;
}

}  // namespace sinter::fusion
