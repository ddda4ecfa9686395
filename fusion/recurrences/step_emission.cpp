// SPDX-License-Identifier: Apache-2.0
#include "fusion/recurrences/step_emission.h"

#include <algorithm>

#include "fusion/recurrences/sequences.h"

namespace sinter::fusion {

std::optional<StepChain> with_sizes(const Graph& graph, std::vector<TokenStep> steps) {
  const TokenStep& first = steps[0];
  const Shape& shape = graph.type(first.after).shape;
  const auto size = [&](std::size_t role) {
    return first.order[role] < shape.size() ? shape[first.order[role]] : Dim(1);
  };
  StepChain chain{{}, size(0), size(1), size(2), size(3)};
  if (!chain.heads.is_constant()) return std::nullopt;
  const auto has = [&](const StepOperand& operand, const Dim& channel, const Dim& channels) {
    return fits(graph, operand, {first.index, channel, chain.batch, chain.heads, channels});
  };
  for (const TokenStep& step : steps) {
    if (step.rule != first.rule || step.order != first.order || step.symbols != first.symbols ||
        step.decay.has_value() != first.decay.has_value())
      return std::nullopt;
    const Dim key = first.index.key;
    if (!has(step.key, key, chain.keys) || !has(step.value, first.index.value, chain.values) ||
        !has(step.out.query, key, chain.keys))
      return std::nullopt;
    for (const auto* const operand : {&step.decay, &step.erase_a, &step.erase_b})
      if (*operand && !has(**operand, key, chain.keys)) return std::nullopt;
    if (step.beta && !has(*step.beta, {}, Dim(1))) return std::nullopt;
    for (const ElementAt& factor : step.decay ? step.decay->factors : std::vector<ElementAt>())
      chain.by_channel = chain.by_channel || depends_on(factor, key);
  }
  chain.steps = std::move(steps);
  return chain;
}

template <typename Get>
ValueId StepEmission::tokens(const Get& get, const Dim& channel, const Dim& channels,
                             DType type) const {
  std::vector<StepOperand> all;
  for (const TokenStep& step : chain_.steps) all.push_back(*get(step));
  return emit_tokens(b_, graph_, all,
                     {chain_.steps[0].index, channel, chain_.batch, chain_.heads, channels}, type,
                     source_);
}
std::vector<ValueId> StepEmission::run(DType type, std::optional<ValueId> state) const {
  const TokenStep& first = chain_.steps[0];
  const DType wide = type == DType::kFloat64 ? type : DType::kFloat32;
  std::vector<ValueId> inputs{
      tokens([](const TokenStep& s) { return &s.out.query; }, first.index.key, chain_.keys, type),
      tokens([](const TokenStep& s) { return &s.key; }, first.index.key, chain_.keys, type),
      for_each_head(b_,
                    tokens([](const TokenStep& s) { return &s.value; }, first.index.value,
                           chain_.values, type),
                    chain_.heads)};
  const auto by_head = [&](ValueId value) {
    Shape shape = b_.type(value).shape;
    shape.pop_back();
    return b_.add("Reshape", {value}, {{"shape", shape}});
  };
  if (first.decay) {
    const ValueId decay = for_each_head(b_,
                                        tokens([](const TokenStep& s) { return &*s.decay; },
                                               chain_.by_channel ? first.index.key : Dim(0),
                                               chain_.by_channel ? chain_.keys : Dim(1), wide),
                                        chain_.heads);
    inputs.push_back(chain_.by_channel ? decay : by_head(decay));
  }
  if (first.beta)
    inputs.push_back(by_head(for_each_head(
        b_, tokens([](const TokenStep& s) { return &*s.beta; }, {}, Dim(1), wide), chain_.heads)));
  if (first.erase_a) {
    const auto part = [&](const auto& get) {
      return for_each_head(b_, tokens(get, first.index.key, chain_.keys, wide), chain_.heads);
    };
    const ValueId a = part([](const TokenStep&s) { return &*s.erase_a; }),
                  b = part([](const TokenStep&s) { return &*s.erase_b; });
    inputs.push_back(b_.add("Concat", {a, b}, {{"axis", std::int64_t{3}}}));
  }
  if (state) inputs.push_back(state_in(*state));
  return b_.add_multi("LinearAttention", inputs,
                      {{"rule", std::string(first.rule)},
                       {"scale", 1.0},
                       {"decay", static_cast<std::int64_t>(first.decay.has_value())},
                       {"state", static_cast<std::int64_t>(state.has_value())}});
}

ValueId StepEmission::state_out(ValueId state, const TensorType& type) const {
  Ints perm;
  for (std::size_t d = 0; d < type.shape.size(); ++d)
    for (std::size_t role = 0; role < 4; ++role)
      if (chain_.steps[0].order[role] == d) perm.push_back(static_cast<std::int64_t>(role));
  return shaped(dropped(state, perm), perm, type);
}
ValueId StepEmission::result(ValueId outputs, std::int64_t t, const TensorType& type) const {
  const Ints perm = order_of_result();
  const ValueId place = b_.constant(Tensor::from_ints(DType::kInt64, {}, {{t}}));
  const ValueId token = b_.add("Gather", {outputs, place}, {{"axis", std::int64_t{1}}});
  Ints kept;
  for (const std::int64_t d : perm) kept.push_back(d == 0 ? 0 : d - 1);
  return shaped(dropped(token, kept), kept, type);
}
ValueId StepEmission::results(ValueId outputs, std::size_t axis, const TensorType& type) const {
  Ints perm = order_of_result();
  // Dimensions of size 1 in front of the tokens have no place.
  std::size_t before = 0;
  for (std::size_t d = 0; d < axis; ++d) before += type.shape[d] == Dim(1) ? 0 : 1;
  perm.insert(perm.begin() + static_cast<std::ptrdiff_t>(std::min(before, perm.size())), 1);
  return shaped(dropped(outputs, perm), perm, type);
}

/// Dimensions of [batch, tokens, heads, values] in a step's result, in its order; sizes of 1 apart.
Ints StepEmission::order_of_result() const {
  const TokenStep& step = chain_.steps[0];
  Ints order;
  for (const Dim& dim : step.out.index) {
    if (dim.is_constant()) continue;
    order.push_back(dim == step.index.batch ? 0 : dim == step.index.head ? 2 : 3);
  }
  return order;
}

ValueId StepEmission::state_in(ValueId state) const {
  Ints perm;
  for (const std::size_t d : chain_.steps[0].order)
    if (d < b_.type(state).shape.size()) perm.push_back(static_cast<std::int64_t>(d));
  return reshaped(b_, transposed(b_, state, perm),
                  {chain_.batch, chain_.heads, chain_.keys, chain_.values});
}
/// Without the dimensions, of size 1, that `kept` does not name; renumbers it.
ValueId StepEmission::dropped(ValueId value, Ints& kept) const {
  Shape shape;
  Ints number;
  for (std::size_t d = 0; d < b_.type(value).shape.size(); ++d) {
    number.push_back(std::ssize(shape));
    if (std::ranges::find(kept, static_cast<std::int64_t>(d)) != kept.end())
      shape.push_back(b_.type(value).shape[d]);
  }
  for (std::int64_t& d : kept) d = number[static_cast<std::size_t>(d)];
  return reshaped(b_, value, shape);
}
ValueId StepEmission::shaped(ValueId value, const Ints& perm, const TensorType& type) const {
  return of_type(b_, reshaped(b_, transposed(b_, value, perm), type.shape), type.dtype);
}

}  // namespace sinter::fusion
