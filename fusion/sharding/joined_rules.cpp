// SPDX-License-Identifier: Apache-2.0
// Grouped-query attention where heads of keys and values are fewer than ranks: queries are [..,
// heads of keys, group, ..], and a rank has a part of one group, and the head of keys that it
// reads.
#include <algorithm>
#include <optional>

#include "fusion/sharding/body.h"
#include "fusion/sharding/strategies.h"
#include "ir/attention_inputs.h"

namespace sinter::fusion {
namespace {

/// Whether dimensions `axis` and `axis` + 1 are split joined.
bool joins(const SplitSite& site, const Shape& shape, std::size_t axis) {
  return axis + 1 < shape.size() && shape[axis] == Dim(site.ranks.shared) &&
         part_of(shape[axis + 1], site.ranks.sharing()).has_value();
}

/// How input `i` is split that broadcasts to `rank` dimensions split joined by `axis`; nothing if
/// that is no split.
std::optional<Split> aligned_joined(const SplitSite& site, std::size_t i, std::size_t axis,
                                    std::size_t rank) {
  const Split outer = site.aligned(i, axis, rank), inner = site.aligned(i, axis + 1, rank);
  if (outer == kWhole) return inner == kWhole ? std::optional(kWhole) : std::nullopt;
  return inner == kWhole ? Split::shared(outer.at()) : Split::joined(outer.at());
}

/// All inputs but `apart` as they broadcast to the result, which is split joined by `axis`.
std::optional<Strategy> broadcast(const SplitSite& site, std::size_t axis,
                                  const std::vector<std::size_t>& apart) {
  Strategy way = site.strategy("shared heads", Split::joined(axis));
  for (std::size_t i = 0; i < way.inputs.size(); ++i) {
    if (std::ranges::find(apart, i) != apart.end()) continue;
    const auto split = aligned_joined(site, i, axis, site.out().size());
    if (!split) return std::nullopt;
    way.inputs[i] = *split;
  }
  return way;
}

void add_reshape(const SplitSite& site, std::vector<Strategy>& ways) {
  const Shape &in = site.in(0), &out = site.out();
  Dim before = 1;
  for (std::size_t d = 0; d < in.size(); before *= in[d], ++d) {
    Dim other = 1;
    for (std::size_t to = 0; to < out.size(); other *= out[to], ++to) {
      if (other != before) continue;
      const bool from_joined = joins(site, in, d), to_joined = joins(site, out, to);
      const bool from_along = site.divides(in, d), to_along = site.divides(out, to);
      const auto add = [&](Split from, Split result) {
        Strategy way = site.strategy("shared heads", result);
        way.inputs[0] = from;
        way.attrs.set("shape", part_of({DType::kFloat32, out}, result, site.ranks).shape);
        ways.push_back(std::move(way));
      };
      if (from_along && to_joined) add(Split::along(d), Split::joined(to));
      if (from_joined && to_along) add(Split::joined(d), Split::along(to));
      if (from_joined && to_joined) add(Split::joined(d), Split::joined(to));
    }
  }
}

void add_transpose(const SplitSite& site, std::vector<Strategy>& ways) {
  const Ints& perm = site.node.attrs.get_ints("perm");
  for (std::size_t d = 0; d + 1 < perm.size(); ++d) {
    if (perm[d] + 1 != perm[d + 1] || !joins(site, site.out(), d)) continue;
    Strategy way = site.strategy("shared heads", Split::joined(d));
    way.inputs[0] = Split::joined(static_cast<std::size_t>(perm[d]));
    ways.push_back(std::move(way));
  }
}

void add_attention_of_shared(const SplitSite& site, std::vector<Strategy>& ways) {
  const Node& node = site.node;
  const ir::AttentionInputs which =
      ir::attention_inputs(node.attrs, node.inputs.size(), site.graph.type(node.inputs[1]).dtype);
  std::vector<std::size_t> apart;
  for (const auto& input : {which.bounds, which.tables})
    if (input) apart.push_back(*input);
  for (std::size_t d = 0; d + 3 < site.out().size(); ++d) {
    if (!joins(site, site.out(), d)) continue;
    auto way = broadcast(site, d, apart);
    if (!way) continue;
    if (node.body) {
      std::vector<Split> splits{Split::joined(d)};
      splits.insert(splits.end(), way->inputs.end() - static_cast<std::ptrdiff_t>(which.operands),
                    way->inputs.end());
      const auto body = body_of_rank(*node.body, splits, site.ranks);
      if (body == nullptr) continue;
      way->write = [&node, body](GraphBuilder& b, std::span<const ValueId> inputs) {
        return b.add_multi(node.op->name, {inputs.begin(), inputs.end()}, node.attrs, body);
      };
    }
    ways.push_back(std::move(*way));
  }
}

}  // namespace

void add_joined(const SplitSite& site, std::vector<Strategy>& ways) {
  const ir::OpDef& op = *site.node.op;
  if (op.name == "Reshape") add_reshape(site, ways);
  if (op.name == "Transpose") add_transpose(site, ways);
  if (op.name == "Attention") add_attention_of_shared(site, ways);
  if (op.kind != OpKind::kPointwise) return;
  for (std::size_t d = 0; d + 1 < site.out().size(); ++d)
    if (joins(site, site.out(), d))
      if (auto way = broadcast(site, d, {})) ways.push_back(std::move(*way));
}

}  // namespace sinter::fusion
