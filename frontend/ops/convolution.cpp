// SPDX-License-Identifier: Apache-2.0
// Convolutions and transposed convolutions.
#include <algorithm>

#include "frontend/ops/table/op_table.h"
#include "frontend/ops/windows.h"

namespace sinter::frontend {
namespace {

void conv(NodeContext& node) { node.output(import_conv(node)); }

/// Inserts strides[d] - 1 zeros after each element of spatial dimension d.
ValueId spread(NodeContext& node, ValueId x, const Ints& strides) {
  if (std::ranges::all_of(strides, [](auto stride) { return stride == 1; })) return x;
  const Shape shape = node.shape(x);
  Shape split{shape[0], shape[1]}, merged = split;
  std::vector<Dim> begins(2, Dim(0)), ends(2, Dim(0));
  for (std::size_t d = 0; d < strides.size(); ++d) {
    split.insert(split.end(), {shape[2 + d], Dim(1)});
    begins.insert(begins.end(), 2, Dim(0));
    ends.insert(ends.end(), {Dim(0), Dim(strides[d] - 1)});
    merged.push_back(shape[2 + d] * Dim(strides[d]));
  }
  const ValueId padded = node.add("Pad", {node.reshape(x, split)},
                                  {{"begins", begins}, {"ends", ends}, {"fill", 0.0}});
  return node.reshape(padded, merged);
}

std::int64_t taps_of(const Windows& w, std::size_t d) {  // taps of a phase
  return (w.kernel[d] - 1) / w.strides[d] + 1;
}

/// Converts weights [C, M / group, kernel..] of a transposed convolution to those of a plain one,
/// with the M outputs at each stride phase as channels: [M * strides.., C / group, taps..]. Tap t
/// of phase u is the kernel's element t * stride + u, or zero. Input and output channels are
/// exchanged, and the taps reversed.
ValueId phase_weights(NodeContext& node, ValueId weights, const Windows& w, std::int64_t group) {
  const Shape shape = node.shape(weights);
  const std::size_t spatial = w.kernel.size();
  const auto channels = *ir::divide_exactly(shape[0], Dim(group));
  std::vector<Dim> zeros(spatial, Dim(0)), rest, starts(2, Dim(0));
  Ints perm{0, 2}, taps, steps(2, 1);
  Shape split{Dim(group), channels, shape[1]}, merged{Dim(group) * shape[1], channels};
  for (std::size_t d = 0; d < spatial; ++d) {
    const std::int64_t count = taps_of(w, d);
    rest.push_back(Dim(count) * Dim(w.strides[d]) - Dim(w.kernel[d]));
    split.insert(split.end(), {Dim(count), Dim(w.strides[d])});
    merged[0] = merged[0] * Dim(w.strides[d]);
    merged.emplace_back(count);
    perm.push_back(static_cast<std::int64_t>(4 + 2 * d));
    taps.push_back(static_cast<std::int64_t>(3 + 2 * d));
    starts.emplace_back(count - 1);
    steps.push_back(-1);
  }
  perm.push_back(1);
  perm.insert(perm.end(), taps.begin(), taps.end());
  const ValueId padded = pad_spatial(node, weights, zeros, rest, 0);
  const ValueId phases = node.reshape(node.transpose(node.reshape(padded, split), perm), merged);
  return node.add("Slice", {phases}, {{"starts", starts}, {"steps", steps}, {"shape", merged}});
}

/// Repeats each element of `bias` for the output's phases.
ValueId phase_bias(NodeContext& node, ValueId bias, const Windows& w) {
  if (!bias.valid()) return bias;
  if (node.rank(bias) != 1) node.invalid("the bias must be a vector, but is {}", node.type(bias));
  Dim phases = 1;
  for (const std::int64_t stride : w.strides) phases = phases * Dim(stride);
  const Dim outputs = node.shape(bias)[0];
  const ValueId repeated = node.add("Expand", {node.reshape(bias, {outputs, Dim(1)})},
                                    {{"shape", std::vector<Dim>{outputs, phases}}});
  return node.reshape(repeated, {outputs * phases});
}

/// Interleaves the phases, which are channels of `x`: [N, M, places * stride..]. Returns the part
/// of size `shape` from `starts` on.
ValueId interleave(NodeContext& node, ValueId x, const Windows& w, const std::vector<Dim>& starts,
                   const Shape& shape) {
  const Shape found = node.shape(x);
  const std::size_t spatial = w.strides.size();
  Shape split{shape[0], shape[1]}, merged = split;
  Ints perm{0, 1}, steps(shape.size(), 1);
  std::vector<Dim> all_starts(2, Dim(0));
  for (std::size_t d = 0; d < spatial; ++d) {
    split.emplace_back(w.strides[d]);
    merged.push_back(found[2 + d] * Dim(w.strides[d]));
    perm.push_back(static_cast<std::int64_t>(2 + spatial + d));
    perm.push_back(static_cast<std::int64_t>(2 + d));
  }
  split.insert(split.end(), found.begin() + 2, found.end());
  all_starts.insert(all_starts.end(), starts.begin(), starts.end());
  const ValueId whole = node.reshape(node.transpose(node.reshape(x, split), perm), merged);
  return node.add("Slice", {whole}, {{"starts", all_starts}, {"steps", steps}, {"shape", shape}});
}

/// Reads the padding that a transposed convolution removes, or computes it from the output's size.
void read_transposed_pads(NodeContext& node, Windows& w, const Shape& shape,
                          const Ints& output_padding) {
  const std::size_t spatial = w.kernel.size();
  const ir::Ranges& ranges = node.builder().ranges();
  const std::string auto_pad = read_auto_pad(node);
  const auto pads = read_window_ints(node, "pads", 2 * spatial, 0, 0);
  const auto output_shape = node.attr_ints("output_shape");
  const bool is_same = auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER";
  if (!is_same && auto_pad != "NOTSET" && auto_pad != "VALID")
    node.invalid("attribute 'auto_pad' has the unknown value '" + auto_pad + "'");
  if (output_shape && output_shape->size() != spatial)
    node.invalid("attribute 'output_shape' has {} values; it must have {}", output_shape->size(),
                 spatial);
  for (std::size_t d = 0; d < spatial; ++d) {
    if (!output_shape && !is_same) {
      w.pads_begin.emplace_back(auto_pad == "VALID" ? 0 : pads[d]);
      w.pads_end.emplace_back(auto_pad == "VALID" ? 0 : pads[spatial + d]);
      continue;
    }
    const Dim full =
        Dim(w.strides[d]) * (shape[2 + d] - Dim(1)) + Dim(output_padding[d] + w.reach(d));
    const Dim wanted = output_shape ? Dim((*output_shape)[d]) : shape[2 + d] * Dim(w.strides[d]);
    const Dim total = full - wanted;
    // An output beyond the reach of the input is padded with zeros at the end.
    const Dim shared = ir::max(total, 0, ranges), half = ir::floor_div(shared, 2, ranges);
    w.pads_begin.push_back(auto_pad == "SAME_UPPER" ? half : shared - half);
    w.pads_end.push_back(total - w.pads_begin[d]);
  }
}

/// Output q (before padding is removed) sums the input elements i and taps k with i * stride + k *
/// dilation = q. With dilation 1, each phase u = q mod stride is a plain convolution over the taps
/// k = t * stride + u and the elements (q - u) / stride - t; one convolution computes all phases as
/// channels. With dilation and stride, taps do not divide into phases: zeros are inserted between
/// the input's elements, and the stride is 1.
void conv_transpose(NodeContext& node) {
  const ValueId x = node.input(0, "X"), weights = node.input(1, "W");
  require_spatial(node, x);
  const Shape shape = node.shape(x);
  const std::size_t spatial = shape.size() - 2;
  const std::int64_t group = node.attr_int("group", 1);
  if (node.rank(weights) != node.rank(x) || node.shape(weights)[0] != shape[1] || group < 1 ||
      !ir::is_multiple_of(shape[1], group))
    node.invalid(
        "input {} and weights {} must have the same number of dimensions and "
        "of channels, which group {} must divide",
        node.type(x), node.type(weights), group);
  Windows w;
  w.kernel = kernel_of_weights(node, weights);
  w.strides = read_window_ints(node, "strides", spatial, 1, 1);
  w.dilations = read_window_ints(node, "dilations", spatial, 1, 1);
  const auto output_padding = read_window_ints(node, "output_padding", spatial, 0, 0);
  read_transposed_pads(node, w, shape, output_padding);
  const ValueId bias = node.has_input(2) ? node.input(2, "B") : ValueId{};
  const ir::Ranges& ranges = node.builder().ranges();
  Shape result{shape[0], node.shape(weights)[1] * Dim(group)};
  for (std::size_t d = 0; d < spatial; ++d)
    result.push_back(Dim(w.strides[d]) * (shape[2 + d] - Dim(1)) +
                     Dim(output_padding[d] + w.reach(d)) - w.pads_begin[d] - w.pads_end[d]);
  Ints spread_by(spatial, 1);
  for (std::size_t d = 0; d < spatial; ++d)
    if (w.dilations[d] > 1) std::swap(spread_by[d], w.strides[d]);
  const ValueId from = spread(node, x, spread_by);
  Windows phases = w;  // of the plain convolution
  std::vector<Dim> starts;
  for (std::size_t d = 0; d < spatial; ++d) {
    const Dim stride(w.strides[d]);
    phases.kernel[d] = taps_of(w, d);
    phases.strides[d] = 1;
    const Dim first = ir::floor_div(w.pads_begin[d], stride, ranges);  // first position of the
                                                                       // output
    const Dim end = ir::ceil_div(w.pads_begin[d] + result[2 + d], stride, ranges);
    starts.push_back(w.pads_begin[d] - first * stride);
    phases.pads_begin[d] = Dim(phases.reach(d) - 1) - first;
    phases.pads_end[d] = end - node.shape(from)[2 + d];
  }
  const ValueId places = add_conv(node, from, phase_weights(node, weights, w, group),
                                  phase_bias(node, bias, w), phases, group);
  node.output(interleave(node, places, w, starts, result));
}

}  // namespace

const OpRows kConvolutionOps = {
    {"Conv", 1, conv, "auto_pad dilations group kernel_shape pads strides"},
    {"ConvTranspose", 1, conv_transpose,
     "auto_pad dilations group kernel_shape output_padding output_shape pads strides"},
};

}  // namespace sinter::frontend
