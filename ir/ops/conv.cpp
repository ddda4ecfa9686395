// SPDX-License-Identifier: Apache-2.0
// Convolutions.
#include <algorithm>

#include <fmt/format.h>

#include "ir/dim/dim_mismatch.h"
#include "ir/ops/ops.h"
#include "ir/reference/kernels.h"
#include "ir/reference/windows.h"

namespace sinter::ir::ops {
namespace {

/// `shape` with its channels second, from channels last.
Shape channels_second(Shape shape, bool channels_last) {
  if (channels_last) std::rotate(shape.begin() + 1, shape.end() - 1, shape.end());
  return shape;
}

/// x [n, c, spatial...], w [m, c / group, kernel...], b [m] -> [n, m, windows...]; with
/// "channels_last" x [n, spatial..., c], w [m, kernel..., c / group] -> [n, windows..., m].
std::vector<TensorType> infer_conv(const Attrs& attrs, Types inputs) {
  const DType type = require_product_type(inputs);
  if (inputs[0].shape.size() < 3 || inputs[1].shape.size() != inputs[0].shape.size())
    invalid(
        "needs x [batch, channels, spatial...] and w [outputs, channels / group, kernel...] of "
        "one rank, found " +
        list_types(inputs));
  const bool last = channels_last_attr(attrs);
  const Shape x = channels_second(inputs[0].shape, last),
              w = channels_second(inputs[1].shape, last);
  const std::int64_t group = attrs.get_int("group");
  const auto ungrouped = [&] {
    return fmt::format("group {} does not divide the channels of x and w: {}", group,
                       list_types(inputs));
  };
  if (group < 1 || !is_multiple_of(w[0], group)) invalid(ungrouped());
  require_equal(x[1], w[1] * Dim(group), ungrouped);
  if (inputs.size() > 2 && inputs[2].dtype != type)
    invalid("the bias must have the result's type, found " + list_types(inputs));
  if (inputs.size() > 2)
    require_equal(inputs[2].shape, Shape{w[0]}, [&] {
      return "the bias must have one value for each output channel, found " + list_types(inputs);
    });
  Ints kernel;
  for (std::size_t d = 2; d < w.size(); ++d) {
    if (!w[d].is_constant() || w[d].value() < 1)
      invalid("the kernel's size must be known and positive, found " + list_types(inputs));
    kernel.push_back(w[d].value());
  }
  TensorType result{type, {x[0], w[0]}};
  const Windows windows = windows_attr(attrs, std::move(kernel));
  for (Dim& count : window_counts(windows, std::span(x).subspan(2)))
    result.shape.push_back(std::move(count));
  if (last) std::rotate(result.shape.begin() + 1, result.shape.begin() + 2, result.shape.end());
  return {result};
}

}  // namespace

std::vector<OpDef> conv_ops() {
  OpDef conv{
      .name = "Conv", .kind = OpKind::kLibrary, .kernel = "conv", .min_inputs = 2, .max_inputs = 3};
  for (const char* name : {"strides", "dilations", "pads_begin", "pads_end"})
    conv.attrs.push_back({name, AttrKind::kInts, std::nullopt});
  conv.attrs.push_back({"group", AttrKind::kInt, Attr(std::int64_t{1})});
  conv.attrs.push_back({"channels_last", AttrKind::kInt, Attr(std::int64_t{0})});
  conv.infer = infer_conv;
  conv.evaluate = reference::evaluate_conv;
  return {conv};
}

}  // namespace sinter::ir::ops
