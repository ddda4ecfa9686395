// SPDX-License-Identifier: Apache-2.0
#include "fusion/layouts/build_layouts.h"

#include <algorithm>
#include <optional>

#include "fusion/layouts/views.h"
#include "fusion/regions/broadcast.h"

namespace sinter::fusion {
namespace {

/// The values of a graph in the new graph under construction: plain, transposed, or both.
class Twins {
 public:
  Twins(const Graph& old, GraphBuilder& builder);

  /// Value `old` becomes `value`, in layout `perm`.
  void set(ValueId old, ValueId value, const Perm& perm);
  /// `old` in its own layout.
  ValueId plain(ValueId old);
  /// `old` in layout `perm`, of its own rank. Transposes constants immediately.
  ValueId in(ValueId old, const Perm& perm);

 private:
  struct Twin {
    ValueId value;  // in the new graph
    Perm perm;      // not the identity
  };

  static std::size_t at(ValueId value) { return value.position(); }

  const Graph& old_;
  GraphBuilder& builder_;
  std::vector<ValueId> plain_;
  std::vector<std::optional<Twin>> twins_;
};

Twins::Twins(const Graph& old, GraphBuilder& builder)
    : old_(old), builder_(builder), plain_(old.values().size()), twins_(old.values().size()) {}

void Twins::set(ValueId old, ValueId value, const Perm& perm) {
  if (is_identity(perm)) {
    plain_[at(old)] = value;
    builder_.name(value, old_.value(old).name);
  } else {
    twins_[at(old)] = Twin{value, perm};
  }
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
  const auto& twin = twins_[at(old)];
  if (!twin) return add_transpose(builder_, plain(old), perm);
  if (twin->perm == perm) return twin->value;
  return add_transpose(builder_, twin->value, permuted(inverse(twin->perm), perm));
}

}  // namespace

Graph build_layouts(const Graph& graph, const std::vector<Form>& forms,
                    const TargetTraits& target) {
  GraphBuilder builder(graph.name());
  Twins twins(graph, builder);
  for (const auto& [symbol, range] : graph.ranges()) builder.range(symbol, range);
  for (const ValueId input : graph.inputs()) {
    const Value& info = graph.value(input);
    twins.set(input, builder.input(info.name, info.type), identity_perm(info.type.shape.size()));
  }
  for (std::size_t n = 0; n < forms.size(); ++n) {
    const Node& node = graph.nodes()[n];
    GraphBuilder::OriginScope scope(builder, node.origins);
    std::vector<ValueId> inputs;
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
      inputs.push_back(twins.in(node.inputs[i], forms[n].operands[i]));
    const auto results = build_form(builder, graph, node, forms[n], inputs, target);
    for (std::size_t i = 0; i < results.size(); ++i)
      twins.set(node.outputs[i], results[i], forms[n].results[i]);
  }
  for (std::size_t i = 0; i < graph.outputs().size(); ++i)
    builder.output(graph.output_names()[i], twins.plain(graph.outputs()[i]));
  for (const ir::State& state : graph.states()) builder.state(state);
  return builder.finish();
}

}  // namespace sinter::fusion
