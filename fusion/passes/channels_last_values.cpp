#include <algorithm>
#include <numeric>

#include "fusion/passes/channels_last.h"
#include "fusion/regions/broadcast.h"
#include "ir/reference/evaluate.h"

namespace sinter::fusion {

Perm last_perm(std::size_t rank) {
  Perm perm(rank);
  std::iota(perm.begin(), perm.end(), 0);
  std::rotate(perm.begin() + 1, perm.begin() + 2, perm.end());
  return perm;
}

bool is_identity(const Perm& perm) { return std::ranges::is_sorted(perm); }

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

ValueId add_view(GraphBuilder& builder, std::string_view op, ValueId value, const Attrs& attrs) {
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

Twins::Twins(const Graph& old, GraphBuilder& builder)
    : old_(old),
      builder_(builder),
      plain_(old.values().size()),
      twins_(old.values().size()),
      static_(old.values().size(), false) {
  for (std::size_t i = 0; i < old.values().size(); ++i)
    static_[i] = old.values()[i].constant != nullptr;
  for (const Node& node : old.nodes()) {
    const bool known =
        std::ranges::all_of(node.inputs, [&](ValueId input) { return is_static(input); });
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
  const Value& info = old_.value(old);
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

}  // namespace sinter::fusion
