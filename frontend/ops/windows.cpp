// SPDX-License-Identifier: Apache-2.0
#include "frontend/ops/windows.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace sinter::frontend {

namespace {

// Keeps sums and products of a few sizes far from overflow.
constexpr std::int64_t kMostWindow = 1 << 30;

/// SAME_UPPER and SAME_LOWER: ceil(input / stride) outputs; the padding is split evenly, with an
/// odd element at the end or at the beginning.
void pad_same(NodeContext& node, Windows& w, std::span<const Dim> spatial, bool upper) {
  const ir::Ranges& ranges = node.builder().ranges();
  for (std::size_t d = 0; d < spatial.size(); ++d) {
    const Dim stride(w.strides[d]);
    const Dim needed =
        (ir::ceil_div(spatial[d], stride, ranges) - Dim(1)) * stride + Dim(w.reach(d));
    const Dim total = ir::max(needed - spatial[d], 0, ranges);
    const Dim half = ir::floor_div(total, 2, ranges);
    w.pads_begin[d] = upper ? half : total - half;
    w.pads_end[d] = total - w.pads_begin[d];
  }
}

bool all_zero(const std::vector<Dim>& dims) {
  return std::ranges::all_of(dims, [](const Dim& dim) { return dim == Dim(0); });
}

Ints zeros(std::size_t count) { return Ints(count, 0); }

}  // namespace

Ints read_window_ints(NodeContext& node, const char* name, std::size_t count, std::int64_t fallback,
                      std::int64_t least) {
  auto values = node.attr_ints(name).value_or(Ints(count, fallback));
  if (values.size() != count)
    node.invalid("attribute '{}' has {} values; it must have {}", name, values.size(), count);
  for (const std::int64_t value : values)
    if (value < least || value > kMostWindow)
      node.invalid("attribute '{}' has the value {}; it must be in {}..{}", name, value, least,
                   kMostWindow);
  return values;
}

std::string read_auto_pad(NodeContext& node) {
  const std::string auto_pad = node.attr_string("auto_pad", "NOTSET");
  if (!auto_pad.empty()) return auto_pad;
  node.assume("attribute 'auto_pad' is empty, and is taken as NOTSET");
  return "NOTSET";
}

void require_spatial(NodeContext& node, ValueId x) {
  if (node.rank(x) < 3)
    node.invalid("input must be [N, C, spatial dimensions..], but is {}", node.type(x));
}

Ints kernel_of_weights(NodeContext& node, ValueId weights) {
  const Shape shape = node.shape(weights);
  Ints kernel;
  for (std::size_t d = 2; d < shape.size(); ++d) {
    if (!shape[d].is_constant())
      node.unsupported("the kernel's size is symbolic: {}", node.type(weights));
    if (shape[d].value() > kMostWindow)
      node.unsupported("the kernel is too large: {}", node.type(weights));
    kernel.push_back(shape[d].value());
  }
  const auto given = node.attr_ints("kernel_shape");
  if (given && *given != kernel)
    node.invalid("attribute 'kernel_shape' is [{}], but the weights are {}",
                 fmt::join(*given, ", "), node.type(weights));
  return kernel;
}

