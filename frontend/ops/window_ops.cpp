// Convolution and pooling: operators that slide a window over the spatial dimensions.
#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "frontend/ops/op_table.h"

namespace sinter::frontend {
namespace {

using ir::Dim;
using ir::Shape;
using ir::ValueId;

struct Windows {
  std::vector<std::int64_t> kernel, strides, dilations, pads_begin, pads_end;
};

std::vector<std::int64_t> read_ints(NodeContext& node, const char* name, std::size_t count,
                                    std::int64_t fallback, std::int64_t least) {
  auto values = node.attr_ints(name).value_or(std::vector<std::int64_t>(count, fallback));
  if (values.size() != count)
    node.invalid(
        fmt::format("attribute '{}' has {} values; it must have {}", name, values.size(), count));
  // The upper limit keeps sums and products of a few of them far from overflow.
  constexpr std::int64_t kMost = 1 << 30;
  for (const std::int64_t value : values)
    if (value < least || value > kMost)
      node.invalid(fmt::format("attribute '{}' has the value {}; it must be in {}..{}", name, value,
                               least, kMost));
  return values;
}

/// SAME_UPPER and SAME_LOWER: as many outputs as ceil(input / stride), the padding split evenly
/// with the odd element at the end or at the beginning.
void pad_same(NodeContext& node, Windows& w, std::span<const Dim> spatial, bool upper) {
  for (std::size_t d = 0; d < spatial.size(); ++d) {
    const std::int64_t reach = (w.kernel[d] - 1) * w.dilations[d] + 1;
    std::int64_t total = 0;
    if (spatial[d].is_constant()) {
      const std::int64_t in = spatial[d].value();
      const std::int64_t out = (in + w.strides[d] - 1) / w.strides[d];
      total = std::max<std::int64_t>((out - 1) * w.strides[d] + reach - in, 0);
    } else if (w.strides[d] == 1) {
      total = reach - 1;
    } else {
      node.unsupported(fmt::format(
          "auto_pad SAME with stride {} makes the padding depend on the symbolic dimension {}",
          w.strides[d], spatial[d].to_string()));
    }
    w.pads_begin[d] = upper ? total / 2 : total - total / 2;
    w.pads_end[d] = total - w.pads_begin[d];
  }
}

Windows read_windows(NodeContext& node, ValueId x, std::vector<std::int64_t> kernel) {
  Windows w;
  const Shape shape = node.shape(x);
  const std::size_t spatial = shape.size() - 2;
  w.kernel = std::move(kernel);
  w.strides = read_ints(node, "strides", spatial, 1, 1);
  w.dilations = read_ints(node, "dilations", spatial, 1, 1);
  const auto pads = read_ints(node, "pads", 2 * spatial, 0, 0);
  const auto middle = pads.begin() + static_cast<std::ptrdiff_t>(spatial);
  w.pads_begin.assign(pads.begin(), middle);
  w.pads_end.assign(middle, pads.end());
  const std::string auto_pad = node.attr_string("auto_pad", "NOTSET");
  if (auto_pad == "NOTSET") return w;
  // The specification forbids explicit pads here; those that exporters write are zeros.
  std::fill(w.pads_begin.begin(), w.pads_begin.end(), 0);
  std::fill(w.pads_end.begin(), w.pads_end.end(), 0);
  if (auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER")
    pad_same(node, w, std::span(shape).subspan(2), auto_pad == "SAME_UPPER");
  else if (auto_pad != "VALID")
    node.invalid("attribute 'auto_pad' has the unknown value '" + auto_pad + "'");
  return w;
}

void require_spatial(NodeContext& node, ValueId x) {
  if (node.rank(x) < 3)
    node.invalid("input must be [N, C, spatial dimensions..], but is " +
                 ir::to_string(node.type(x)));
}

void conv(NodeContext& node) {
  const ValueId x = node.input(0, "X"), weights = node.input(1, "W");
  require_spatial(node, x);
  const Shape shape = node.shape(weights);
  if (node.rank(weights) != node.rank(x))
    node.invalid(fmt::format("input {} and weights {} must have the same number of dimensions",
                             ir::to_string(node.type(x)), ir::to_string(node.type(weights))));
  std::vector<std::int64_t> kernel;
  for (std::size_t d = 2; d < shape.size(); ++d) {
    if (!shape[d].is_constant())
      node.unsupported("the kernel's size is symbolic: " + ir::to_string(node.type(weights)));
    kernel.push_back(shape[d].value());
  }
  const auto given = node.attr_ints("kernel_shape");
  if (given && *given != kernel)
    node.invalid(fmt::format("attribute 'kernel_shape' is [{}], but the weights are {}",
                             fmt::join(*given, ", "), ir::to_string(node.type(weights))));
  const Windows w = read_windows(node, x, std::move(kernel));
  std::vector<ValueId> inputs{x, weights};
  if (node.has_input(2)) inputs.push_back(node.input(2, "B"));
  node.output(node.add("Conv", std::move(inputs),
                       {{"strides", w.strides},
                        {"dilations", w.dilations},
                        {"pads_begin", w.pads_begin},
                        {"pads_end", w.pads_end},
                        {"group", node.attr_int("group", 1)}}));
}

/// Rounds the number of windows up where ceil_mode asks for it, by padding more at the end. A
/// window that would begin behind the input and its padding at the beginning is left out.
void round_up(NodeContext& node, Windows& w, std::span<const Dim> spatial) {
  for (std::size_t d = 0; d < spatial.size(); ++d) {
    if (!spatial[d].is_constant()) {
      if (w.strides[d] == 1) continue;
      node.unsupported("ceil_mode with the symbolic dimension " + spatial[d].to_string());
    }
    const std::int64_t reach = (w.kernel[d] - 1) * w.dilations[d] + 1;
    const std::int64_t in = spatial[d].value();
    const std::int64_t rest = in + w.pads_begin[d] + w.pads_end[d] - reach;
    if (rest < 0) continue;
    std::int64_t count = (rest + w.strides[d] - 1) / w.strides[d] + 1;
    if ((count - 1) * w.strides[d] >= in + w.pads_begin[d]) --count;
    w.pads_end[d] =
        std::max((count - 1) * w.strides[d] + reach - in - w.pads_begin[d], w.pads_end[d]);
  }
}

/// Pads with `fill` and lays the windows out: [N, C, k.., o..].
ValueId unfold(NodeContext& node, ValueId x, const Windows& w, double fill) {
  const std::size_t spatial = w.kernel.size();
  std::vector<Dim> begins(2, Dim(0)), ends(2, Dim(0));
  begins.insert(begins.end(), w.pads_begin.begin(), w.pads_begin.end());
  ends.insert(ends.end(), w.pads_end.begin(), w.pads_end.end());
  const auto is_zero = [](const Dim& dim) { return dim == Dim(0); };
  if (!std::all_of(begins.begin(), begins.end(), is_zero) ||
      !std::all_of(ends.begin(), ends.end(), is_zero))
    x = node.add("Pad", {x}, {{"begins", begins}, {"ends", ends}, {"fill", fill}});
  const std::vector<std::int64_t> none(spatial, 0);
  return node.add("Unfold", {x},
                  {{"kernel", w.kernel},
                   {"strides", w.strides},
                   {"dilations", w.dilations},
                   {"pads_begin", none},
                   {"pads_end", none}});
}

ValueId reduce_windows(NodeContext& node, const char* op, ValueId windows, std::size_t spatial) {
  std::vector<std::int64_t> axes;
  for (std::size_t d = 0; d < spatial; ++d) axes.push_back(static_cast<std::int64_t>(2 + d));
  return node.add(op, {windows}, {{"axes", axes}, {"keepdims", std::int64_t{0}}});
}

Windows read_pool(NodeContext& node, ValueId x) {
  require_spatial(node, x);
  const std::size_t spatial = node.shape(x).size() - 2;
  if (!node.has_attr("kernel_shape")) node.invalid("attribute 'kernel_shape' is missing");
  Windows w = read_windows(node, x, read_ints(node, "kernel_shape", spatial, 1, 1));
  for (std::size_t d = 0; d < spatial; ++d) {
    const std::int64_t reach = (w.kernel[d] - 1) * w.dilations[d] + 1;
    if (w.pads_begin[d] >= reach || w.pads_end[d] >= reach)
      node.invalid(fmt::format("padding of {} and {} leaves windows of {} without any input",
                               w.pads_begin[d], w.pads_end[d], reach));
  }
  return w;
}

void max_pool(NodeContext& node) {
  if (node.output_is_used(1))
    node.unsupported("its output 1 (Indices) is used; only output 0 is supported");
  node.ignore_attr("storage_order");  // of Indices
  const ValueId x = node.x();
  Windows w = read_pool(node, x);
  const Shape shape = node.shape(x);
  if (node.attr_int("ceil_mode", 0) != 0) round_up(node, w, std::span(shape).subspan(2));
  const DType dtype = node.dtype(x);
  const double least = is_float(dtype)         ? -std::numeric_limits<double>::infinity()
                       : dtype == DType::kInt8 ? -128
                                               : 0;
  if (!is_float(dtype) && dtype != DType::kInt8 && dtype != DType::kUInt8)
    node.unsupported("input type " + std::string(to_string(dtype)));
  node.output(reduce_windows(node, "ReduceMax", unfold(node, x, w, least), w.kernel.size()));
}

void average_pool(NodeContext& node) {
  const ValueId x = node.x();
  Windows w = read_pool(node, x);
  const Shape shape = node.shape(x);
  const std::size_t spatial = w.kernel.size();
  const bool include_pads = node.attr_int("count_include_pad", 0) != 0;
  const Windows declared = w;
  if (node.attr_int("ceil_mode", 0) != 0) round_up(node, w, std::span(shape).subspan(2));
  const bool has_pads =
      std::any_of(w.pads_begin.begin(), w.pads_begin.end(), [](auto pad) { return pad != 0; }) ||
      std::any_of(w.pads_end.begin(), w.pads_end.end(), [](auto pad) { return pad != 0; });
  const ValueId windows = unfold(node, x, w, 0);
  if (!has_pads || (include_pads && w.pads_end == declared.pads_end))
    return node.output(reduce_windows(node, "ReduceMean", windows, spatial));
  // How many elements of each window count: windows over ones, with the declared padding as ones
  // too if it counts. What ceil_mode added never does.
  Shape ones_shape(shape.size(), Dim(1));
  Windows around = w;
  for (std::size_t d = 0; d < spatial; ++d) {
    ones_shape[2 + d] = shape[2 + d];
    if (!include_pads) continue;
    ones_shape[2 + d] = shape[2 + d] + Dim(declared.pads_begin[d] + declared.pads_end[d]);
    around.pads_begin[d] = 0;
    around.pads_end[d] -= declared.pads_end[d];
  }
  const ValueId ones = node.expand(node.constant(node.dtype(x), 1), ones_shape);
  const ValueId counts = reduce_windows(node, "ReduceSum", unfold(node, ones, around, 0), spatial);
  node.output(node.add("Div", {reduce_windows(node, "ReduceSum", windows, spatial), counts}));
}

constexpr OpRow kRows[] = {
    {"Conv", 1, conv},
    {"MaxPool", 1, max_pool},
    {"AveragePool", 7, average_pool},
};

}  // namespace

std::span<const OpRow> window_ops() { return kRows; }

}  // namespace sinter::frontend
