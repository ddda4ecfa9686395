// SPDX-License-Identifier: Apache-2.0
#include "fusion/recurrences/token_layers.h"

#include <algorithm>
#include <map>

#include "fusion/recurrences/token_step.h"
#include "fusion/recurrences/unit_lower.h"

namespace sinter::fusion {
namespace {

/// What the operator needs to know of a chain.
struct Chain {
  std::vector<TokenStep> steps;
  Dim batch, heads, keys, values;
  bool by_channel = false;
};

std::optional<Chain> with_sizes(const Graph& graph, std::vector<TokenStep> steps) {
  const TokenStep& first = steps[0];
  const Shape& shape = graph.type(first.after).shape;
  const auto size = [&](std::size_t role) {
    return first.order[role] < shape.size() ? shape[first.order[role]] : Dim(1);
  };
  Chain chain{{}, size(0), size(1), size(2), size(3)};
  if (!chain.heads.is_constant()) return std::nullopt;
  const auto has = [&](const Operand& operand, const Dim& channel, const Dim& channels) {
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

/// Dimensions of [batch, heads, values] that the value has, in its order; sizes of 1 apart.
std::optional<Ints> order_of(const TokenStep& step) {
  Ints order;
  for (const Dim& dim : step.out.index) {
    if (dim.is_constant()) continue;
    order.push_back(dim == step.index.batch  ? 0
                    : dim == step.index.head ? 2
                                             : 3);
  }
  return order;
}

/// A value with the results of all steps along a dimension, and that dimension.
struct Collected {
  ValueId value;
  std::size_t axis;
};
/// Behind the first step's result: a Concat, or the last of the Scatters that store one each.
std::optional<Collected> collected(const Graph& graph, Terms& terms,
                                   const std::vector<TokenStep>& steps) {
  const auto count = static_cast<std::int64_t>(steps.size());
  std::vector<ValueId> open{steps[0].out.value};
  for (std::size_t i = 0; i < open.size() && i < 16 + steps.size(); ++i)
    for (const NodeId user : graph.users(open[i])) {
      const Node& node = graph.node(user);
      const std::string_view op = node.op->name;
      if (node.outputs.size() != 1) continue;
      if (op == "Scatter" || op == "Cast" || node.op->kind == OpKind::kView)
        open.push_back(node.outputs[0]);
      if (op != "Scatter" && op != "Concat") continue;
      const ElementAt any = terms.any_of(node.outputs[0]);
      const Shape& shape = graph.type(node.outputs[0]).shape;
      for (std::size_t axis = 0; axis < shape.size(); ++axis) {
        if (shape[axis] != Dim(count)) continue;
        ElementAt all = any;
        bool fits = true;
        for (std::int64_t t = count - 1; t >= 0 && fits; --t) {
          const TokenStep& step = steps[static_cast<std::size_t>(t)];
          all.index[axis] = Dim(t);
          ElementAt stored = all;
          if (op == "Scatter") {
            const auto slice = written_slice(terms, all, axis, Dim(t));
            fits = slice.has_value();
            if (!fits) break;
            stored = slice->first;
            all = slice->second;
          }
          // The element of the step's result at the collected one's dimensions, in order.
          while (stored.value != step.out.value) {
            auto next = terms.behind(stored);
            if (!next) break;
            stored = std::move(*next);
          }
          std::vector<Dim> expected, found;
          for (std::size_t d = 0; d < any.index.size(); ++d)
            if (d != axis && !any.index[d].is_constant()) expected.push_back(any.index[d]);
          for (const Dim& dim : stored.index)
            if (!dim.is_constant()) found.push_back(dim);
          fits = stored.value == step.out.value && found == expected;
        }
        if (fits) return Collected{node.outputs[0], axis};
      }
    }
  return std::nullopt;
}

class Emission {
 public:
  Emission(const Graph& graph, const Chain& chain, GraphBuilder& builder,
           const std::function<ValueId(ValueId)>& read)
      : graph_(graph), chain_(chain), b_(builder), read_(read) {}

  std::vector<ValueId> run(DType type) {
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
      const ValueId decay =
          for_each_head(b_,
                        tokens([](const TokenStep& s) { return &*s.decay; },
                               chain_.by_channel ? first.index.key : Dim(0),
                               chain_.by_channel ? chain_.keys : Dim(1), wide),
                        chain_.heads);
      inputs.push_back(chain_.by_channel ? decay : by_head(decay));
    }
    if (first.beta)
      inputs.push_back(by_head(for_each_head(
          b_, tokens([](const TokenStep& s) { return &*s.beta; }, {}, Dim(1), wide),
          chain_.heads)));
    if (first.erase_a) {
      const auto part = [&](const auto& get) {
        return for_each_head(b_, tokens(get, first.index.key, chain_.keys, wide), chain_.heads);
      };
      const ValueId a = part([](const TokenStep& s) { return &*s.erase_a; }),
                    b = part([](const TokenStep& s) { return &*s.erase_b; });
      inputs.push_back(b_.add("Concat", {a, b}, {{"axis", std::int64_t{3}}}));
    }
    if (first.before) inputs.push_back(state_in(read_(*first.before)));
    return b_.add_multi("LinearAttention", inputs,
                        {{"rule", std::string(first.rule)},
                         {"scale", 1.0},
                         {"decay", static_cast<std::int64_t>(first.decay.has_value())},
                         {"state", static_cast<std::int64_t>(first.before.has_value())}});
  }

  /// [batch, heads, keys, values] as the states of the steps.
  ValueId state_out(ValueId state, const TensorType& type) const {
    Ints perm;
    for (std::size_t d = 0; d < type.shape.size(); ++d)
      for (std::size_t role = 0; role < 4; ++role)
        if (chain_.steps[0].order[role] == d) perm.push_back(static_cast<std::int64_t>(role));
    return shaped(dropped(state, perm), perm, type);
  }
  /// Token `t` of the outputs, or all along `axis`, in the order of a step's result.
  ValueId result(ValueId outputs, std::int64_t t, const TensorType& type) const {
    const Ints perm = *order_of(chain_.steps[0]);
    const ValueId place = b_.constant(Tensor::from_ints(DType::kInt64, {}, {{t}}));
    const ValueId token = b_.add("Gather", {outputs, place}, {{"axis", std::int64_t{1}}});
    Ints kept;
    for (const std::int64_t d : perm) kept.push_back(d == 0 ? 0 : d - 1);
    return shaped(dropped(token, kept), kept, type);
  }
  ValueId results(ValueId outputs, std::size_t axis, const TensorType& type) const {
    Ints perm = *order_of(chain_.steps[0]);
    // Dimensions of size 1 in front of the tokens have no place.
    std::size_t before = 0;
    for (std::size_t d = 0; d < axis; ++d) before += type.shape[d] == Dim(1) ? 0 : 1;
    perm.insert(perm.begin() + static_cast<std::ptrdiff_t>(std::min(before, perm.size())), 1);
    return shaped(dropped(outputs, perm), perm, type);
  }

 private:
  template <typename Get>
  ValueId tokens(const Get& get, const Dim& channel, const Dim& channels, DType type) {
    std::vector<Operand> all;
    for (const TokenStep& step : chain_.steps) all.push_back(*get(step));
    return emit_tokens(b_, graph_, all,
                       {chain_.steps[0].index, channel, chain_.batch, chain_.heads, channels}, type,
                       read_);
  }
  ValueId state_in(ValueId state) const {
    Ints perm;
    for (const std::size_t d : chain_.steps[0].order)
      if (d < b_.type(state).shape.size()) perm.push_back(static_cast<std::int64_t>(d));
    return reshaped(b_, transposed(b_, state, perm),
                    {chain_.batch, chain_.heads, chain_.keys, chain_.values});
  }
  /// Without the dimensions, of size 1, that `kept` does not name; renumbers it.
  ValueId dropped(ValueId value, Ints& kept) const {
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
  ValueId shaped(ValueId value, const Ints& perm, const TensorType& type) const {
    return of_type(b_, reshaped(b_, transposed(b_, value, perm), type.shape), type.dtype);
  }

  const Graph& graph_;
  const Chain& chain_;
  GraphBuilder& b_;
  const std::function<ValueId(ValueId)>& read_;
};

FoundRecurrence recurrence_of(const Graph& graph, Terms& terms, Chain chain) {
  const auto all = chain.steps.size() > 1 ? collected(graph, terms, chain.steps) : std::nullopt;
  Piece piece;
  if (all)
    piece.writes.push_back(all->value);
  else
    for (const TokenStep& step : chain.steps) piece.writes.push_back(step.out.value);
  piece.writes.push_back(chain.steps.back().after);
  const auto reads = [&](const std::optional<Operand>& operand) {
    if (!operand) return;
    for (const ElementAt& factor : operand->factors)
      if (std::ranges::find(piece.reads, factor.value) == piece.reads.end())
        piece.reads.push_back(factor.value);
  };
  for (const TokenStep& step : chain.steps) {
    for (const auto* const operand : {&step.decay, &step.beta, &step.erase_a, &step.erase_b})
      reads(*operand);
    for (const auto* const operand : {&step.key, &step.value, &step.out.query}) reads(*operand);
  }
  const TokenStep& first = chain.steps[0];
  if (first.before) piece.reads.push_back(*first.before);
  const Dim keys = chain.keys;
  const std::string_view rule = first.rule;
  std::vector<std::string> origins;
  for (const TokenStep& step : chain.steps)
    origins.insert(origins.end(), step.node->origins.begin(), step.node->origins.end());
  piece.emit = [&graph, chain = std::move(chain), all, origins, old = piece.reads,
                writes = piece.writes](GraphBuilder& b, std::span<const ValueId> given) {
    const GraphBuilder::OriginScope scope(b, origins);
    const std::function<ValueId(ValueId)> read = [&](ValueId value) {
      return given[static_cast<std::size_t>(std::ranges::find(old, value) - old.begin())];
    };
    Emission emission(graph, chain, b, read);
    const DType type = graph.type(chain.steps[0].out.value).dtype;
    const auto results = emission.run(type);
    std::vector<ValueId> written;
    for (std::size_t i = 0; i + 1 < writes.size(); ++i)
      written.push_back(all ? emission.results(results[0], all->axis, graph.type(writes[i]))
                            : emission.result(results[0], static_cast<std::int64_t>(i),
                                              graph.type(writes[i])));
    written.push_back(emission.state_out(results[1], graph.type(writes.back())));
    return written;
  };
  return {std::move(piece), rule, keys};
}

}  // namespace

std::vector<FoundChain> token_layers(const Graph& graph) {
  TokenSteps steps(graph);
  std::vector<std::vector<TokenStep>> chains;
  std::map<ValueId, std::size_t> chain_of;  // by its last state
  for (const Node& node : graph.nodes()) {
    if (node.op->name != "Add") continue;
    auto step = steps.match(node);
    if (!step) continue;
    const auto before = step->before ? chain_of.find(*step->before) : chain_of.end();
    std::size_t chain = chains.size();
    if (before == chain_of.end()) {
      chains.emplace_back();
    } else {
      chain = before->second;
      chain_of.erase(before);
    }
    chain_of[step->after] = chain;
    chains[chain].push_back(std::move(*step));
  }
  std::vector<FoundChain> result;
  for (auto& chain : chains) {
    if (!std::ranges::all_of(chain, [&](TokenStep& step) { return steps.complete(step); }))
      continue;
    const Node* const node = chain.back().node;
    auto sized = with_sizes(graph, std::move(chain));
    if (sized)
      result.push_back({node, recurrence_of(graph, steps.terms(), std::move(*sized))});
  }
  return result;
}

}  // namespace sinter::fusion
