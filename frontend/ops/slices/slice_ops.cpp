// SPDX-License-Identifier: Apache-2.0
// Operators that take parts of tensors.
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

/// Converts `bound` to an index into a dimension of `extent` elements (negative ones count from the
/// end), clamped to [low, extent + high].
Dim clamp_bound(NodeContext& node, Dim bound, const Dim& extent, int low, int high) {
  const Ranges& ranges = node.builder().ranges();
  const auto most = ir::upper_bound(extent, ranges);
  if (bound.is_constant() && bound.value() < 0) {
    // For reversed slices, exporters write the smallest integers for "to the beginning".
    if (bound.value() < (most ? -*most : INT64_MIN / 2)) return low;
    bound = bound + extent;
  } else if (!bound.is_constant()) {
    const auto least = [&] { return ir::lower_bound(bound, ranges); };
    const auto greatest = ir::upper_bound(bound, ranges);
    // table[:, 64 - seq:] is meant for seq up to 64: beyond, the bound would count from the end.
    if (!(greatest && *greatest < 0)) node.at_least(bound, 0);
    if (greatest && *greatest < 0)
      bound = bound + extent;
    else if (!least() || *least() < 0)
      node.unsupported(
          "a bound of {} may be negative or not, which are different slices; give ranges for its "
          "dimensions",
          bound);
  }
  const Dim limit = extent + Dim(high);
  // Exporters write the largest integers for "to the end".
  if (bound.is_constant() && bound.value() > (most ? *most : INT64_MAX / 2)) return limit;
  return ir::max(ir::min(bound, limit, ranges), low, ranges);
}

void slice_dimension(NodeContext& node, SliceSpec& spec, std::size_t d, const Dim& start,
                     const Dim& end, std::int64_t step) {
  if (step == 0) node.invalid("a step is 0");
  // Longer steps also take one element, as this one does.
  step = std::clamp<std::int64_t>(step, -(std::int64_t{1} << 40), std::int64_t{1} << 40);
  const Dim extent = spec.shape[d];
  // table[:seq], as for position embeddings.
  if (step == 1 && start == Dim(0) && extent.is_constant()) node.limit(end, extent.value());
  const Ranges& ranges = node.builder().ranges();
  Dim length;
  if (step > 0) {
    spec.starts[d] = clamp_bound(node, start, extent, 0, 0);
    length = ir::ceil_div(clamp_bound(node, end, extent, 0, 0) - spec.starts[d], step, ranges);
  } else {
    spec.starts[d] = clamp_bound(node, start, extent, 0, -1);
    length = ir::ceil_div(spec.starts[d] - clamp_bound(node, end, extent, -1, -1), -step, ranges);
  }
  spec.steps[d] = step;
  // An empty dimension has no last element from which to count.
  const auto least = ir::lower_bound(extent, ranges);
  if (step < 0 && (!least || *least < 1)) length = ir::min(length, extent, ranges);
  spec.shape[d] = ir::max(length, 0, ranges);
  if (spec.shape[d] == Dim(0)) spec.starts[d] = 0;
}

/// A bound of a slice: a size, or a data-dependent number.
struct SliceBound {
  std::optional<Dim> size;
  ValueId number;
};

