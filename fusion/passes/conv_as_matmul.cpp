#include "fusion/passes/conv_as_matmul.h"

#include <algorithm>

namespace sinter::fusion {
namespace {

using ir::Dim;
using ir::GraphBuilder;
using ir::Shape;
using ir::ValueId;

ValueId reshape(GraphBuilder& builder, ValueId value, Shape shape) {
  if (builder.type(value).shape == shape) return value;
  return builder.add("Reshape", {value}, {{"shape", std::move(shape)}});
}

/// Exchanges the last two dimensions.
ValueId transpose(GraphBuilder& builder, ValueId value) {
  std::vector<std::int64_t> perm(builder.type(value).shape.size());
  for (std::size_t d = 0; d < perm.size(); ++d) perm[d] = static_cast<std::int64_t>(d);
  std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  return builder.add("Transpose", {value}, {{"perm", std::move(perm)}});
}

bool all_equal(const std::vector<std::int64_t>& values, std::int64_t expected) {
  return std::all_of(values.begin(), values.end(), [&](auto v) { return v == expected; });
}

}  // namespace

ValueId matrix_product(GraphBuilder& builder, const TargetTraits& target, ValueId a, ValueId b) {
  if (target.has_integer_matmul || !is_integer(builder.type(a).dtype))
    return builder.add("MatMul", {a, b});
  const auto with_one = [&](ValueId value, std::ptrdiff_t from_end) {
    Shape shape = builder.type(value).shape;
    shape.insert(shape.end() - from_end, Dim(1));
    return reshape(builder, value, std::move(shape));
  };
  const ValueId products = builder.add("Mul", {with_one(a, 1), with_one(transpose(builder, b), 2)});
  const auto last = static_cast<std::int64_t>(builder.type(products).shape.size()) - 1;
  return builder.add("ReduceSum", {products},
                     {{"axes", std::vector<std::int64_t>{last}}, {"keepdims", std::int64_t{0}}});
}

ValueId conv_as_matmul(GraphBuilder& builder, const TargetTraits& target, const ir::Node& node,
                       std::span<const ValueId> inputs, const ir::TensorType& result) {
  const Shape x = builder.type(inputs[0]).shape, w = builder.type(inputs[1]).shape;
  const std::int64_t group = node.attrs.get_int("group");
  Dim taps = w[1], windows(1);
  std::vector<std::int64_t> kernel;
  for (std::size_t d = 2; d < w.size(); ++d) {
    kernel.push_back(w[d].value());
    taps = taps * w[d];
    windows = windows * result.shape[d];
  }
  const auto& strides = node.attrs.get_ints("strides");
  ValueId unfolded = inputs[0];
  const bool plain = all_equal(kernel, 1) && all_equal(strides, 1) &&
                     all_equal(node.attrs.get_ints("pads_begin"), 0) &&
                     all_equal(node.attrs.get_ints("pads_end"), 0);
  if (!plain)
    unfolded = builder.add("Unfold", {inputs[0]},
                           {{"kernel", kernel},
                            {"strides", strides},
                            {"dilations", node.attrs.get_ints("dilations")},
                            {"pads_begin", node.attrs.get_ints("pads_begin")},
                            {"pads_end", node.attrs.get_ints("pads_end")}});
  const bool grouped = group != 1;
  const Dim channels = ir::floor_div(w[0], Dim(group));
  const Shape rows = grouped ? Shape{x[0], Dim(group), taps, windows} : Shape{x[0], taps, windows};
  const Shape columns = grouped ? Shape{Dim(group), channels, taps} : Shape{w[0], taps};
  const ValueId windows_by_taps = transpose(builder, reshape(builder, unfolded, rows));
  const ValueId taps_by_channels = transpose(builder, reshape(builder, inputs[1], columns));
  ValueId value = matrix_product(builder, target, windows_by_taps, taps_by_channels);
  if (inputs.size() > 2) {
    const ValueId bias =
        grouped ? reshape(builder, inputs[2], {Dim(group), Dim(1), channels}) : inputs[2];
    value = builder.add("Add", {value, bias});
  }
  return reshape(builder, transpose(builder, value), result.shape);
}

}  // namespace sinter::fusion
