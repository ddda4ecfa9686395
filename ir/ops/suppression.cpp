// SPDX-License-Identifier: Apache-2.0
// Suppress(boxes, valid) {iou, most} -> kept
//
// boxes: f32 [.., n, 4], each the lower and upper corner (low, low, high, high), in order of
// priority; valid: bool [.., n]. A box is kept if it is valid and no earlier kept box overlaps it
// by more than `iou`: the intersection over the union, zero for boxes without area. Of a row's
// boxes the first `most` are kept; 0: all. The core of ONNX's NonMaxSuppression.
#include <algorithm>

#include "ir/dim/dim_mismatch.h"
#include "ir/ops/ops.h"

namespace sinter::ir::ops {
namespace {

std::vector<TensorType> infer_suppress(const Attrs& attrs, Types inputs) {
  if (attrs.get_int("most") < 0) invalid("'most' is negative");
  const Shape& boxes = inputs[0].shape;
  if (inputs[0].dtype != DType::kFloat32 || inputs[1].dtype != DType::kBool || boxes.size() < 2 ||
      boxes.back() != Dim(4))
    invalid("needs boxes f32[.., n, 4] and bools, found " + list_types(inputs));
  require_equal(Shape(boxes.begin(), boxes.end() - 1), inputs[1].shape,
                [&] { return "boxes and flags differ: " + list_types(inputs); });
  return {inputs[1]};
}

struct Box {
  double low_x, low_y, high_x, high_y;
  double area() const { return (high_x - low_x) * (high_y - low_y); }
};

bool overlaps(const Box& a, const Box& b, double most) {
  const double width = std::min(a.high_x, b.high_x) - std::max(a.low_x, b.low_x);
  const double height = std::min(a.high_y, b.high_y) - std::max(a.low_y, b.low_y);
  if (!(width > 0 && height > 0 && a.area() > 0 && b.area() > 0)) return false;
  const double both = width * height, all = a.area() + b.area() - both;
  return all > 0 && both / all > most;
}

std::vector<Tensor> evaluate_suppress(const Attrs& attrs, Tensors inputs, Types outputs) {
  const Tensor &boxes = inputs[0], &valid = inputs[1];
  const double most = attrs.get_float("iou");
  const auto limit = static_cast<std::size_t>(attrs.get_int("most"));
  const std::int64_t n = valid.shape().back();
  std::vector<std::int64_t> kept(static_cast<std::size_t>(valid.element_count()), 0);
  for (std::int64_t row = 0; n > 0 && row < valid.element_count() / n; ++row) {
    std::vector<Box> before;
    for (std::int64_t i = row * n; i < (row + 1) * n; ++i) {
      if (valid.at_int(i) == 0) continue;
      const Box box{boxes.at(4 * i), boxes.at(4 * i + 1), boxes.at(4 * i + 2), boxes.at(4 * i + 3)};
      if (std::ranges::any_of(before, [&](const Box& other) { return overlaps(other, box, most); }))
        continue;
      kept[static_cast<std::size_t>(i)] = 1;
      before.push_back(box);
      if (before.size() == limit) i = (row + 1) * n;
    }
  }
  return {Tensor::from_ints(outputs[0].dtype, valid.shape(), kept)};
}

}  // namespace

std::vector<OpDef> suppression_ops() {
  OpDef suppress;
  suppress.name = "Suppress";
  suppress.kind = OpKind::kLibrary;
  suppress.kernel = "suppression";
  suppress.min_inputs = suppress.max_inputs = 2;
  suppress.attrs = {{"iou", AttrKind::kFloat, std::nullopt},
                    {"most", AttrKind::kInt, Attr(std::int64_t{0})}};
  suppress.infer = infer_suppress;
  suppress.evaluate = evaluate_suppress;
  // Box corners are image positions, which 16 bits would round to whole pixels.
  suppress.numerics = {.operands = {Rounding::kIndex}, .own_types = true};
  return {suppress};
}

}  // namespace sinter::ir::ops
