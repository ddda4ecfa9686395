// SPDX-License-Identifier: Apache-2.0
// Products and convolutions: by columns of the weights, whose results are split, by rows of them,
// whose results are summands, and by experts.
#include <algorithm>

#include "fusion/sharding/strategies.h"
#include "ir/ranks/ranks.h"
#include "ir/scale_format.h"

namespace sinter::fusion {
namespace {

constexpr Split along(std::size_t axis) {
  return {Split::Kind::kAxis, false, static_cast<int>(axis)};
}

/// Weights in a format [n, k], with `lead` dimensions in front of them, and their parts.
struct ScaledWeights {
  const SplitSite& site;
  ir::ProductFormats formats;
  std::size_t lead, last;  // `last`: behind the last part

  std::int64_t k() const { return site.in(0).back().value(); }
  bool has_columns() const {
    const Dim& n = site.in(1)[lead];
    const ir::ScaleFormat& w = *formats.w;
    const auto part = part_of(n, site.parts);
    return part && (w.rows == 0 || part->value() % w.rows == 0);
  }
  void split_columns(Strategy& way) const {
    way.inputs[1] = along(lead);
    for (std::size_t i = formats.weight_scales(); i < last; ++i)
      if (site.in(i)[lead] != Dim(1)) way.inputs[i] = along(lead);
  }
  bool has_rows() const {
    if (k() % site.parts != 0) return false;
    const std::int64_t part = k() / site.parts;
    const auto fits = [&](const ir::ScaleFormat& format) {
      return (format.codes->bits != 4 || part % 2 == 0) &&
             (format.depth == 0 || part % format.depth == 0);
    };
    return fits(*formats.w) && (!formats.x || fits(*formats.x));
  }
  void split_rows(Strategy& way) const {
    way.inputs[0] = along(site.in(0).size() - 1);
    way.inputs[1] = along(lead + 1);
    if (formats.x && formats.x->depth != 0) way.inputs[2] = along(site.in(2).size() - 1);
    for (std::size_t i = formats.weight_scales(); i < last; ++i)
      if (site.in(i)[lead + 1] != Dim(1)) way.inputs[i] = along(lead + 1);
  }
};

void add_partial_operand(const SplitSite& site, std::size_t i, std::vector<Strategy>& ways) {
  if (!is_arithmetic_float(site.graph.type(site.node.inputs[i]).dtype)) return;
  Strategy way = site.strategy("sum later", kPartial);
  way.inputs[i] = kPartial;
  way.shares_work = false;
  ways.push_back(std::move(way));
}

void add_plain_matmul(const SplitSite& site, std::vector<Strategy>& ways) {
  const Shape &a = site.in(0), &b = site.in(1), &out = site.out();
  const std::size_t rank = out.size();
  if (site.divides(b, b.size() - 1)) {
    Strategy way = site.strategy("column", along(rank - 1));
    way.inputs[1] = along(b.size() - 1);
    ways.push_back(std::move(way));
  }
  if (site.divides(a, a.size() - 1) && site.divides(b, b.size() - 2)) {
    Strategy way = site.strategy("row", kPartial);
    way.inputs = {along(a.size() - 1), along(b.size() - 2)};
    ways.push_back(std::move(way));
  }
  for (std::size_t d = 0; d + 1 < rank; ++d) {
    if (!site.divides(out, d)) continue;
    Strategy way = site.strategy("split", along(d));
    way.inputs[0] = site.aligned(0, d, rank);
    if (d + 2 < rank) way.inputs[1] = site.aligned(1, d, rank);
    ways.push_back(std::move(way));
  }
}

/// The first experts of each rank: its part of the offsets, and the end of its last expert.
ValueId offsets_of_own(GraphBuilder& b, ValueId offsets, std::int64_t experts) {
  return b.add("Slice", {offsets},
               {{"starts", Shape{Dim::symbol(ir::kRankSymbol) * Dim(experts)}},
                {"shape", Shape{Dim(experts + 1)}},
                {"steps", Ints{1}}});
}

void add_experts(const SplitSite& site, std::vector<Strategy>& ways) {
  const auto experts = part_of(site.in(1)[0], site.parts);
  if (!experts) return;
  // Rows outside a rank's experts are zero: summands. A pointwise operator keeps them as the rows
  // that the rank owns.
  for (const Split result : {kPartial, kOwned}) {
    Strategy way = site.strategy("experts", result);
    way.inputs[0] = kOwned;
    for (std::size_t i = 1; i + 1 < way.inputs.size(); ++i) way.inputs[i] = along(0);
    way.write = [&node = site.node, count = experts->value()](GraphBuilder& b,
                                                              std::span<const ValueId> inputs) {
      std::vector<ValueId> own(inputs.begin(), inputs.end());
      own.back() = offsets_of_own(b, own.back(), count);
      return b.add_multi(node.op->name, own, node.attrs);
    };
    ways.push_back(std::move(way));
  }
}

}  // namespace

void add_matmul(const SplitSite& site, std::vector<Strategy>& ways) {
  const ScaledWeights weights{site, ir::ProductFormats(site.node.attrs), 0,
                              site.node.inputs.size()};
  if (!weights.formats.w) {
    add_plain_matmul(site, ways);
    add_partial_operand(site, 1, ways);
  } else {
    if (weights.has_columns()) {
      Strategy way = site.strategy("column", along(site.out().size() - 1));
      weights.split_columns(way);
      ways.push_back(std::move(way));
    }
    if (weights.has_rows()) {
      Strategy way = site.strategy("row", kPartial);
      weights.split_rows(way);
      ways.push_back(std::move(way));
    }
    for (std::size_t d = 0; d + 1 < site.out().size(); ++d) {
      if (!site.divides(site.out(), d)) continue;
      Strategy way = site.strategy("split", along(d));
      way.inputs[0] = along(d);
      if (weights.formats.x) way.inputs[2] = along(d);
      ways.push_back(std::move(way));
    }
  }
  if (!weights.formats.x) add_partial_operand(site, 0, ways);
}

void add_grouped_matmul(const SplitSite& site, std::vector<Strategy>& ways) {
  const ScaledWeights weights{site, ir::ProductFormats(site.node.attrs), 1,
                              site.node.inputs.size() - 1};
  add_experts(site, ways);
  Strategy column = site.strategy("inner column", along(1)),
           row = site.strategy("inner row", kPartial);
  if (weights.formats.w) {
    if (weights.has_columns()) {
      weights.split_columns(column);
      ways.push_back(std::move(column));
    }
    if (weights.has_rows()) {
      weights.split_rows(row);
      ways.push_back(std::move(row));
    }
    return;
  }
  const bool is_transposed = site.node.attrs.get_int("transposed") != 0;
  const std::size_t n = is_transposed ? 1 : 2, k = is_transposed ? 2 : 1;
  if (site.divides(site.in(1), n)) {
    column.inputs[1] = along(n);
    ways.push_back(std::move(column));
  }
  if (site.divides(site.in(1), k)) {
    row.inputs[0] = along(1);
    row.inputs[1] = along(k);
    ways.push_back(std::move(row));
  }
}

void add_conv(const SplitSite& site, std::vector<Strategy>& ways) {
  const bool is_last = site.node.attrs.get_int("channels_last") != 0;
  const std::size_t channels = is_last ? site.in(0).size() - 1 : 1;
  const std::int64_t group = site.node.attrs.get_int("group");
  const bool has_bias = site.node.inputs.size() > 2;
  Strategy column = site.strategy("channels", along(channels));
  column.inputs[1] = along(0);
  if (has_bias) column.inputs[2] = along(0);
  if (group == 1 && site.divides(site.in(1), 0)) ways.push_back(column);
  if (group % site.parts == 0 && group > 1) {
    column.name = "groups";
    column.inputs[0] = along(channels);
    column.attrs.set("group", group / site.parts);
    ways.push_back(column);
  }
  if (group == 1 && site.divides(site.in(0), channels)) {
    Strategy row = site.strategy("input channels", kPartial);
    row.inputs[0] = along(channels);
    row.inputs[1] = along(channels);
    // One rank adds the bias.
    if (has_bias)
      row.write = [&node = site.node](GraphBuilder& b, std::span<const ValueId> inputs) {
        const ValueId is_first =
            b.add("Equal", {rank_number(b, DType::kInt64), b.scalar(DType::kInt64, 0)});
        const ValueId bias =
            b.add("Where", {is_first, inputs[2], b.scalar(b.type(inputs[2]).dtype, 0)});
        return std::vector{b.add("Conv", {inputs[0], inputs[1], bias}, node.attrs)};
      };
    if (is_arithmetic_float(site.graph.type(site.node.outputs[0]).dtype))
      ways.push_back(std::move(row));
  }
  if (site.divides(site.in(0), 0)) {
    Strategy batch = site.strategy("split", along(0));
    batch.inputs[0] = along(0);
    ways.push_back(std::move(batch));
  }
}

}  // namespace sinter::fusion
