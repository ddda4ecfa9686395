// SPDX-License-Identifier: Apache-2.0
// Experimental operators of ONNX before version 1.5, which old converters wrote and ONNX Runtime
// still reads.
#include <algorithm>

#include "frontend/ops/control/unroll.h"
#include "frontend/ops/table/op_table.h"
#include "frontend/ops/term.h"

namespace sinter::frontend {
namespace {

/// alpha * x + beta.
void affine(NodeContext& node) {
  const Term x(node, node.x());
  node.output((x * node.attr_float("alpha", 1) + node.attr_float("beta", 0)).value());
}

void scale(NodeContext& node) {
  node.output((Term(node, node.x()) * node.attr_float("scale", 1)).value());
}

/// alpha * tanh(beta * x).
void scaled_tanh(NodeContext& node) {
  const Term x(node, node.x());
  const double alpha = node.attr_float("alpha"), beta = node.attr_float("beta");
  node.output(((x * beta).apply("Tanh") * alpha).value());
}

/// alpha * log(exp(beta * x) + 1).
void parametric_softplus(NodeContext& node) {
  const Term x(node, node.x());
  const double alpha = node.attr_float("alpha"), beta = node.attr_float("beta");
  node.output(((x * beta).apply("Softplus") * alpha).value());
}

constexpr std::int64_t kMostElements = std::int64_t{1} << 40;  // far from overflow

Shape image_shape(NodeContext& node) {
  const Shape shape = node.shape(node.x());
  if (shape.size() != 4) node.invalid("input must be [N, C, H, W], but is {}", node.type(node.x()));
  return shape;
}

/// scale * x + bias, with a bias per channel.
void image_scaler(NodeContext& node) {
  const Shape shape = image_shape(node);
  const Term x(node, node.x());
  const auto bias = node.attr_floats("bias");
  if (!bias) node.invalid("attribute 'bias' is missing");
  const auto count = static_cast<std::int64_t>(bias->size());
  if (shape[1] != Dim(count))
    node.invalid("attribute 'bias' has {} values for {} channels", count, shape[1]);
  const Term offsets(
      node, node.builder().constant(ir::Tensor::from_doubles(x.dtype(), {count, 1, 1}, *bias)));
  node.output((x * node.attr_float("scale", 1) + offsets).value());
}

/// Removes the border (left, top, right, bottom), or takes a region of size `scale` from its top
/// left on.
void crop(NodeContext& node) {
  const Shape shape = image_shape(node);
  const auto border = node.attr_ints("border"), size = node.attr_ints("scale");
  if (!border || border->size() != 4)
    node.invalid("attribute 'border' must have four values: left, top, right and bottom");
  if (size && size->size() != 2)
    node.invalid("attribute 'scale' must have two values: height and width");
  for (const auto* values : {&*border, size ? &*size : &*border})
    if (std::ranges::any_of(*values, [](auto v) { return v < 0 || v > kMostElements; }))
      node.invalid("attributes 'border' and 'scale' have values that are no sizes");
  ValueId x = node.x();
  for (std::size_t d = 0; d < 2; ++d) {
    const std::int64_t begin = (*border)[1 - d], end = (*border)[3 - d];
    const Dim extent = shape[2 + d];
    const Dim count = size ? Dim((*size)[d]) : extent - Dim(begin) - Dim(end);
    if (count.is_constant() && count.value() < 1)
      node.invalid("its border leaves {} elements of dimension {} of {}", count, 2 + d, shape);
    node.at_least(extent, begin + (size ? (*size)[d] : end + 1));
    if (extent.is_constant() && count.is_constant() && begin + count.value() > extent.value())
      node.invalid("{} elements from {} on are not in dimension {} of {}", count, begin, 2 + d,
                   shape);
    x = part(node, x, static_cast<std::int64_t>(2 + d), begin, count);
  }
  node.output(x);
}

}  // namespace

const OpRows kExperimentalOps = {
    {"Affine", 1, affine, "alpha beta"},
    {"Scale", 1, scale, "scale"},
    {"ScaledTanh", 1, scaled_tanh, "alpha beta"},
    {"ParametricSoftplus", 1, parametric_softplus, "alpha beta"},
    {"ImageScaler", 1, image_scaler, "bias scale"},
    {"Crop", 1, crop, "border scale"},
};

}  // namespace sinter::frontend