Windows read_windows(NodeContext& node, ValueId x, Ints kernel) {
  Windows w;
  const Shape shape = node.shape(x);
  const std::size_t spatial = shape.size() - 2;
  w.kernel = std::move(kernel);
  w.strides = read_window_ints(node, "strides", spatial, 1, 1);
  w.dilations = read_window_ints(node, "dilations", spatial, 1, 1);
  const auto pads = read_window_ints(node, "pads", 2 * spatial, 0, 0);
  const auto middle = pads.begin() + static_cast<std::ptrdiff_t>(spatial);
  w.pads_begin.assign(pads.begin(), middle);
  w.pads_end.assign(middle, pads.end());
  const std::string auto_pad = read_auto_pad(node);
  if (auto_pad == "NOTSET") return w;
  // The specification forbids explicit pads here; exporters write zeros.
  std::ranges::fill(w.pads_begin, Dim(0));
  std::ranges::fill(w.pads_end, Dim(0));
  if (auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER")
    pad_same(node, w, std::span(shape).subspan(2), auto_pad == "SAME_UPPER");
  else if (auto_pad != "VALID")
    node.invalid("attribute 'auto_pad' has the unknown value '" + auto_pad + "'");
  return w;
}

ValueId pad_spatial(NodeContext& node, ValueId x, const std::vector<Dim>& begins,
                    const std::vector<Dim>& ends, double fill) {
  if (all_zero(begins) && all_zero(ends)) return x;
  std::vector<Dim> all_begins(2, Dim(0)), all_ends(2, Dim(0));
  all_begins.insert(all_begins.end(), begins.begin(), begins.end());
  all_ends.insert(all_ends.end(), ends.begin(), ends.end());
  return node.add("Pad", {x}, {{"begins", all_begins}, {"ends", all_ends}, {"fill", fill}});
}

/// Windows must fit at least once: no runtime defines a result for less.
void require_windows(NodeContext& node, ValueId x, const Windows& w) {
  const Shape shape = node.shape(x);
  for (std::size_t d = 0; d < w.kernel.size(); ++d)
    node.at_least(shape[2 + d] + w.pads_begin[d] + w.pads_end[d], w.reach(d));
}

ValueId unfold(NodeContext& node, ValueId x, const Windows& w, double fill) {
  const auto none = zeros(w.kernel.size());
  require_windows(node, x, w);
  return node.add("Unfold", {pad_spatial(node, x, w.pads_begin, w.pads_end, fill)},
                  {{"kernel", w.kernel},
                   {"strides", w.strides},
                   {"dilations", w.dilations},
                   {"pads_begin", none},
                   {"pads_end", none}});
}

ValueId reduce_windows(NodeContext& node, const char* op, ValueId windows, std::size_t spatial) {
  Ints axes;
  for (std::size_t d = 0; d < spatial; ++d) axes.push_back(static_cast<std::int64_t>(2 + d));
  return node.add(op, {windows}, {{"axes", axes}, {"keepdims", std::int64_t{0}}});
}

ValueId add_conv(NodeContext& node, ValueId x, ValueId weights, ValueId bias, const Windows& w,
                 std::int64_t group) {
  require_windows(node, x, w);
  Ints begins, ends;
  for (std::size_t d = 0; d < w.kernel.size(); ++d) {
    const auto fits = [](const Dim& pad) { return pad.is_constant() && pad.value() >= 0; };
    if (!fits(w.pads_begin[d]) || !fits(w.pads_end[d])) break;
    begins.push_back(w.pads_begin[d].value());
    ends.push_back(w.pads_end[d].value());
  }
  // Symbolic or negative padding becomes a separate view.
  if (begins.size() < w.kernel.size()) {
    x = pad_spatial(node, x, w.pads_begin, w.pads_end, 0);
    begins = ends = zeros(w.kernel.size());
  }
  std::vector<ValueId> inputs{x, weights};
  if (bias.valid()) inputs.push_back(bias);
  return node.add("Conv", std::move(inputs),
                  {{"strides", w.strides},
                   {"dilations", w.dilations},
                   {"pads_begin", begins},
                   {"pads_end", ends},
                   {"group", group}});
}

ValueId import_conv(NodeContext& node) {
  return import_conv(node, node.input(0, "X"), node.input(1, "W"));
}

ValueId import_conv(NodeContext& node, ValueId x, ValueId weights) {
  require_spatial(node, x);
  if (node.rank(weights) != node.rank(x))
    node.invalid("input {} and weights {} must have the same number of dimensions", node.type(x),
                 node.type(weights));
  const Windows w = read_windows(node, x, kernel_of_weights(node, weights));
  const ValueId bias = node.has_input(2) ? node.input(2, "B") : ValueId{};
  return add_conv(node, x, weights, bias, w, node.attr_int("group", 1));
}

ValueId channels_first(NodeContext& node, ValueId x) {
  require_spatial(node, x);
  Ints perm(static_cast<std::size_t>(node.rank(x)));
  std::iota(perm.begin(), perm.end(), 0);
  std::rotate(perm.begin() + 1, perm.end() - 1, perm.end());
  return node.transpose(x, perm);
}

ValueId channels_last(NodeContext& node, ValueId x) {
  Ints perm(static_cast<std::size_t>(node.rank(x)));
  std::iota(perm.begin(), perm.end(), 0);
  std::rotate(perm.begin() + 1, perm.begin() + 2, perm.end());
  return node.transpose(x, perm);
}

}  // namespace sinter::frontend
