// SPDX-License-Identifier: Apache-2.0
// DeformConv: a convolution whose sampling positions are data.
#include <fmt/format.h>

#include "frontend/ops/table/op_table.h"
#include "frontend/ops/vision/interpolate.h"
#include "frontend/ops/windows.h"
#include "ir/dim/dim_mismatch.h"

namespace sinter::frontend {
namespace {

/// The two neighbours of position `x` along a dimension of `extent` elements; outside, elements are
/// zero.
std::vector<Tap> neighbours(NodeContext& node, const Term& x, const Dim& extent) {
  const Term last = size_of_dim(node, extent, x.dtype()) - 1;
  const Term left = floor(x), t = x - left;
  const auto tap = [&](const Term& at, const Term& weight) -> Tap {
    return {clamp(at, 0, last).cast(index_type(node, extent)), weight,
            at.with("GreaterOrEqual", 0).with("And", at.with("LessOrEqual", last))};
  };
  return {tap(left, 1 - t), tap(left + 1, t)};
}

/// Gathers windows as [batch, windows.., kernel.., offset group, channel of the group], then
/// multiplies with the weights of each group of channels.
void deform_conv(NodeContext& node) {
  const ValueId x = node.input(0, "X"), weights = node.input(1, "W");
  require_spatial(node, x);
  const Shape shape = node.shape(x), weight_shape = node.shape(weights);
  const std::size_t spatial = shape.size() - 2;
  if (weight_shape.size() != shape.size())
    node.invalid("input {} and weights {} must have the same number of dimensions", node.type(x),
                 node.type(weights));
  const Windows w = read_windows(node, x, kernel_of_weights(node, weights));
  const std::int64_t group = node.attr_int("group", 1);
  const std::int64_t offset_group = node.attr_int("offset_group", 1);
  const auto per_offset =
      offset_group > 0 ? ir::divide_exactly(shape[1], offset_group) : std::nullopt;
  const auto ungrouped = [&] {
    return fmt::format("group {} and offset_group {} do not divide the channels of {} and {}",
                       group, offset_group, node.type(x), node.type(weights));
  };
  if (group < 1 || !ir::is_multiple_of(weight_shape[0], group)) node.invalid(ungrouped());
  ir::require_equal(shape[1], weight_shape[1] * Dim(group), ungrouped);
  if (!per_offset) node.invalid(ungrouped());
  const ValueId offset = node.input(2, "offset");
  const Shape offset_shape = node.shape(offset);
  Dim taps = 1, windows = 1;
  Shape kernel, out;
  for (std::size_t d = 0; d < spatial; ++d) {
    kernel.emplace_back(w.kernel[d]);
    taps = taps * kernel[d];
    const Dim rest = shape[2 + d] + w.pads_begin[d] + w.pads_end[d] - Dim(w.reach(d));
    out.push_back(ir::floor_div(rest, w.strides[d], node.builder().ranges()) + Dim(1));
    windows = windows * out[d];
  }
  const auto per_window = [&](const Dim& channels) {
    Shape expected{shape[0], channels};
    expected.insert(expected.end(), out.begin(), out.end());
    return expected;
  };
  const Dim coordinates(static_cast<std::int64_t>(spatial));
  ir::require_equal(offset_shape, per_window(Dim(offset_group) * taps * coordinates), [&] {
    return fmt::format("offset is {}, but there are {} windows of {}", node.type(offset), out,
                       kernel);
  });

  // Dimensions: batch, the windows', the kernel's, offset group, channel. Channels lie together: a
  // window's neighbours and weights are computed once for many, and read as vectors.
  const std::size_t rank = 3 + 2 * spatial, of_kernel = 1 + spatial, of_group = 1 + 2 * spatial;
  const auto transposed = [&](const Term& term, Ints perm) {
    return Term(node, node.add("Transpose", {term.value()}, {{"perm", std::move(perm)}}));
  };
  Shape planes{shape[0], Dim(offset_group)}, positions{shape[0]};
  planes.insert(planes.end(), kernel.begin(), kernel.end());
  Shape split = planes;
  split.push_back(coordinates);
  for (Shape* each : {&planes, &split, &positions})
    each->insert(each->end(), out.begin(), out.end());
  positions.insert(positions.end(), kernel.begin(), kernel.end());
  positions.insert(positions.end(), {Dim(offset_group), Dim(1)});
  Ints windows_first{0};
  for (const std::size_t from : {2 + spatial, std::size_t{2}})
    for (std::size_t d = 0; d < spatial; ++d)
      windows_first.push_back(static_cast<std::int64_t>(from + d));
  windows_first.push_back(1);
  const auto at_positions = [&](const Term& term) {
    return transposed(term.reshape(planes), windows_first).reshape(positions);
  };
  const DType type = compute_type(node.dtype(x));
  const Term offsets = Term(node, offset).reshape(split).cast(type);
  Ints channels_last{0};
  for (std::size_t d = 0; d < spatial; ++d)
    channels_last.push_back(static_cast<std::int64_t>(2 + d));
  channels_last.push_back(1);
  Shape grouped{shape[0]};
  grouped.insert(grouped.end(), shape.begin() + 2, shape.end());
  grouped.insert(grouped.end(), {Dim(offset_group), *per_offset});
  const Term data = transposed(Term(node, x), channels_last).reshape(grouped);
  std::vector<std::vector<Tap>> all = {{{iota(node, shape[0], 0, rank), {}, {}}}};
  for (std::size_t d = 0; d < spatial; ++d) {
    const Term moved = at_positions(slice_one(offsets, 2 + spatial, static_cast<std::int64_t>(d)));
    const Term tap =
        iota(node, kernel[d], of_kernel + d, rank, type) * static_cast<double>(w.dilations[d]);
    const Term window = iota(node, out[d], 1 + d, rank, type) * static_cast<double>(w.strides[d]);
    const Term origin = window + tap - size_of_dim(node, w.pads_begin[d], type);
    all.push_back(neighbours(node, moved + origin, shape[2 + d]));
  }
  all.push_back({{iota(node, Dim(offset_group), of_group, rank), {}, {}}});
  all.push_back({{iota(node, *per_offset, of_group + 1, rank), {}, {}}});
  Term sampled = interpolate(data, all, type);
  if (node.has_input(4)) {
    const ValueId mask = node.input(4, "mask");
    if (node.shape(mask) != per_window(Dim(offset_group) * taps))
      node.invalid("mask is {}, but there are {} windows of {}", node.type(mask), out, kernel);
    sampled = sampled * at_positions(Term(node, mask)).cast(type);
  }
  const Dim rows = *ir::divide_exactly(weight_shape[0], group), depth = weight_shape[1] * taps;
  const Term windows_of =
      sampled.cast(node.dtype(x)).reshape({shape[0], windows, taps, Dim(group), weight_shape[1]});
  const Term columns =
      transposed(windows_of, {0, 3, 2, 4, 1}).reshape({shape[0], Dim(group), depth, windows});
  const Term of_taps = Term(node, weights).reshape({Dim(group), rows, weight_shape[1], taps});
  const Term matrix = transposed(of_taps, {0, 1, 3, 2}).reshape({Dim(1), Dim(group), rows, depth});
  Term y = matrix.with("MatMul", columns).reshape(per_window(weight_shape[0]));
  if (node.has_input(3)) {
    Shape channels(spatial + 1, Dim(1));
    channels[0] = weight_shape[0];
    y = y + Term(node, node.input(3, "B")).reshape(channels);
  }
  node.output(y.value());
}

}  // namespace

const OpRows kDeformConvOps = {
    {"DeformConv", 19, deform_conv, "dilations group kernel_shape offset_group pads strides"}};

}  // namespace sinter::frontend
