#include "fusion/layouts/twins.h"

#include <algorithm>

#include "fusion/layouts/views.h"
#include "fusion/regions/broadcast.h"

namespace sinter::fusion {

std::vector<bool> static_values(const Graph& graph) {
  std::vector<bool> result(graph.values().size(), false);
  for (std::size_t i = 0; i < result.size(); ++i)
    result[i] = graph.values()[i].constant != nullptr;
  for (const Node& node : graph.nodes()) {
    const bool known = std::ranges::all_of(
        node.inputs, [&](ValueId input) { return result[input.position()]; });
    for (const ValueId output : node.outputs) result[output.position()] = known;
  }
  return result;
}

Twins::Twins(const Graph& old, GraphBuilder& builder)
    : old_(old),
      builder_(builder),
      plain_(old.values().size()),
      twins_(old.values().size()),
      static_(static_values(old)) {}

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

}  // namespace sinter::fusion
