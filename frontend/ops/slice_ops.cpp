// SPDX-License-Identifier: Apache-2.0
// Operators that split and concatenate tensors.
#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "frontend/ops/table/op_table.h"
#include "frontend/ops/term.h"
#include "ir/dim/dim_mismatch.h"

namespace sinter::frontend {
namespace {

using ir::Ranges;

/// Builds a Slice; initially it keeps every dimension whole.
struct SliceSpec {
  explicit SliceSpec(const Shape& from)
      : starts(from.size(), Dim(0)), steps(from.size(), 1), shape(from) {}
  std::vector<Dim> starts;
  Ints steps;
  Shape shape;
};

ValueId add_slice(NodeContext& node, ValueId x, const SliceSpec& spec) {
  const bool whole = spec.shape == node.shape(x) &&
                     std::ranges::all_of(spec.steps, [](std::int64_t step) { return step == 1; });
  if (whole) return x;
  return node.add("Slice", {x},
                  {{"starts", spec.starts}, {"steps", spec.steps}, {"shape", spec.shape}});
}

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
  for (std::size_t i = 0; i < starts.size(); ++i)
    if (starts[i].size && ends[i].size)
      slice_dimension(node, spec, axis(i), *starts[i].size, *ends[i].size, steps[i]);
  x = add_slice(node, x, spec);
  for (std::size_t i = 0; i < starts.size(); ++i)
    if (!starts[i].size || !ends[i].size)
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
  Dim start(0);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    SliceSpec spec(node.shape(x));
    spec.starts[axis] = parts[i] == Dim(0) ? Dim(0) : start;
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

enum class PadMode { kConstant, kEdge, kReflect, kWrap };

/// Which elements of dimension `d` of `x` it has when it is padded at both ends with its own.
Term padding_places(NodeContext& node, ValueId x, std::size_t d, const Dim& begin, const Dim& end,
                    PadMode mode) {
  const Shape shape = node.shape(x);
  const Dim& extent = shape[d];
  const Dim length = begin + extent + end;
  if (extent == Dim(0)) node.invalid("dimension {} has no elements to pad with", d);
  // Maximum size of an index table; longer ones are computed by a formula.
  constexpr std::int64_t kMaxTable = std::int64_t{1} << 20;
  ValueId index;
  if (extent.is_constant() && begin.is_constant() && length.is_constant() &&
      length.value() <= kMaxTable) {
    const std::int64_t n = extent.value(), period = std::max<std::int64_t>(2 * (n - 1), 1);
    Ints places;
    for (std::int64_t i = 0; i < length.value(); ++i) {
      const std::int64_t at = i - begin.value();
      const auto modulo = [&](std::int64_t by) { return (at % by + by) % by; };
      places.push_back(mode == PadMode::kEdge ? std::clamp<std::int64_t>(at, 0, n - 1)
                       : mode == PadMode::kWrap
                           ? modulo(n)
                           : std::min(modulo(period), period - modulo(period)));
      if (n == 1) places.back() = 0;
    }
    index = node.builder().constant(ir::Tensor::from_ints(DType::kInt64, {length.value()}, places));
  } else {
    const Term at = iota(node, length, 0, 1) - size_of_dim(node, begin);
    const Term n = size_of_dim(node, extent);
    if (mode == PadMode::kEdge) {
      index = clamp(at, 0, n - 1).value();
    } else if (mode == PadMode::kWrap) {
      index = at.with("Mod", n).value();
    } else {
      const Term period = (n - 1) * 2.0, m = at.with("Mod", period);
      index = m.with("Min", period - m).value();
    }
  }
  return {node, index};
}

/// Dimension `d` of `x` with pads that the run finds to be positive or negative, as where
/// detections are padded or cut to a count.
ValueId moved_along(NodeContext& node, ValueId x, std::size_t d, const Dim& begin, const Dim& end,
                    double fill) {
  const Shape shape = node.shape(x);
  const Dim length = begin + shape[d] + end;
  node.at_least(length, 0);
  const Term at = iota(node, length, 0, 1) - size_of_dim(node, begin);
  const Term n = size_of_dim(node, shape[d]);
  // One element more: the dimension may be empty, and everything outside reads that element.
  std::vector<Dim> begins(shape.size(), Dim(0)), ends(shape.size(), Dim(0));
  ends[d] = 1;
  const ValueId filled = node.add("Pad", {x}, {{"begins", begins}, {"ends", ends}, {"fill", fill}});
  const Term inside = at.with("GreaterOrEqual", 0).with("And", at.with("Less", n));
  return node.add("Gather", {filled, select(inside, at, n).value()},
                  {{"axis", static_cast<std::int64_t>(d)}});
}

/// Implements negative pads by slicing. `computed` is a fill value that is not constant.
void pad(NodeContext& node, const std::vector<Dim>& pads, const Ints& axes, PadMode mode,
         double fill, ValueId computed = {}) {
  ValueId x = node.input(0, "data");
  if (pads.size() != 2 * axes.size())
    node.invalid("{} pads are given for {} dimensions; there must be two for each", pads.size(),
                 axes.size());
  const std::size_t rank = node.shape(x).size();
  std::vector<Dim> begins(rank, Dim(0)), ends(rank, Dim(0));
  SliceSpec crop(node.shape(x));
  struct Moved {
    std::size_t d;
    Dim begin, end;
  };
  std::vector<Moved> moved;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto d = static_cast<std::size_t>(axes[i]);
    const auto may_crop = [&](const Dim& pad) {
      const auto least = ir::lower_bound(pad, node.builder().ranges());
      return !pad.is_constant() && (!least || *least < 0);
    };
    if (may_crop(pads[i]) || may_crop(pads[i + axes.size()])) {
      if (mode != PadMode::kConstant || computed.valid())
        node.unsupported("a pad of {} or {} may be negative", pads[i], pads[i + axes.size()]);
      moved.push_back({d, pads[i], pads[i + axes.size()]});
      continue;
    }
    const auto read = [&](const Dim& pad, Dim& into) -> std::int64_t {
      if (pad.is_constant() && pad.value() < 0) return pad.value();
      into = pad;
      return 0;
    };
    const std::int64_t crop_begin = read(pads[i], begins[d]);
    const std::int64_t crop_end = read(pads[i + axes.size()], ends[d]);
    if (crop_begin == 0 && crop_end == 0) continue;
    crop.starts[d] = Dim(0) - Dim(crop_begin);
    crop.shape[d] = crop.shape[d] + Dim(crop_begin) + Dim(crop_end);
    if (crop.shape[d].is_constant() && crop.shape[d].value() < 0)
      node.invalid("pads leave less than nothing of dimension {} of {}", d, node.type(x));
  }
  x = add_slice(node, x, crop);
  const auto is_zero = [](const Dim& dim) { return dim == Dim(0); };
  if (mode != PadMode::kConstant) {
    std::vector<Term> places;
    std::vector<std::size_t> padded;
    for (std::size_t d = 0; d < rank; ++d)
      if (!is_zero(begins[d]) || !is_zero(ends[d])) padded.push_back(d);
    if (padded.empty()) return node.output(x);
    for (const std::size_t d : padded)
      places.push_back(padding_places(node, x, d, begins[d], ends[d], mode));
    if (padded.size() == 1)
      return node.output(node.add("Gather", {x, places[0].value()},
                                  {{"axis", static_cast<std::int64_t>(padded[0])}}));
    // All at once, or each dimension would pass through memory.
    std::vector<Term> indices;
    for (std::size_t d = 0; d < rank; ++d) {
      const auto found = std::ranges::find(padded, d);
      if (found == padded.end()) {
        indices.push_back(iota(node, node.shape(x)[d], d, rank));
        continue;
      }
      const Term& place = places[static_cast<std::size_t>(found - padded.begin())];
      Shape along(rank, Dim(1));
      along[d] = place.shape()[0];
      indices.push_back(place.reshape(along));
    }
    return node.output(take({node, x}, indices).value());
  }
  if (!std::ranges::all_of(begins, is_zero) || !std::ranges::all_of(ends, is_zero)) {
    const ir::Attrs attrs{{"begins", begins}, {"ends", ends}, {"fill", fill}};
    const ValueId everywhere = node.expand(node.constant(DType::kBool, 1), node.shape(x));
    x = node.add("Pad", {x}, attrs);
    if (computed.valid())
      x = node.add("Where", {node.add("Pad", {everywhere}, attrs), x, computed});
  }
  for (const auto& [d, begin, end] : moved) x = moved_along(node, x, d, begin, end, fill);
  node.output(x);
}

PadMode read_pad_mode(NodeContext& node) {
  const std::string mode = node.attr_string("mode", "constant");
  if (mode == "constant") return PadMode::kConstant;
  if (mode == "edge") return PadMode::kEdge;
  if (mode == "reflect") return PadMode::kReflect;
  if (mode == "wrap") return PadMode::kWrap;
  node.invalid("attribute 'mode' must be constant, edge, reflect or wrap, but is '" + mode + "'");
}

Ints all_axes(NodeContext& node) {
  Ints axes(node.shape(node.x()).size());
  std::iota(axes.begin(), axes.end(), 0);
  return axes;
}

void pad_attributes(NodeContext& node) {
  const PadMode mode = read_pad_mode(node);
  const auto pads = node.attr_ints("pads");
  if (!pads) node.invalid("attribute 'pads' is missing");
  pad(node, {pads->begin(), pads->end()}, all_axes(node), mode, node.attr_float("value", 0));
}

void pad_inputs(NodeContext& node) {
  const PadMode mode = read_pad_mode(node);
  double fill = 0;
  ValueId computed;
  if (node.has_input(2)) {
    const ValueId value = node.input(2, "constant_value");
    if (ir::element_count(node.shape(value)) != Dim(1) || node.dtype(value) != node.dtype(node.x()))
      node.invalid("constant_value must be one element of the input's type, but is {}",
                   node.type(value));
    if (const auto known = node.folder().constant(value))
      fill = known->at(0);
    else
      computed = node.reshape(value, {});
  }
  Ints axes = all_axes(node);
  if (node.opset() >= 18 && node.has_input(3)) {
    axes = node.ints(3, "axes");
    for (std::int64_t& axis : axes) axis = node.normalise_axis(axis, node.rank(node.x()));
    node.normalise_axes(axes, node.rank(node.x()));  // refuses duplicates
  }
  pad(node, node.sizes(1, "pads"), axes, mode, fill, computed);
}

/// Crops each axis to its centre, or pads it to the size on both sides with zeros.
void center_crop_pad(NodeContext& node) {
  ValueId x = node.input(0, "input_data");
  Ints axes = node.attr_ints("axes").value_or(all_axes(node));
  for (std::int64_t& axis : axes) axis = node.normalise_axis(axis, node.rank(x));
  node.normalise_axes(axes, node.rank(x));  // refuses duplicates
  const std::vector<Dim> wanted = node.sizes(1, "shape");
  if (wanted.size() != axes.size())
    node.invalid("{} sizes are given for {} axes", wanted.size(), axes.size());
  const Ranges& ranges = node.builder().ranges();
  const std::size_t rank = node.shape(x).size();
  SliceSpec crop(node.shape(x));
  std::vector<Dim> begins(rank, Dim(0)), ends(rank, Dim(0));
  bool pads = false;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto d = static_cast<std::size_t>(axes[i]);
    const Dim spare = crop.shape[d] - wanted[i];
    const auto least = ir::lower_bound(spare, ranges), most = ir::upper_bound(spare, ranges);
    if (least && *least >= 0) {
      crop.starts[d] = ir::floor_div(spare, 2, ranges);
      crop.shape[d] = wanted[i];
    } else if (most && *most <= 0) {
      const Dim missing = Dim(0) - spare;
      begins[d] = ir::floor_div(missing, 2, ranges);
      ends[d] = missing - begins[d];
      pads = true;
    } else {
      node.unsupported(
          "axis {} of {} elements may be smaller or larger than {}: give ranges that decide", d,
          crop.shape[d], wanted[i]);
    }
  }
  x = add_slice(node, x, crop);
  if (pads) x = node.add("Pad", {x}, {{"begins", begins}, {"ends", ends}, {"fill", 0.0}});
  node.output(x);
}

}  // namespace

const OpRows kSliceOps = {
    {"Slice", 1, slice_attributes, "axes ends starts"},
    {"Slice", 10, slice_inputs},
    {"DynamicSlice", 1, slice_inputs},  // experimental, removed
    {"Split", 2, split, "axis num_outputs:18- split:-12"},
    {"Concat", 4, concat, "axis"},
    {"Gather", 1, gather, "axis", "", Types::kAny, FourBits::kKeeps},
    {"Pad", 2, pad_attributes, "mode pads value"},
    {"Pad", 11, pad_inputs, "mode"},
    {"Pad", 1, pad_inputs, "mode", kMicrosoft},
    {"CenterCropPad", 18, center_crop_pad, "axes"},
};

}  // namespace sinter::frontend
