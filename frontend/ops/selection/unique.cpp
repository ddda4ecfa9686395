// SPDX-License-Identifier: Apache-2.0
// Unique: sorts, compares neighbours and counts; the run determines the number of groups.
#include "frontend/ops/selection/compact.h"
#include "frontend/ops/table/op_table.h"

namespace sinter::frontend {
namespace {

// Maximum columns: slices are compared by one sort per element.
constexpr std::int64_t kMostColumns = 64;

Term rows_at(const Term& rows, const Term& places) {
  NodeContext& node = rows.node();
  return {node, node.add("Gather", {rows.value(), places.value()}, {{"axis", std::int64_t{0}}})};
}

Term scattered(const Term& onto, const Term& updates, const Term& places, const char* combine) {
  NodeContext& node = onto.node();
  return {node, node.add("Scatter", {onto.value(), updates.value(), places.value()},
                         {{"combine", std::string(combine)}, {"distinct", std::int64_t{1}}})};
}

Term numbers_of(NodeContext& node, const Dim& count, double value) {
  return {node, node.expand(node.constant(DType::kInt64, value), {count})};
}

Term sort_places(const Term& keys, const Dim& count) {
  NodeContext& node = keys.node();
  return {node, node.add("ArgSort", {keys.value()},
                         {{"axis", std::int64_t{0}}, {"count", std::vector<Dim>{count}}})};
}

/// Indices that sort rows [count, columns] in ascending order; stable.
Term order_of(const Term& rows) {
  const Dim count = rows.shape()[0];
  const std::int64_t columns = rows.shape()[1].value();
  const auto column = [&](std::int64_t c) { return slice_one(rows, 1, Dim(c)).reshape({count}); };
  Term order = sort_places(column(columns - 1), count);
  // Least significant column first: the sorts are stable.
  for (std::int64_t c = columns - 1; c-- > 0;)
    order = rows_at(order, sort_places(rows_at(column(c), order), count));
  return order;
}

/// For sorted rows: whether each differs from the previous one.
Term begins_group(const Term& sorted) {
  NodeContext& node = sorted.node();
  const Term place = iota(node, sorted.shape()[0], 0, 1);
  const Term before = rows_at(sorted, (place - 1).with("Max", 0.0));
  const Term differs = sorted.with("Equal", before).apply("Not").cast(DType::kUInt8);
  return reduce("ReduceMax", differs, 1).cast(DType::kBool).with("Or", place.with("Equal", 0.0));
}

void unique(NodeContext& node) {
  const Term x(node, node.x());
  const Shape shape = x.shape();
  const bool has_axis = node.has_attr("axis");
  Ints perm, back;  // permutations of the axis to the front, and back
  if (has_axis) {
    const std::int64_t axis = node.normalise_axis(node.attr_int("axis"), std::ssize(shape));
    perm.push_back(axis);
    for (std::int64_t d = 0; d < std::ssize(shape); ++d)
      if (d != axis) perm.push_back(d);
    back.resize(perm.size());
    for (std::size_t d = 0; d < perm.size(); ++d)
      back[static_cast<std::size_t>(perm[d])] = static_cast<std::int64_t>(d);
  }
  const Term moved = has_axis ? Term(node, node.transpose(x.value(), perm)) : x;
  const Shape front = moved.shape();
  const Dim count = has_axis ? front[0] : ir::element_count(shape);
  Dim columns = 1;
  for (std::size_t d = 1; has_axis && d < front.size(); ++d) columns = columns * front[d];
  if (!columns.is_constant() || columns.value() < 1 || columns.value() > kMostColumns)
    node.unsupported("slices of {} elements are compared: 1 to {} are supported", columns,
                     kMostColumns);
  Term rows = moved.reshape({count, columns});
  if (rows.dtype() == DType::kBool) rows = rows.cast(DType::kUInt8);
  const Term order = order_of(rows), sorted = rows_at(rows, order);
  const Term begins = begins_group(sorted);
  const Places places = places_of(node, begins);
  const Dim found = places.count;
  Term first = places.index, indices = rows_at(order, first);
  const Term running(node, node.add("Scan", {begins.cast(DType::kInt64).value()},
                                    {{"axis", std::int64_t{0}}, {"combine", std::string("sum")}}));
  const Term group = running - 1;  // by sorted row
  Term inverse = scattered(numbers_of(node, count, 0), group, order, "none");
  Term counts = scattered(numbers_of(node, found, 0), numbers_of(node, count, 1), group, "sum");
  if (node.attr_int("sorted", 1) == 0) {
    // In the order of first occurrence.
    const Term as_met = sort_places(indices, found);
    const Term rank =
        scattered(numbers_of(node, found, 0), iota(node, found, 0, 1), as_met, "none");
    first = rows_at(first, as_met);
    indices = rows_at(indices, as_met);
    counts = rows_at(counts, as_met);
    inverse = rows_at(rank, inverse);
  }
  Shape result = has_axis ? front : Shape{found};
  result[0] = found;
  const Term values = rows_at(sorted, first).cast(x.dtype()).reshape(result);
  const Term outputs[] = {has_axis ? Term(node, node.transpose(values.value(), back)) : values,
                          indices, inverse, counts};
  for (std::size_t i = 0; i < node.output_count(); ++i)
    if (node.output_is_used(i)) node.output(i, outputs[i].value());
}

}  // namespace

const OpRows kUniqueOps = {{"Unique", 11, unique, "axis sorted"}};

}  // namespace sinter::frontend
