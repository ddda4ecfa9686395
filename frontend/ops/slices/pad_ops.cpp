// SPDX-License-Identifier: Apache-2.0
// Operators that pad and crop.
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

const OpRows kPadOps = {
    {"Pad", 2, pad_attributes, "mode pads value"},
    {"Pad", 11, pad_inputs, "mode"},
    {"Pad", 1, pad_inputs, "mode", kMicrosoft},
    {"CenterCropPad", 18, center_crop_pad, "axes"},
};

}  // namespace sinter::frontend
