// SPDX-License-Identifier: Apache-2.0
// What reads and writes at indices: embeddings by vocabulary or by columns, caches by heads.
#include "fusion/sharding/strategies.h"

namespace sinter::fusion {
namespace {

bool can_sum(const SplitSite& site) {
  const DType type = site.graph.type(site.node.outputs[0]).dtype;
  return is_arithmetic_float(type);
}

/// Rows of a table of which each rank has a part: its own rows, zero for those of other ranks.
Strategy::Write rows_of_own(const SplitSite& site, std::size_t axis) {
  return [&node = site.node, type = site.graph.type(site.node.inputs[0]).dtype, axis,
          rows = site.in(0)[axis], part = part_of(site.in(0)[axis], site.parts).value(),
          rank = site.out().size()](GraphBuilder& b, std::span<const ValueId> inputs) {
    ValueId ids = inputs[1];
    if (b.type(ids).dtype != DType::kInt64) ids = b.add("Cast", {ids}, {{"to", DType::kInt64}});
    const auto size = [&](const Dim& value) {
      return b.add("Size", {}, {{"value", Shape{value}}, {"dtype", DType::kInt64}});
    };
    const ValueId zero = b.scalar(DType::kInt64, 0);
    // Negative numbers count from the end.
    const ValueId number =
        b.add("Where", {b.add("Less", {ids, zero}), b.add("Add", {ids, size(rows)}), ids});
    const ValueId own =
        b.add("Sub", {number, b.add("Mul", {rank_number(b, DType::kInt64), size(part)})});
    const ValueId is_own =
        b.add("And", {b.add("GreaterOrEqual", {own, zero}), b.add("Less", {own, size(part)})});
    const ValueId found =
        b.add("Gather", {inputs[0], b.add("Where", {is_own, own, zero})}, node.attrs);
    // The mask has the dimensions of the indices, which stand at `axis`.
    Shape mask = b.type(is_own).shape;
    mask.resize(rank - axis, Dim(1));
    return std::vector{
        b.add("Where", {b.add("Reshape", {is_own}, {{"shape", mask}}), found, b.scalar(type, 0)})};
  };
}

/// Where the index input `i` counts the elements of dimension `d` of the data, each once: the axis
/// of the result along which it does. Nothing for other indices.
std::optional<std::size_t> counted_axis(const SplitSite& site, std::size_t first, std::size_t d,
                                        std::size_t rank) {
  const Node* iota = site.graph.producer(site.node.inputs[first + d]);
  if (iota == nullptr || iota->op->name != "Iota") return std::nullopt;
  const auto own = static_cast<std::size_t>(iota->attrs.get_int("axis"));
  const Shape& shape = site.in(first + d);
  for (std::size_t i = 0; i < shape.size(); ++i)
    if (shape[i] != (i == own ? site.in(0)[d] : Dim(1))) return std::nullopt;
  const std::size_t axis = own + rank - shape.size();
  // No other index depends on it.
  for (std::size_t i = first; i < site.node.inputs.size(); ++i)
    if (i != first + d && site.aligned(i, axis, rank) != kWhole) return std::nullopt;
  return axis;
}

/// The node with index `d` counting the elements of a rank's part.
Strategy::Write with_own_count(const SplitSite& site, std::size_t first, std::size_t d) {
  return
      [&node = site.node, at = first + d, iota = site.graph.producer(site.node.inputs[first + d]),
       parts = site.parts](GraphBuilder& b, std::span<const ValueId> inputs) {
        Attrs attrs = iota->attrs;
        Shape shape = attrs.get_dims("shape");
        Dim& count = shape[static_cast<std::size_t>(attrs.get_int("axis"))];
        count = part_of(count, parts).value();
        attrs.set("shape", shape);
        std::vector<ValueId> own(inputs.begin(), inputs.end());
        own[at] = b.add("Iota", {}, attrs);
        return b.add_multi(node.op->name, own, node.attrs);
      };
}

void add_sum(const SplitSite& site, std::vector<Strategy>& ways) {
  if (!can_sum(site)) return;
  Strategy way = site.strategy("sum later", kPartial);
  way.inputs[0] = kPartial;
  way.shares_work = false;
  ways.push_back(std::move(way));
}

}  // namespace

void add_gather(const SplitSite& site, std::vector<Strategy>& ways) {
  const auto axis = static_cast<std::size_t>(site.node.attrs.get_int("axis"));
  const Shape &data = site.in(0), &ids = site.in(1);
  for (std::size_t d = 0; d < data.size(); ++d) {
    if (d == axis || !site.divides(data, d)) continue;
    Strategy way = site.strategy("column", Split::along(d < axis ? d : d + ids.size() - 1));
    way.inputs[0] = Split::along(d);
    ways.push_back(std::move(way));
  }
  for (std::size_t d = 0; d < ids.size(); ++d) {
    if (!site.divides(ids, d)) continue;
    Strategy way = site.strategy("split", Split::along(axis + d));
    way.inputs[1] = Split::along(d);
    ways.push_back(std::move(way));
  }
  if (can_sum(site) && site.divides(data, axis)) {
    Strategy way = site.strategy("vocabulary", kPartial);
    way.inputs[0] = Split::along(axis);
    way.write = rows_of_own(site, axis);
    ways.push_back(std::move(way));
  }
  add_sum(site, ways);
}

void add_take(const SplitSite& site, std::vector<Strategy>& ways) {
  const Shape& out = site.out();
  for (std::size_t d = 0; d < site.in(0).size(); ++d) {
    const auto axis = counted_axis(site, 1, d, out.size());
    if (!axis || !site.divides(out, *axis)) continue;
    Strategy way = site.strategy("split", Split::along(*axis));
    way.inputs[0] = Split::along(d);
    way.write = with_own_count(site, 1, d);
    ways.push_back(std::move(way));
  }
  add_aligned(site, ways, 1);
  add_sum(site, ways);
}

void add_scatter(const SplitSite& site, std::vector<Strategy>& ways) {
  const std::size_t rank = site.in(1).size();
  for (std::size_t d = 0; d < site.in(0).size(); ++d) {
    const auto axis = counted_axis(site, 2, d, rank);
    if (!axis || !site.divides(site.in(0), d)) continue;
    Strategy way = site.strategy("split", Split::along(d));
    way.inputs[0] = Split::along(d);
    way.inputs[1] = Split::along(*axis);
    way.write = with_own_count(site, 2, d);
    ways.push_back(std::move(way));
  }
}

}  // namespace sinter::fusion
