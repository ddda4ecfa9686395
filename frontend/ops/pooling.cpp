// SPDX-License-Identifier: Apache-2.0
// Pooling: reductions over windows.
#include <algorithm>
#include <limits>

#include "frontend/ops/table/op_table.h"
#include "frontend/ops/windows.h"

namespace sinter::frontend {
namespace {

/// For ceil_mode, rounds the number of windows up by more padding at the end. Omits a window that
/// would start beyond the input and its leading padding.
void round_up(NodeContext& node, Windows& w, std::span<const Dim> spatial) {
  if (node.attr_int("ceil_mode", 0) == 0) return;
  const ir::Ranges& ranges = node.builder().ranges();
  for (std::size_t d = 0; d < spatial.size(); ++d) {
    if (w.strides[d] == 1) continue;
    const Dim stride(w.strides[d]), reach(w.reach(d));
    const Dim filled = spatial[d] + w.pads_begin[d];
    const Dim rest = filled + w.pads_end[d] - reach;
    if (rest.is_constant() && rest.value() < 0) continue;
    const Dim count = ir::min(ir::ceil_div(rest, stride, ranges) + Dim(1),
                              ir::ceil_div(filled, stride, ranges), ranges);
    w.pads_end[d] = ir::max((count - Dim(1)) * stride + reach - filled, w.pads_end[d], ranges);
  }
}

Windows read_pool(NodeContext& node, ValueId x) {
  require_spatial(node, x);
  const std::size_t spatial = node.shape(x).size() - 2;
  if (!node.has_attr("kernel_shape")) node.invalid("attribute 'kernel_shape' is missing");
  Windows w = read_windows(node, x, read_window_ints(node, "kernel_shape", spatial, 1, 1));
  const auto is_too_much = [&](const Dim& pad, std::size_t d) {
    return pad.is_constant() && pad.value() >= w.reach(d);
  };
  for (std::size_t d = 0; d < spatial; ++d)
    if (is_too_much(w.pads_begin[d], d) || is_too_much(w.pads_end[d], d))
      node.invalid("padding of {} and {} leaves windows of {} without any input", w.pads_begin[d],
                   w.pads_end[d], w.reach(d));
  return w;
}

/// The index of each window's maximum in the flattened x; the first in the order of x's elements.
/// `columns_first`: the result counts the last dimension slowest.
ValueId indices_of_max(NodeContext& node, ValueId x, ValueId windows, ValueId max, const Windows& w,
                       bool columns_first) {
  const Shape shape = node.shape(x), result = node.shape(max);
  const std::size_t spatial = w.kernel.size();
  const Shape plane(shape.begin() + 2, shape.end());
  const Dim size = ir::element_count(plane);
  Shape one_plane{Dim(1), Dim(1)};
  one_plane.insert(one_plane.end(), plane.begin(), plane.end());
  const auto number = [&](const Dim& dim) { return node.folder().scalar_of(dim); };
  // Padding must never be the smallest index.
  constexpr double kNowhere = 1LL << 62;
  const ValueId where =
      unfold(node, node.reshape(node.folder().iota(size, DType::kInt64), one_plane), w, kNowhere);
  Shape spread_max(result.begin(), result.begin() + 2);
  spread_max.insert(spread_max.end(), spatial, Dim(1));
  spread_max.insert(spread_max.end(), result.begin() + 2, result.end());
  ValueId is_max = node.add("Equal", {windows, node.reshape(max, spread_max)});
  // A NaN is its window's maximum but equals nothing.
  if (is_float(node.dtype(x))) is_max = node.add("Or", {is_max, node.add("IsNan", {windows})});
  const ValueId candidates =
      node.add("Where", {is_max, where, node.constant(DType::kInt64, kNowhere)});
  ValueId index = reduce_windows(node, "ReduceMin", candidates, spatial);
  if (columns_first) {
    // index = (i0 * d1 + i1) * d2 + i2  ->  i0 + d0 * (i1 + d1 * i2)
    ValueId turned, rest = index;
    Dim stride = size;
    for (std::size_t d = spatial; d-- > 0;) {
      stride = *ir::divide_exactly(stride, plane[d]);
      const ValueId extent = number(plane[d]);
      const ValueId part = node.add("Mul", {node.add("Mod", {rest, extent}), number(stride)});
      rest = node.add("Div", {rest, extent});
      turned = turned.valid() ? node.add("Add", {turned, part}) : part;
    }
    index = turned;
  }
  Shape planes(result.size(), Dim(1));
  planes[0] = shape[0];
  planes[1] = shape[1];
  const ValueId plane_number =
      node.reshape(node.folder().iota(shape[0] * shape[1], DType::kInt64), planes);
  return node.add("Add", {index, node.add("Mul", {plane_number, number(size)})});
}

struct Maximum {
  Windows shape;
  ValueId windows, value;
};

Maximum find_maximum(NodeContext& node, ValueId x) {
  Windows w = read_pool(node, x);
  const Shape shape = node.shape(x);
  round_up(node, w, std::span(shape).subspan(2));
  const DType dtype = node.dtype(x);
  const double least = is_float(dtype)         ? -std::numeric_limits<double>::infinity()
                       : dtype == DType::kInt8 ? -128
                                               : 0;
  if (!is_float(dtype) && dtype != DType::kInt8 && dtype != DType::kUInt8)
    node.unsupported("input type " + std::string(to_string(dtype)));
  const ValueId windows = unfold(node, x, w, least);
  return {w, windows, reduce_windows(node, "ReduceMax", windows, w.kernel.size())};
}

void max_pool(NodeContext& node) {
  const ValueId x = node.x();
  const Maximum max = find_maximum(node, x);
  node.output(max.value);
  const bool columns_first = node.attr_int("storage_order", 0) != 0;
  if (node.output_is_used(1))
    node.output(1, indices_of_max(node, x, max.windows, max.value, max.shape, columns_first));
}

void average_pool(NodeContext& node) { node.output(average_of_windows(node, node.x())); }

/// sum(|x|^p)^(1/p), with the given reduction `sum`.
template <typename Sum>
ValueId p_norm(NodeContext& node, ValueId x, double p, const Sum& sum) {
  if (p == 1) return sum(node.add("Abs", {x}));
  if (p == 2) return node.add("Sqrt", {sum(node.add("Square", {x}))});
  const DType dtype = node.dtype(x);
  const ValueId powers = node.add("Pow", {node.add("Abs", {x}), node.constant(dtype, p)});
  return node.add("Pow", {sum(powers), node.constant(dtype, 1 / p)});
}

double read_p(NodeContext& node) {
  const double p = static_cast<double>(node.attr_int("p", 2));
  if (p < 1) node.invalid("attribute 'p' is {}; it must be at least 1", p);
  return p;
}

void lp_pool(NodeContext& node) {
  const ValueId x = node.x();
  Windows w = read_pool(node, x);
  const Shape shape = node.shape(x);
  round_up(node, w, std::span(shape).subspan(2));
  const ValueId norm = p_norm(node, node.widened(node.x()), read_p(node), [&](ValueId powers) {
    return reduce_windows(node, "ReduceSum", unfold(node, powers, w, 0), w.kernel.size());
  });
  node.output(node.cast(norm, node.dtype(x)));
}

void global_lp_pool(NodeContext& node) {
  const ValueId x = node.x();
  require_spatial(node, x);
  Ints axes;
  for (std::int64_t axis = 2; axis < node.rank(x); ++axis) axes.push_back(axis);
  const ValueId norm = p_norm(node, node.widened(node.x()), read_p(node), [&](ValueId powers) {
    return node.add("ReduceSum", {powers}, {{"axes", axes}, {"keepdims", std::int64_t{1}}});
  });
  node.output(node.cast(norm, node.dtype(x)));
}

/// x / norm(x) along an axis; zero where the norm is zero.
void lp_normalization(NodeContext& node) {
  const ValueId x = node.widened(node.x());
  const std::int64_t axis = node.normalise_axis(node.attr_int("axis", -1), node.rank(x));
  const std::int64_t p = node.attr_int("p", 2);
  if (p != 1 && p != 2) node.invalid("attribute 'p' must be 1 or 2, but is {}", p);
  const ValueId norm = p_norm(node, x, static_cast<double>(p), [&](ValueId powers) {
    return node.add("ReduceSum", {powers}, {{"axes", Ints{axis}}, {"keepdims", std::int64_t{1}}});
  });
  const ValueId zero = node.constant(node.dtype(x), 0);
  const ValueId result =
      node.add("Where", {node.add("Equal", {norm, zero}), zero, node.add("Div", {x, norm})});
  node.output(node.cast(result, node.dtype(node.x())));
}

}  // namespace

ValueId average_of_windows(NodeContext& node, ValueId x) {
  Windows w = read_pool(node, x);
  const Shape shape = node.shape(x);
  const std::size_t spatial = w.kernel.size();
  const bool include_pads = node.attr_int("count_include_pad", 0) != 0;
  const Windows declared = w;
  round_up(node, w, std::span(shape).subspan(2));
  const auto has_pads = [](const std::vector<Dim>& pads) {
    return std::ranges::any_of(pads, [](const Dim& pad) { return pad != Dim(0); });
  };
  const ValueId windows = unfold(node, x, w, 0);
  if ((!has_pads(w.pads_begin) && !has_pads(w.pads_end)) ||
      (include_pads && w.pads_end == declared.pads_end))
    return reduce_windows(node, "ReduceMean", windows, spatial);
  // The number of elements per window: a sum of ones over the windows, with declared padding as
  // ones if it counts. Padding from ceil_mode never counts.
  Shape ones_shape(shape.size(), Dim(1));
  Windows around = w;
  for (std::size_t d = 0; d < spatial; ++d) {
    ones_shape[2 + d] = shape[2 + d];
    if (!include_pads) continue;
    ones_shape[2 + d] = shape[2 + d] + declared.pads_begin[d] + declared.pads_end[d];
    around.pads_begin[d] = 0;
    around.pads_end[d] = around.pads_end[d] - declared.pads_end[d];
  }
  const ValueId ones = node.expand(node.constant(node.dtype(x), 1), ones_shape);
  const ValueId counts = reduce_windows(node, "ReduceSum", unfold(node, ones, around, 0), spatial);
  return node.add("Div", {reduce_windows(node, "ReduceSum", windows, spatial), counts});
}

ValueId maximum_of_windows(NodeContext& node, ValueId x) { return find_maximum(node, x).value; }

const OpRows kPoolingOps = {
    {"MaxPool", 1, max_pool,
     "auto_pad ceil_mode:10- dilations:10- kernel_shape pads storage_order:8- strides"},
    {"AveragePool", 1, average_pool,
     "auto_pad ceil_mode:10- count_include_pad:7- dilations:19- kernel_shape pads strides"},
    {"LpPool", 2, lp_pool, "auto_pad ceil_mode:18- dilations:18- kernel_shape p pads strides"},
    {"GlobalLpPool", 2, global_lp_pool, "p"},
    {"LpNormalization", 1, lp_normalization, "axis p"},
};

}  // namespace sinter::frontend