/// Like slice_dimension, with data-dependent bounds.
ValueId slice_by_data(NodeContext& node, ValueId x, std::size_t d, const SliceBound& start,
                      const SliceBound& end, std::int64_t step) {
  if (step == 0) node.invalid("a step is 0");
  const Dim extent = node.shape(x)[d];
  const Term n = size_of_dim(node, extent);
  const auto clamped = [&](const SliceBound& bound, double low, const Term& high) {
    const Term at = bound.size ? size_of_dim(node, *bound.size) : Term(node, bound.number);
    return clamp(select(at.with("Less", 0.0), at + n, at), low, high);
  };
  const bool forwards = step > 0;
  const Term first = clamped(start, 0, forwards ? n : n - 1);
  const Term last = clamped(end, forwards ? 0 : -1, forwards ? n : n - 1);
  const auto by = static_cast<double>(forwards ? step : -step);
  const Term span = (forwards ? last - first : first - last).with("Max", 0.0);
  const Term count = by == 1 ? span : (span + (by - 1)) / by;
  const Dim most = ir::ceil_div(extent, Dim(forwards ? step : -step), node.builder().ranges());
  const Dim length = node.size_from_data(count.value(), most, fmt::format("[{}]", d));
  if (start.size && *start.size == Dim(0) && step == 1) {
    SliceSpec spec(node.shape(x));
    spec.shape[d] = length;
    return add_slice(node, x, spec);
  }
  const Term places = iota(node, length, 0, 1) * static_cast<double>(step) + first;
  return node.add("Gather", {x, places.value()}, {{"axis", static_cast<std::int64_t>(d)}});
}

/// table[past : past + tokens], of a constant: rows of positions, all of which there must be, as
/// nothing else fits what they are added to.
bool is_table_rows(NodeContext& node, ValueId x, std::size_t d, const SliceBound& start,
                   const SliceBound& end, std::int64_t step) {
  const Dim extent = node.shape(x)[d];
  if (step != 1 || !start.size || !end.size || start.size->is_constant() || !extent.is_constant() ||
      extent == Dim(0) || node.builder().constant_of(x) == nullptr)
    return false;
  const Ranges& ranges = node.builder().ranges();
  const auto first = ir::lower_bound(*start.size, ranges),
             count = ir::lower_bound(*end.size - *start.size, ranges),
             most = ir::upper_bound(*end.size, ranges);
  return first && *first >= 0 && count && *count >= 0 && (!most || *most > extent.value());
}

ValueId table_rows(NodeContext& node, ValueId x, std::size_t d, const Dim& start, const Dim& end) {
  const std::int64_t extent = node.shape(x)[d].value();
  const Dim count = ir::simplify(end - start, node.builder().ranges());
  for (const Dim& size : {start, count}) node.limit(size, extent);
  const Term row = iota(node, count, 0, 1) + size_of_dim(node, start);
  const Term inside = row.with("Min", static_cast<double>(extent - 1));
  return node.add("Gather", {x, inside.value()}, {{"axis", static_cast<std::int64_t>(d)}});
}

void slice(NodeContext& node, const std::vector<SliceBound>& starts,
           const std::vector<SliceBound>& ends, std::optional<Ints> axes, Ints steps) {
  ValueId x = node.input(0, "data");
  if (!axes) {
    axes.emplace(starts.size());
    std::iota(axes->begin(), axes->end(), 0);
  }
  if (steps.empty()) steps.assign(starts.size(), 1);
  if (ends.size() != starts.size() || axes->size() != starts.size() ||
      steps.size() != starts.size())
    node.invalid("{} starts, {} ends, {} axes and {} steps differ in number", starts.size(),
                 ends.size(), axes->size(), steps.size());
  node.normalise_axes(*axes, node.rank(x));  // refuses duplicates
  SliceSpec spec(node.shape(x));
  const auto axis = [&](std::size_t i) {
    return static_cast<std::size_t>(node.normalise_axis((*axes)[i], node.rank(x)));
  };
  std::vector<bool> of_table(starts.size());
  for (std::size_t i = 0; i < starts.size(); ++i)
    of_table[i] = is_table_rows(node, x, axis(i), starts[i], ends[i], steps[i]);
  for (std::size_t i = 0; i < starts.size(); ++i)
    if (starts[i].size && ends[i].size && !of_table[i])
      slice_dimension(node, spec, axis(i), *starts[i].size, *ends[i].size, steps[i]);
  x = add_slice(node, x, spec);
  for (std::size_t i = 0; i < starts.size(); ++i)
    if (of_table[i])
      x = table_rows(node, x, axis(i), *starts[i].size, *ends[i].size);
    else if (!starts[i].size || !ends[i].size)
      x = slice_by_data(node, x, axis(i), starts[i], ends[i], steps[i]);
  node.output(x);
}

