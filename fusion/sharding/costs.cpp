// SPDX-License-Identifier: Apache-2.0
#include "fusion/sharding/costs.h"

#include <algorithm>
#include <limits>

#include "fusion/regions/cost.h"

namespace sinter::fusion {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
// Memory that each device holds has a price, too: a byte of a table of which few rows are read
// costs this share of a byte that is read. 1 GB more on each device is worth 26 us of an H200.
constexpr double kHeldShare = 0.125;

}  // namespace

ShardingCosts::ShardingCosts(const Graph& graph, const ShardingOptions& options, Ranks ranks)
    : graph_(graph), options_(options), ranks_(ranks) {
  for (std::size_t v = 0; v < graph.values().size(); ++v)
    bytes_.push_back(typical_bytes(graph, ValueId{static_cast<std::int32_t>(v)}));
}

double ShardingCosts::bytes(ValueId value, Split split) const {
  const double all = bytes_[value.position()];
  const bool is_shared = split.is_part() || split == kOwned;
  return is_shared ? all / static_cast<double>(ranks_.parts(split)) : all;
}

double ShardingCosts::bytes(const Node& node, const Strategy& way) const {
  // Views are read where they are used.
  if (node.op->kind == OpKind::kView) return 0;
  double sum = 0;
  for (std::size_t i = 0; i < node.outputs.size(); ++i)
    sum += bytes(node.outputs[i], way.outputs[i]);
  const bool reads_rows = node.op->take() != nullptr || node.op->scatter() != nullptr;
  for (std::size_t i = reads_rows ? 1 : 0; i < node.inputs.size(); ++i)
    sum += bytes(node.inputs[i], way.inputs[i]);
  // As many elements as are written of a table that is read, or read of one that is written.
  if (reads_rows)
    sum += node.op->take() != nullptr
               ? bytes(node.outputs[0], way.outputs[0])
               : bytes(node.inputs[1], way.inputs[1]) - bytes(node.outputs[0], way.outputs[0]);
  return sum;
}

double ShardingCosts::operations(const Node& node) const {
  const auto count = [&](const Dim& dim) { return typical(dim, graph_.ranges()); };
  const auto elements = [&](ValueId value) {
    return count(ir::element_count(graph_.type(value).shape));
  };
  const std::string& op = node.op->name;
  if (op == "MatMul" || op == "GroupedMatMul")
    return 2 * elements(node.outputs[0]) * count(graph_.type(node.inputs[0]).shape.back());
  if (op == "Conv") {
    const Shape& w = graph_.type(node.inputs[1]).shape;
    return 2 * elements(node.outputs[0]) * elements(node.inputs[1]) / count(w[0]);
  }
  if (op == "Attention") {
    const Shape& keys = graph_.type(node.inputs[1]).shape;
    return 4 * elements(node.outputs[0]) * count(keys[keys.size() - 2]);
  }
  if (op == "LinearAttention")
    return 4 * elements(node.outputs[0]) * count(graph_.type(node.inputs[0]).shape.back());
  return 0;
}

double ShardingCosts::seconds(const Node& node, const Strategy& way) const {
  const double share =
      way.shares_work ? 1.0 / static_cast<double>(ranks_.parts(way.outputs[0])) : 1;
  double result = std::max(bytes(node, way) / options_.memory_bandwidth,
                           operations(node) * share / options_.product_rate);
  if (node.op->take() != nullptr && graph_.is_constant(node.inputs[0]))
    result += bytes(node.inputs[0], way.inputs[0]) * kHeldShare / options_.memory_bandwidth;
  return result;
}

double ShardingCosts::conversion(ValueId value, Split from, Split to) const {
  if (from == to) return 0;
  const double all = bytes_[value.position()];
  const std::int64_t ranks = ranks_.count;
  switch (from.kind) {
    case Split::Kind::kWhole: return to == kPartial ? kNever : 0;
    case Split::Kind::kOwned: return kNever;
    case Split::Kind::kPartial:
      return to.is_along()                  ? options_.links.reduce_scatter(ranks, all)
             : to == kWhole || to.is_part() ? options_.links.all_reduce(ranks, all)
                                            : kNever;
    case Split::Kind::kAxis:
    case Split::Kind::kJoined:
      if (from.is_along() && to.is_along()) return options_.links.all_to_all(ranks, all);
      return to == kWhole || to.is_part() ? options_.links.all_gather(ranks, all) : kNever;
  }
  return kNever;
}

}  // namespace sinter::fusion
