// SPDX-License-Identifier: Apache-2.0
// Quantized operators of com.microsoft, as ONNX Runtime's quantizer writes them. Each input is
// followed by its scale and zero point; the result is quantized with its own
// (docs/ContribOperators.md of ONNX Runtime).
#include "frontend/ops/products.h"
#include "frontend/ops/quantization/quantized.h"
#include "frontend/ops/table/op_table.h"
#include "frontend/ops/windows.h"

namespace sinter::frontend {
namespace {

Term scale_of(NodeContext& node, std::size_t i) {
  const Term scale = one_number(node, i, "scale");
  if (!is_float(scale.dtype()))
    node.invalid("input {} (scale) is {}; scales are floats", i, node.type(node.input(i, "scale")));
  return scale.cast(DType::kFloat32);
}

/// Input `i`, which must have 8 bits, minus the zero point in input `zero`.
Term exact_difference(NodeContext& node, std::size_t i, std::size_t zero, const char* what) {
  const ValueId values = node.input(i, what);
  if (node.dtype(values) != DType::kUInt8 && node.dtype(values) != DType::kInt8)
    node.unsupported("input {} ({}) is {}; supported are int8 and uint8", i, what,
                     node.type(values));
  return difference(node, values, optional_input(node, zero));
}

/// Input `i` dequantized to float32; its scale and zero point are the next two inputs.
Term dequantized(NodeContext& node, std::size_t i, const char* what) {
  if (node.has_input(i + 2)) (void)one_number(node, i + 2, "zero point");
  return exact_difference(node, i, i + 2, what).cast(DType::kFloat32) * scale_of(node, i + 1);
}

/// Outputs `y` quantized with the scale in input `i` and the zero point in the next; `type` applies
/// without a zero point.
void output_quantized(NodeContext& node, const Term& y, std::size_t i, DType type) {
  const Term scale = scale_of(node, i);
  if (!node.has_input(i + 1)) return node.output(quantized(y, scale, y.number(0), type).value());
  const Term zero = one_number(node, i + 1, "zero point");
  if (zero.dtype() != DType::kUInt8 && zero.dtype() != DType::kInt8)
    node.invalid("its result's zero point is {}; supported are int8 and uint8",
                 to_string(zero.dtype()));
  node.output(quantized(y, scale, zero.cast(DType::kFloat32), zero.dtype()).value());
}

template <const char* kOp>
void qlinear_elementwise(NodeContext& node) {
  const Term a = dequantized(node, 0, "A"), b = dequantized(node, 3, "B");
  output_quantized(node, a.with(kOp, b), 6, node.dtype(node.input(0, "A")));
}
constexpr char kAddOp[] = "Add", kMulOp[] = "Mul";

/// One input; the result's scale and zero point are inputs 3 and 4.
template <typename Function>
void qlinear_unary(NodeContext& node, const Function& function) {
  output_quantized(node, function(dequantized(node, 0, "X")), 3, node.dtype(node.x()));
}

void qlinear_sigmoid(NodeContext& node) {
  qlinear_unary(node, [](const Term& x) { return x.apply("Sigmoid"); });
}

void qlinear_leaky_relu(NodeContext& node) {
  qlinear_unary(node,
                [&](const Term& x) { return x.with("LeakyRelu", node.attr_float("alpha", 0.01)); });
}

/// From opset 13 on the softmax is over one dimension, before over all dimensions from the axis on.
void qlinear_softmax(NodeContext& node) {
  qlinear_unary(node, [&](const Term& x) {
    const std::int64_t rank = node.rank(x.value());
    const std::int64_t axis = node.normalise_axis(node.attr_int("axis", -1), rank);
    const auto along = [&](const Term& y, std::int64_t dim) {
      return Term(node, node.add("Softmax", {y.value()}, {{"axis", dim}}));
    };
    if (node.attr_int("opset") >= 13) return along(x, axis);
    const Shape shape = x.shape();
    const auto middle = shape.begin() + static_cast<std::ptrdiff_t>(axis);
    const Term rows = x.reshape({ir::element_count(Shape(shape.begin(), middle)),
                                 ir::element_count(Shape(middle, shape.end()))});
    return along(rows, 1).reshape(shape);
  });
}

/// Applies `function` to x as [N, C, spatial..]; x may have channels last.
template <typename Function>
Term by_channels(NodeContext& node, const Term& x, const Function& function) {
  require_spatial(node, x.value());
  if (node.attr_int("channels_last", 0) == 0) return function(x);
  const Term y = function(Term(node, channels_first(node, x.value())));
  return {node, channels_last(node, y.value())};
}

void qlinear_average_pool(NodeContext& node) {
  qlinear_unary(node, [&](const Term& x) {
    return by_channels(node, x, [&](const Term& first) {
      return Term(node, average_of_windows(node, first.value()));
    });
  });
}

/// The integers are summed up, exactly: int32 holds sums of eight million.
void qlinear_global_average_pool(NodeContext& node) {
  constexpr std::int64_t kMostSummed = INT32_MAX / 255;
  (void)exact_difference(node, 0, 2, "X");  // refuses other types
  const Term x(node, node.x());
  const Term mean = by_channels(node, x, [&](const Term& first) {
    Ints axes;
    Dim count = 1;
    const Shape shape = first.shape();
    for (std::size_t d = 2; d < shape.size(); ++d) {
      axes.push_back(static_cast<std::int64_t>(d));
      count *= shape[d];
    }
    const ir::Attrs along{{"axes", axes}, {"keepdims", std::int64_t{1}}};
    const auto most = ir::upper_bound(count, node.builder().ranges());
    if (!most || *most > kMostSummed)
      return Term(node, node.add("ReduceMean", {first.cast(DType::kFloat32).value()}, along));
    const Term sum(node, node.add("ReduceSum", {first.cast(DType::kInt32).value()}, along));
    return sum.cast(DType::kFloat32) / size_of_dim(node, count, DType::kFloat32);
  });
  const Term zero =
      node.has_input(2) ? one_number(node, 2, "zero point").cast(DType::kFloat32) : mean.number(0);
  output_quantized(node, (mean - zero) * scale_of(node, 1), 3, x.dtype());
}

void qlinear_where(NodeContext& node) {
  const Term condition(node, node.input(0, "condition"));
  const Term x = dequantized(node, 1, "X"), y = dequantized(node, 4, "Y");
  output_quantized(node, select(condition, x, y), 7, node.dtype(node.input(1, "X")));
}

/// The result's scale and zero point come first, then three inputs per part.
void qlinear_concat(NodeContext& node) {
  const std::size_t count = node.input_count();
  if (count < 5 || count % 3 != 2)
    node.invalid("it has {} inputs; there are two, and three for each part", count);
  std::vector<ValueId> parts;
  for (std::size_t i = 2; i < count; i += 3) parts.push_back(dequantized(node, i, "part").value());
  const std::int64_t axis = node.normalise_axis(node.attr_int("axis"), node.rank(parts[0]));
  output_quantized(node, Term(node, node.concat(parts, axis)), 0,
                   node.dtype(node.input(2, "part")));
}

/// alpha * a_scale * b_scale * (A B + C) of integers; weights may have a scale and a zero point per
/// column. Without an output scale the result is float32.
void qlinear_gemm(NodeContext& node) {
  if (node.has_input(2)) (void)one_number(node, 2, "a_zero_point");
  const auto turned = [&](const Term& matrix, const char* attribute) {
    if (node.rank(matrix.value()) != 2)
      node.invalid("A and B must be matrices, but are {} and {}", node.type(node.input(0, "A")),
                   node.type(node.input(3, "B")));
    return node.attr_int(attribute, 0) == 0 ? matrix
                                            : Term(node, node.transpose(matrix.value(), {1, 0}));
  };
  const Term a = turned(exact_difference(node, 0, 2, "A"), "transA");
  // Zero points are per column; these are rows of a transposed B.
  const Term b_values(node, node.input(3, "B"));
  Term b = turned(b_values.cast(DType::kInt32), "transB");
  if (node.has_input(5)) {
    const Term zero(node, node.input(5, "b_zero_point"));
    if (zero.dtype() != b_values.dtype()) node.invalid("B and its zero points differ in type");
    b = b - zero.cast(DType::kInt32);
  }
  Term sum(node, multiply_matrices(node, a.value(), b.value()));
  if (node.has_input(6)) sum = sum + Term(node, node.input(6, "C")).cast(DType::kInt32);
  const Term step = scale_of(node, 1) * Term(node, node.input(4, "b_scale")).cast(DType::kFloat32) *
                    node.attr_float("alpha", 1);
  const Term real = sum.cast(DType::kFloat32) * step;
  if (!node.has_input(7)) return node.output(real.value());
  output_quantized(node, real, 7, node.dtype(node.input(0, "A")));
}

}  // namespace

const OpRows kMicrosoftQlinearOps = {
    {"QLinearAdd", 1, qlinear_elementwise<kAddOp>, "", kMicrosoft},
    {"QLinearMul", 1, qlinear_elementwise<kMulOp>, "", kMicrosoft},
    {"QLinearSigmoid", 1, qlinear_sigmoid, "", kMicrosoft},
    {"QLinearLeakyRelu", 1, qlinear_leaky_relu, "alpha", kMicrosoft},
    {"QLinearSoftmax", 1, qlinear_softmax, "axis opset", kMicrosoft},
    {"QLinearAveragePool", 1, qlinear_average_pool,
     "auto_pad ceil_mode channels_last count_include_pad kernel_shape pads strides", kMicrosoft},
    {"QLinearGlobalAveragePool", 1, qlinear_global_average_pool, "channels_last", kMicrosoft},
    {"QLinearWhere", 1, qlinear_where, "", kMicrosoft},
    {"QLinearConcat", 1, qlinear_concat, "axis", kMicrosoft},
    {"QGemm", 1, qlinear_gemm, "alpha transA transB", kMicrosoft},
};

}  // namespace sinter::frontend
