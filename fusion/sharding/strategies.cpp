// SPDX-License-Identifier: Apache-2.0
#include "fusion/sharding/strategies.h"

#include <algorithm>

#include "ir/ranks/ranks.h"

namespace sinter::fusion {
namespace {

using Rule = void (*)(const SplitSite& site, std::vector<Strategy>& ways);
struct NamedRule {
  std::string_view op;
  Rule add;
};
constexpr NamedRule kRules[] = {
    {"Gather", add_gather},
    {"Take", add_take},
    {"Scatter", add_scatter},
    {"Scan", add_along_axis},
    {"ArgSort", add_along_axis},
    {"Softmax", add_norm},
    {"LayerNorm", add_norm},
    {"RmsNorm", add_norm},
    {"MatMul", add_matmul},
    {"GroupedMatMul", add_grouped_matmul},
    {"Conv", add_conv},
    {"Attention", add_attention},
    {"LinearAttention", add_linear_attention},
};

Rule rule_of(const ir::OpDef& op) {
  if (op.kind == OpKind::kPointwise) return add_pointwise;
  if (op.kind == OpKind::kReduce) return add_reduction;
  if (op.kind == OpKind::kView) return add_view;
  for (const NamedRule& rule : kRules)
    if (rule.op == op.name) return rule.add;
  return nullptr;
}

}  // namespace

Strategy SplitSite::strategy(std::string_view name, Split output) const {
  return {.name = name,
          .inputs = std::vector<Split>(node.inputs.size()),
          .outputs = std::vector<Split>(node.outputs.size(), output),
          .attrs = node.attrs};
}

Split SplitSite::aligned(std::size_t i, std::size_t axis, std::size_t rank) const {
  const Shape& shape = in(i);
  if (axis + shape.size() < rank) return kWhole;
  const std::size_t own = axis + shape.size() - rank;
  return shape[own] == Dim(1) ? kWhole : Split::along(own);
}

namespace {

std::vector<Strategy> all_strategies(const Graph& graph, const Node& node, Ranks ranks) {
  const SplitSite site{graph, node, ranks};
  std::vector<Strategy> ways{site.strategy("whole", kWhole)};
  ways[0].shares_work = false;
  const Rule rule = rule_of(*node.op);
  if (rule == nullptr) return ways;
  rule(site, ways);
  if (ranks.shared == 0) return ways;
  add_joined(site, ways);
  if (node.op->name == "Attention") return ways;
  // The same ways by fewer parts; summands would be counted by each rank that shares a part.
  std::vector<Strategy> shared;
  rule({graph, node, ranks, ranks.shared}, shared);
  for (Strategy& way : shared) {
    bool is_split = true;
    for (auto* splits : {&way.inputs, &way.outputs})
      for (Split& split : *splits) {
        is_split = is_split && (split == kWhole || split.is_along());
        split.is_shared = split.is_along();
      }
    if (is_split) ways.push_back(std::move(way));
  }
  return ways;
}

}  // namespace

std::vector<Strategy> strategies(const Graph& graph, const Node& node, Ranks ranks) {
  std::vector<Strategy> ways = all_strategies(graph, node, ranks);
  const auto is_far = [](const Split& split) { return split.axis >= kMostAxes; };
  std::erase_if(ways, [&](const Strategy& way) {
    return std::ranges::any_of(way.inputs, is_far) || std::ranges::any_of(way.outputs, is_far);
  });
  return ways;
}

ValueId rank_slice(GraphBuilder& builder, ValueId value, Split split, Ranks ranks) {
  const TensorType whole = builder.type(value), part = part_of(whole, split, ranks);
  const Dim rank = Dim::symbol(ir::kRankSymbol), sharing(ranks.sharing());
  // Which part, where several ranks share one, and which of those.
  const Dim shared = ir::floor_div(rank, sharing);
  Shape starts(whole.shape.size(), Dim(0));
  const bool is_joined = split.kind == Split::Kind::kJoined;
  starts[split.at()] = (split.is_shared || is_joined ? shared : rank) * part.shape[split.at()];
  if (is_joined) starts[split.at() + 1] = (rank - sharing * shared) * part.shape[split.at() + 1];
  return builder.add(
      "Slice", {value},
      {{"starts", starts}, {"shape", part.shape}, {"steps", Ints(starts.size(), 1)}});
}

ValueId rank_number(GraphBuilder& builder, DType type) {
  return builder.add("Size", {}, {{"value", Shape{Dim::symbol(ir::kRankSymbol)}}, {"dtype", type}});
}

}  // namespace sinter::fusion
