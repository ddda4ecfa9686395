// SPDX-License-Identifier: Apache-2.0
#include "fusion/paging/paged_attention.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "fusion/paging/biased_attention.h"
#include "fusion/patterns/scores.h"
#include "fusion/regions/rebuild.h"
#include "ir/affine.h"
#include "ir/attention_inputs.h"

namespace sinter::fusion {

using ir::Attr;

const DecoderCache* PagedAttention::writes(NodeId node) const {
  const auto at = std::ranges::find(g_.inputs.caches, node, &DecoderCache::writer);
  return at == g_.inputs.caches.end() ? nullptr : &*at;
}

ValueId PagedAttention::write(const Node& node, const DecoderCache& cache) {
  const bool scatters = node.op->name == "Scatter";
  if (scatters) {
    const auto positions = g_.trials.positions(node.inputs[2 + cache.axis]);
    if (!positions || positions->more != 0)
      refuse_paging(node, "it does not write the rows of tokens at their positions");
  }
  const ValueId rows = g_.mapped[node.inputs[1].position()];
  const Shape shape = g_.b.type(rows).shape;
  std::vector<ValueId> inputs{g_.mapped[cache.input.position()], rows};
  for (std::size_t d = 0; d < shape.size(); ++d) {
    Shape own(shape.size(), Dim(1));
    own[d] = shape[d];
    inputs.push_back(d == cache.axis ? g_.shaped(g_.as(g_.slots, DType::kInt64), own)
                                     : g_.b.add("Iota", {},
                                                {{"shape", own},
                                                 {"axis", static_cast<std::int64_t>(d)},
                                                 {"dtype", Attr(DType::kInt64)}}));
  }
  return g_.b.add("Scatter", inputs, {{"combine", std::string("none")}});
}

const DecoderCache* PagedAttention::cache_of(ValueId value) const {
  const Shape& shape = g_.old.type(value).shape;
  Ranges ranges = g_.old.ranges();
  const auto index = ir::index_symbols(shape, ranges);
  const auto traced = ir::trace_to_source(g_.old, value, index, ranges, [&](const Node& view) {
    return writes(g_.old.value(view.outputs[0]).producer) == nullptr;
  });
  if (!traced) return nullptr;
  const auto at = std::ranges::find_if(
      g_.inputs.caches, [&](const DecoderCache& cache) { return cache.result == traced->source; });
  if (at == g_.inputs.caches.end() || traced->index[at->axis] != index[index.size() - 2])
    return nullptr;
  return &*at;
}

ValueId PagedAttention::attend(const Node& node) {
  const ir::AttentionInputs which =
      ir::attention_inputs(node.attrs, node.inputs.size(), g_.old.type(node.inputs[1]).dtype);
  if (g_.is_crossed(node.inputs[1]) || g_.is_crossed(node.inputs[2])) {
    const bool shows_all = !which.mask || g_.trials.shows_all(node.inputs[*which.mask]);
    if (!g_.is_crossed(node.inputs[1]) || !g_.is_crossed(node.inputs[2]) || which.limits ||
        !shows_all || node.attrs.get_int("causal") != 0)
      refuse_paging(node, "it reads an encoder's positions otherwise than all of them");
    return paged(node, 0, g_.as(g_.cross_limits, DType::kInt64), g_.cross_tables);
  }
  std::vector<std::size_t> rows{1, 2};
  if (which.key_scales) rows.insert(rows.end(), {*which.key_scales, *which.value_scales});
  for (const std::size_t i : rows)
    if (cache_of(node.inputs[i]) == nullptr)
      refuse_paging(node, fmt::format("its operand {} is no cache", i));
  const Shape& q = g_.old.type(node.inputs[0]).shape;
  if (q[q.size() - 2] != g_.inputs.tokens)
    refuse_paging(node, "its queries are not those of the tokens");
  std::int64_t window = 0;
  std::optional<DistanceBias> bias;
  const DecoderCache &keys = *cache_of(node.inputs[1]), &values = *cache_of(node.inputs[2]);
  if (keys.kept != values.kept || (keys.kept && !which.mask))
    refuse_paging(node, "its keys or values are of a sliding window whose positions it ignores");
  if (which.limits) {
    const auto limits = g_.trials.positions(node.inputs[*which.limits]);
    if (!limits || limits->more != 1 || which.mask || node.attrs.get_int("causal") != 0)
      refuse_paging(node, "its rows see other keys than those up to their own position");
  } else if (which.mask) {
    const ValueId mask = node.inputs[*which.mask];
    const auto found =
        keys.kept ? g_.trials.sliding_window(mask, keys) : g_.trials.window(mask, false);
    if (!found && !keys.kept && !node.body) bias = g_.trials.distance_bias(mask);
    if ((!found && !bias) || node.attrs.get_int("causal") == 1)
      refuse_paging(node, "its mask is neither that of all tokens before nor of the last of them");
    window = found.value_or(0);
  } else if (node.attrs.get_int("causal") != 2 ||
             g_.inputs.growth != DecoderInputs::Growth::kConcatenated) {
    refuse_paging(node, "its rows see other keys than those up to their own position");
  }
  has_any_ = true;
  std::vector<ValueId> scales;
  if (which.key_scales)
    scales = {g_.mapped[node.inputs[*which.key_scales].position()],
              g_.mapped[node.inputs[*which.value_scales].position()]};
  const ValueId limits =
      g_.b.add("Add", {g_.as(g_.places, DType::kInt64), g_.b.scalar(DType::kInt64, 1)});
  return paged(node, window, limits, g_.tables, scales, bias ? &*bias : nullptr);
}

ValueId PagedAttention::paged(const Node& node, std::int64_t window, ValueId limits, ValueId tables,
                              const std::vector<ValueId>& scales, const DistanceBias* bias) {
  const Dim tokens = Dim::symbol(paged_names::kTokens);
  std::vector<ValueId> inputs;
  for (std::size_t i = 0; i < 3; ++i) inputs.push_back(g_.mapped[node.inputs[i].position()]);
  inputs.insert(inputs.end(), {g_.shaped(limits, {tokens, Dim(1)}), g_.starts, tables});
  inputs.insert(inputs.end(), scales.begin(), scales.end());
  for (std::size_t i = node.inputs.size() - ir::operands_of_scores(node.attrs);
       i < node.inputs.size(); ++i) {
    inputs.push_back(g_.mapped[node.inputs[i].position()]);
    const Shape& shape = g_.b.type(inputs.back()).shape;
    const bool is_position = g_.trials.positions(node.inputs[i]).has_value();
    for (std::size_t d = shape.size() > 2 ? shape.size() - 2 : 0; d < shape.size(); ++d)
      if (shape[d] != Dim(1) && !(is_position && d + 2 == shape.size()))
        refuse_paging(node, "an operand of its scores differs between tokens or keys");
  }
  const Attrs attrs = {{"scale", node.attrs.get_float("scale")},
                       {"limited", std::int64_t{1}},
                       {"guard", ir::kGuardHidden},
                       {"paged", g_.options.block_size},
                       {"window", window}};
  if (bias != nullptr)
    return add_biased_attention(g_.b, node, std::move(inputs),
                                g_.shaped(g_.as(g_.places, DType::kInt64), {tokens, Dim(1)}), attrs,
                                *bias);
  const auto result = add_attention_of(g_.b, node, inputs, attrs, true);
  if (!result) refuse_paging(node, "its scores count tokens");
  return *result;
}

}  // namespace sinter::fusion