void slice_attributes(NodeContext& node) {
  const auto bounds = [&](const char* name) {
    const auto ints = node.attr_ints(name);
    if (!ints) node.invalid("attribute '{}' is missing", name);
    std::vector<SliceBound> result;
    for (const std::int64_t number : *ints) result.push_back({Dim(number), {}});
    return result;
  };
  slice(node, bounds("starts"), bounds("ends"), node.attr_ints("axes"), {});
}

std::vector<SliceBound> read_bounds(NodeContext& node, std::size_t i, const char* what) {
  ValueId value = node.input(i, what);
  if (node.rank(value) == 0) {
    node.assume("input {} ({}) is a scalar, and is taken as a vector of one", i, what);
    value = node.reshape(value, {Dim(1)});
  }
  const Shape shape = node.shape(value);
  if (!is_integer(node.dtype(value)) || shape.size() != 1 || !shape[0].is_constant())
    node.invalid("input {} ({}) must be a vector of integers, but is {}", i, what,
                 node.type(value));
  std::vector<SliceBound> result;
  if (const auto held = node.folder().needed_contents(value)) {
    for (const Dim& dim : *held) result.push_back({dim, {}});
    return result;
  }
  for (std::int64_t e = 0; e < shape[0].value(); ++e) {
    const Term one = slice_one(Term(node, value), 0, Dim(e)).reshape({}).cast(DType::kInt64);
    const auto held = node.folder().contents(one.value());
    result.push_back({held ? std::optional(held->front()) : std::nullopt, one.value()});
  }
  return result;
}

/// Slices along axes that the run finds: each dimension has the bounds of the entry that names it,
/// or is whole.
void slice_along_data(NodeContext& node) {
  const Term axes = Term(node, node.input(3, "axes")).cast(DType::kInt64);
  const auto rank = node.rank(node.input(0, "data"));
  ValueId x = node.input(0, "data");
  const auto bound_of = [&](std::size_t input, const Term& is_here, const Term& otherwise) {
    const Term given = Term(node, node.input(input, "bounds")).cast(DType::kInt64);
    // One entry at most names a dimension.
    const Term own = reduce("ReduceSum", select(is_here, given, given.number(0)), 0);
    const Term any = reduce("ReduceMax", is_here.cast(DType::kInt32), 0).with("Greater", 0);
    return SliceBound{std::nullopt, select(any, own, otherwise).value()};
  };
  for (std::int64_t d = 0; d < rank; ++d) {
    const Term n = size_of_dim(node, node.shape(x)[static_cast<std::size_t>(d)]);
    const Term is_here = axes.with("Equal", static_cast<double>(d))
                             .with("Or", axes.with("Equal", static_cast<double>(d - rank)));
    x = slice_by_data(node, x, static_cast<std::size_t>(d), bound_of(1, is_here, n.number(0)),
                      bound_of(2, is_here, n), 1);
  }
  node.output(x);
}

void slice_inputs(NodeContext& node) {
  const auto is_vector = [&](std::size_t i) {
    return node.has_input(i) && node.rank(node.input(i, "bounds")) == 1;
  };
  // Without steps, what is sliced needs not be known.
  if (is_vector(3) && !node.has_input(4) && is_vector(1) && is_vector(2) &&
      is_integer(node.dtype(node.input(3, "axes"))) &&
      !node.folder().contents(node.input(3, "axes")))
    return slice_along_data(node);
  std::optional<Ints> axes;
  if (node.has_input(3)) axes = node.ints(3, "axes");
  slice(node, read_bounds(node, 1, "starts"), read_bounds(node, 2, "ends"), std::move(axes),
        node.has_input(4) ? node.ints(4, "steps") : Ints{});
}

}  // namespace

const OpRows kSliceOps = {
    {"Slice", 1, slice_attributes, "axes ends starts"},
    {"Slice", 10, slice_inputs},
    {"DynamicSlice", 1, slice_inputs},  // experimental, removed
};

}  // namespace sinter::frontend
