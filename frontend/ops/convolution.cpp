// Convolutions and their transposes.
#include <algorithm>

#include <fmt/format.h>

#include "frontend/ops/op_table.h"
#include "frontend/ops/windows.h"

namespace sinter::frontend {
namespace {

using ir::Dim;
using ir::Shape;
using ir::ValueId;

void conv(NodeContext& node) { node.output(import_conv(node)); }

/// x with strides[d] - 1 zeros behind each element of spatial dimension d.
ValueId spread(NodeContext& node, ValueId x, const std::vector<std::int64_t>& strides) {
  if (std::all_of(strides.begin(), strides.end(), [](auto stride) { return stride == 1; }))
    return x;
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

/// [C, M / group, kernel..] of a transposed convolution as [M, C / group, kernel..] of a plain one:
/// the roles of inputs and outputs change, and the kernel turns round.
ValueId turned_weights(NodeContext& node, ValueId weights, std::int64_t group) {
  const Shape shape = node.shape(weights);
  const Dim per_group = shape[1];
  const auto channels = ir::divide_exactly(shape[0], Dim(group));
  Shape grouped{Dim(group), *channels, per_group};
  std::vector<std::int64_t> perm{0, 2, 1};
  Shape merged{Dim(group) * per_group, *channels};
  std::vector<Dim> starts(2, Dim(0));
  std::vector<std::int64_t> steps(2, 1);
  for (std::size_t d = 2; d < shape.size(); ++d) {
    grouped.push_back(shape[d]);
    perm.push_back(static_cast<std::int64_t>(d) + 1);
    merged.push_back(shape[d]);
    starts.push_back(shape[d] - Dim(1));
    steps.push_back(-1);
  }
  const ValueId merged_weights =
      node.reshape(node.transpose(node.reshape(weights, grouped), perm), merged);
  return node.add("Slice", {merged_weights},
                  {{"starts", starts}, {"steps", steps}, {"shape", merged}});
}

/// The padding that a transposed convolution takes away: it is given, or follows from the size of
/// the output.
void read_transposed_pads(NodeContext& node, Windows& w, const Shape& shape,
                          const std::vector<std::int64_t>& output_padding) {
  const std::size_t spatial = w.kernel.size();
  const ir::Ranges& ranges = node.builder().ranges();
  const std::string auto_pad = node.attr_string("auto_pad", "NOTSET");
  const auto pads = read_window_ints(node, "pads", 2 * spatial, 0, 0);
  const auto output_shape = node.attr_ints("output_shape");
  const bool is_same = auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER";
  if (!is_same && auto_pad != "NOTSET" && auto_pad != "VALID")
    node.invalid("attribute 'auto_pad' has the unknown value '" + auto_pad + "'");
  if (output_shape && output_shape->size() != spatial)
    node.invalid(fmt::format("attribute 'output_shape' has {} values; it must have {}",
                             output_shape->size(), spatial));
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
    // An output larger than all that the input reaches has its zeros at the end.
    const Dim shared = ir::max(total, 0, ranges), half = ir::floor_div(shared, 2, ranges);
    w.pads_begin.push_back(auto_pad == "SAME_UPPER" ? half : shared - half);
    w.pads_end.push_back(total - w.pads_begin[d]);
  }
}

/// A plain convolution with stride 1 over the input with zeros between its elements.
/// True if the windows of a transposed convolution lie side by side and nothing is cut off.
bool windows_tile(const Windows& w, const std::vector<std::int64_t>& output_padding) {
  const auto is_zero = [](const Dim& dim) { return dim == Dim(0); };
  return w.kernel == w.strides &&
         std::all_of(w.dilations.begin(), w.dilations.end(), [](auto d) { return d == 1; }) &&
         std::all_of(output_padding.begin(), output_padding.end(), [](auto d) { return d == 0; }) &&
         std::all_of(w.pads_begin.begin(), w.pads_begin.end(), is_zero) &&
         std::all_of(w.pads_end.begin(), w.pads_end.end(), is_zero);
}

/// Windows that lie side by side need no zeros between elements: each element gives its window's
/// elements as channels, by a convolution with a kernel of ones, and they move to their places.
ValueId transpose_tiled(NodeContext& node, ValueId x, ValueId weights, const Windows& w) {
  const Shape shape = node.shape(x), kernel = node.shape(weights);
  const std::size_t spatial = shape.size() - 2;
  std::vector<std::int64_t> outputs_first, places{0, 1};
  Shape split{shape[0], kernel[1]}, merged = split;
  Dim channels = kernel[1];
  for (std::size_t d = 1; d < kernel.size(); ++d) outputs_first.push_back(static_cast<int>(d));
  outputs_first.push_back(0);
  for (std::size_t d = 0; d < spatial; ++d) {
    split.push_back(kernel[2 + d]);
    channels = channels * kernel[2 + d];
    merged.push_back(shape[2 + d] * kernel[2 + d]);
    places.push_back(static_cast<std::int64_t>(2 + spatial + d));
    places.push_back(static_cast<std::int64_t>(2 + d));
  }
  split.insert(split.end(), shape.begin() + 2, shape.end());
  Shape ones{channels, kernel[0]};
  ones.resize(shape.size(), Dim(1));
  Windows single = w;
  std::fill(single.kernel.begin(), single.kernel.end(), 1);
  std::fill(single.strides.begin(), single.strides.end(), 1);
  const ValueId product =
      add_conv(node, x, node.reshape(node.transpose(weights, outputs_first), ones), {}, single, 1);
  return node.reshape(node.transpose(node.reshape(product, split), places), merged);
}

void conv_transpose(NodeContext& node) {
  const ValueId x = node.input(0, "X"), weights = node.input(1, "W");
  require_spatial(node, x);
  const Shape shape = node.shape(x);
  const std::size_t spatial = shape.size() - 2;
  const std::int64_t group = node.attr_int("group", 1);
  if (node.rank(weights) != node.rank(x) || node.shape(weights)[0] != shape[1] || group < 1 ||
      !ir::is_multiple_of(shape[1], group))
    node.invalid(
        fmt::format("input {} and weights {} must have the same number of dimensions and "
                    "of channels, which group {} must divide",
                    ir::to_string(node.type(x)), ir::to_string(node.type(weights)), group));
  Windows w;
  w.kernel = kernel_of_weights(node, weights);
  w.strides = read_window_ints(node, "strides", spatial, 1, 1);
  w.dilations = read_window_ints(node, "dilations", spatial, 1, 1);
  const auto output_padding = read_window_ints(node, "output_padding", spatial, 0, 0);
  read_transposed_pads(node, w, shape, output_padding);
  const ValueId bias = node.has_input(2) ? node.input(2, "B") : ValueId{};
  if (group == 1 && windows_tile(w, output_padding)) {
    const ValueId tiled = transpose_tiled(node, x, weights, w);
    if (!bias.valid()) return node.output(tiled);
    Shape per_channel{node.shape(weights)[1]};
    per_channel.resize(spatial + 1, Dim(1));
    return node.output(node.add("Add", {tiled, node.reshape(bias, per_channel)}));
  }
  for (std::size_t d = 0; d < spatial; ++d) {
    // What the plain convolution pads is what the window reaches over, less what is taken away; the
    // zeros behind the last element are there already.
    const Dim over(w.reach(d) - 1);
    w.pads_begin[d] = over - w.pads_begin[d];
    w.pads_end[d] = over - w.pads_end[d] + Dim(output_padding[d] - (w.strides[d] - 1));
  }
  const ValueId spread_x = spread(node, x, w.strides);
  std::fill(w.strides.begin(), w.strides.end(), 1);
  node.output(add_conv(node, spread_x, turned_weights(node, weights, group), bias, w, group));
}

constexpr OpRow kRows[] = {
    {"Conv", 1, conv},
    {"ConvTranspose", 1, conv_transpose},
};

}  // namespace

std::span<const OpRow> convolution_ops() { return kRows; }

}  // namespace sinter::frontend
