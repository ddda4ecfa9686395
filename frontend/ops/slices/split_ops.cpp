// SPDX-License-Identifier: Apache-2.0
// Operators that split, concatenate and gather.
#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "frontend/ops/slices/slice_spec.h"
#include "frontend/ops/table/op_table.h"
#include "frontend/ops/term.h"
#include "ir/dim/dim_mismatch.h"

namespace sinter::frontend {
namespace {

using ir::Ranges;

/// Sizes of equal parts; from opset 18 on the last may be smaller.
std::vector<Dim> equal_parts(NodeContext& node, const Dim& extent, std::int64_t count) {
  if (const auto part = ir::divide_exactly(extent, Dim(count)))
    return std::vector<Dim>(static_cast<std::size_t>(count), *part);
  const ir::Ranges& ranges = node.builder().ranges();
  if (node.opset() >= 18 && ir::is_from_data({&extent, 1}, ranges)) {
    const Dim part = ir::ceil_div(extent, count, ranges);
    std::vector<Dim> parts;
    Dim begin(0);
    for (std::int64_t i = 1; i <= count; ++i) {
      const Dim end = i == count ? extent : ir::min(Dim(i) * part, extent, ranges);
      parts.push_back(end - begin);
      begin = end;
    }
    return parts;
  }
  if (!extent.is_constant())
    throw ir::DimMismatch(extent, Dim(count) * ir::floor_div(extent, Dim(count), ranges),
                          fmt::format("{} is not known to be a multiple of {}", extent, count),
                          ErrorCode::kUnsupported);
  if (node.opset() < 18)
    node.invalid("{} cannot be split into {} equal parts", extent.value(), count);
  const std::int64_t part = (extent.value() + count - 1) / count;
  std::vector<Dim> parts(static_cast<std::size_t>(count), Dim(part));
  const std::int64_t last = extent.value() - part * (count - 1);
  if (last < 0) node.invalid("{} cannot be split into {} parts of {}", extent.value(), count, part);
  parts.back() = last;
  return parts;
}

/// Sizes of parts that only the run knows, one symbol for each but the last, which is the rest.
std::vector<Dim> parts_from_data(NodeContext& node, const Dim& extent) {
  const Term given = Term(node, node.input(1, "split")).cast(DType::kInt64);
  const auto count = static_cast<std::int64_t>(node.output_count());
  const Term least = reduce("ReduceMin", given, 0),
             surplus = reduce("ReduceSum", given, 0) - size_of_dim(node, extent);
  node.require_zero(select(least.with("Less", 0.0), least, surplus).value(), "/surplus");
  std::vector<Dim> parts;
  // No part begins behind the end, whatever the sizes are.
  Term rest = size_of_dim(node, extent);
  Dim last = extent;
  for (std::int64_t i = 0; i + 1 < count; ++i) {
    const Term size = slice_one(given, 0, Dim(i)).reshape({}).with("Min", rest).with("Max", 0.0);
    parts.push_back(node.size_from_data(size.value(), extent, fmt::format("/{}", i)));
    rest = rest - size;
    last = last - parts.back();
  }
  parts.push_back(last);
  return parts;
}

void split(NodeContext& node) {
  const ValueId x = node.x();
  const auto axis =
      static_cast<std::size_t>(node.normalise_axis(node.attr_int("axis", 0), node.rank(x)));
  const Dim extent = node.shape(x)[axis];
  std::int64_t count = static_cast<std::int64_t>(node.output_count());
  std::vector<Dim> parts;
  if (node.opset() >= 13 && node.has_input(1)) {
    const ValueId sizes = node.input(1, "split");
    const bool is_known = node.shape(sizes) != Shape{Dim(count)} || node.folder().contents(sizes);
    parts = is_known ? node.sizes(1, "split") : parts_from_data(node, extent);
  } else if (const auto given = node.opset() < 13 ? node.attr_ints("split") : std::nullopt) {
    parts.assign(given->begin(), given->end());
  } else {
    if (node.opset() >= 18) count = node.attr_int("num_outputs", count);
    if (count < 1 || count != static_cast<std::int64_t>(node.output_count()))
      node.invalid("it has {} outputs for {} parts", node.output_count(), count);
    parts = equal_parts(node, extent, count);
  }
  if (parts.size() != node.output_count())
    node.invalid("it has {} outputs for {} parts", node.output_count(), parts.size());
  Dim sum(0);
  for (const Dim& part : parts) {
    if (part.is_constant() && part.value() < 0) node.invalid("a part has a negative size");
    sum = sum + part;
  }
  ir::require_equal(sum, extent, [&] {
    return fmt::format("parts of {} sum to {}, but dimension {} of {} is {}", parts, sum, axis,
                       node.type(x), extent);
  });
  const ir::Ranges& ranges = node.builder().ranges();
  Dim start(0);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    SliceSpec spec(node.shape(x));
    spec.starts[axis] = parts[i] == Dim(0) ? Dim(0) : start;
    // Inside even where each size is the most that it may be, for which plans are checked.
    if (i > 0 && start != extent - parts[i] && ir::is_from_data({&start, 1}, ranges))
      spec.starts[axis] = ir::min(start, extent - parts[i], ranges);
    spec.shape[axis] = parts[i];
    if (node.output_is_used(i)) node.output(i, add_slice(node, x, spec));
    start = start + parts[i];
  }
}

void concat(NodeContext& node) {
  const auto inputs = node.all_inputs();
  const std::int64_t axis = node.normalise_axis(node.attr_int("axis"), node.rank(inputs[0]));
  node.output(node.concat(inputs, axis));
}

void gather(NodeContext& node) {
  const ValueId data = node.input(0, "data"), indices = node.input(1, "indices");
  if (!is_integer(node.dtype(indices)))
    node.invalid("indices must be integers, but are {}", node.type(indices));
  const std::int64_t axis = node.normalise_axis(node.attr_int("axis", 0), node.rank(data));
  const Dim extent = node.shape(data)[static_cast<std::size_t>(axis)];
  node.check_indices(indices, extent);
  const auto length = node.folder().length_of_iota(indices);
  // table[0, 1, .., seq - 1], likewise.
  if (length && extent.is_constant()) node.limit(*length, extent.value());
  node.output(node.add("Gather", {data, indices}, {{"axis", axis}}));
}

}  // namespace

const OpRows kSplitOps = {
    {"Split", 2, split, "axis num_outputs:18- split:-12"},
    {"Concat", 4, concat, "axis"},
    {"Gather", 1, gather, "axis", "", Types::kAny, FourBits::kKeeps},
};

}  // namespace sinter::frontend
