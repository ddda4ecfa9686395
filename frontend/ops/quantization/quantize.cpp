// SPDX-License-Identifier: Apache-2.0
// Quantization, and matmuls and convolutions of quantized values, with the formulas of the ONNX
// operator specification: quantized values are round(x / scale) + zero point, saturated.
#include "frontend/model/initializers.h"
#include "frontend/ops/products.h"
#include "frontend/ops/quantization/quantized.h"
#include "frontend/ops/table/checks.h"
#include "frontend/ops/table/op_table.h"
#include "frontend/ops/windows.h"

namespace sinter::frontend {
namespace {

/// How elements of a tensor share scales and zero points.
struct Grouping {
  std::int64_t axis = 0;
  std::int64_t block_size = 0;  // 0: one scale per slice along `axis`, or one for all
};

Grouping read_grouping(NodeContext& node, ValueId x, ValueId scale) {
  if (node.input_count() > 3)
    node.invalid("it has {} inputs; there are three at most", node.input_count());
  Grouping grouping;
  const std::int64_t axis = node.attr_int("axis", 1);
  grouping.block_size = node.attr_int("block_size", 0);
  if (grouping.block_size < 0) node.invalid("attribute 'block_size' is negative");
  // For a scalar scale the axis is meaningless and often out of range.
  const bool is_blocked = grouping.block_size != 0 && node.rank(scale) == node.rank(x);
  if (ir::element_count(node.shape(scale)) != Dim(1) || is_blocked)
    grouping.axis = node.rank(x) == 0 ? 0 : node.normalise_axis(axis, node.rank(x));
  return grouping;
}

/// Reshapes `parameter` (a scale or zero point) to broadcast to `shape`.
ValueId spread(NodeContext& node, ValueId parameter, const Shape& shape, const Grouping& grouping) {
  const Shape own = node.shape(parameter);
  if (own.empty() || (own.size() == 1 && own[0] == Dim(1))) return node.reshape(parameter, {});
  const auto axis = static_cast<std::size_t>(grouping.axis);
  if (grouping.block_size == 0) {
    const auto misfit = [&](std::size_t d) {
      return own[d] != Dim(1) && own[d] != shape[d] && own[d].is_constant() &&
             shape[d].is_constant();
    };
    if (own.size() == shape.size()) {
      for (std::size_t d = 0; d < own.size(); ++d)
        if (misfit(d)) node.invalid("scales and zero points of shape {} do not fit {}", own, shape);
      return parameter;
    }
    if (own.size() != 1 || own[0] != shape[axis])
      node.invalid("scales and zero points of shape {} do not fit dimension {} of {}", own, axis,
                   shape);
    Shape along(shape.size(), Dim(1));
    along[axis] = own[0];
    return node.reshape(parameter, along);
  }
  return spread_blocks(node, parameter, shape, grouping.axis, grouping.block_size);
}

/// Checks the scale, a float, and the zero point in input 2: the same shape, and 8 or 16 bits (for
/// DequantizeLinear also int32). A single value may have any shape.
void check_parameters(NodeContext& node, ValueId scale, bool has_int32) {
  const auto shown = [&](ValueId value) { return ir::to_string(node.type(value)); };
  if (!is_arithmetic_float(node.dtype(scale)) || node.dtype(scale) == DType::kFloat64)
    node.invalid("its scale is {}; scales are f32, f16 or bf16", shown(scale));
  if (!node.has_input(2)) return;
  const ValueId zero = node.input(2, "zero_point");
  const DType type = node.dtype(zero);
  const bool is_narrow =
      is_float8(type) ||
      (is_integer(type) && (size_of(type) <= 2 || (has_int32 && type == DType::kInt32)));
  if (!is_narrow) node.invalid("its zero point is {}; it must be of 8 or 16 bits", shown(zero));
  const bool is_one = ir::element_count(node.shape(zero)) == Dim(1) &&
                      ir::element_count(node.shape(scale)) == Dim(1);
  if (!is_one) check_shape(node, zero, "its zero point", node.shape(scale));
}

void quantize_to_float8(NodeContext& node, ValueId x, ValueId scale, DType to) {
  const Term wide = as_float(node, x).with("Quotient", as_float(node, scale));
  node.output(node.cast(wide.value(), to, node.saturates()));
}

void quantize_linear(NodeContext& node) {
  const ValueId x = node.x(), scale = node.input(1, "y_scale");
  check_parameters(node, scale, false);
  check_dtype(node, x, "its input",
              {DType::kFloat32, DType::kFloat16, DType::kBFloat16, DType::kFloat64, DType::kInt32});
  // ignores 'precision': computed in float32 or wider
  DType to = DType::kUInt8;
  const auto stated = static_cast<int>(node.attr_int("output_dtype", 0));
  const bool is_narrow = node.has_input(2) ? node.is_four_bit(2) : is_four_bit(stated);
  if (node.has_input(2))
    to = node.dtype(node.input(2, "y_zero_point"));
  else if (is_narrow)
    to = stated == kInt4 ? DType::kInt8 : DType::kUInt8;
  else if (stated != 0)
    to = require_dtype(stated, "the result");
  if (!is_float8(to)) require_integer(node, to, "a quantized result");
  if (stated != 0 && node.has_input(2) &&
      (is_four_bit(stated) != is_narrow ||
       (!is_narrow && require_dtype(stated, "the result") != to)))
    node.invalid("attribute 'output_dtype' is {}, but its zero point is {}", onnx_type_name(stated),
                 node.type(node.input(2, "")));
  const Grouping grouping = read_grouping(node, x, scale);
  const Shape shape = node.shape(x);
  if (is_float8(to)) {
    require_zeros(node, 2, "y_zero_point");
    return quantize_to_float8(node, x, spread(node, scale, shape, grouping), to);
  }
  // ignores 'saturate': integers saturate
  const Term zero =
      node.has_input(2)
          ? as_float(node, spread(node, node.input(2, "y_zero_point"), shape, grouping))
          : Term(node, node.constant(DType::kFloat32, 0));
  const Term step = as_float(node, spread(node, scale, shape, grouping));
  Term wide = rounded(as_float(node, x), step, zero);
  if (is_narrow) {
    node.give_four_bits();
    wide = to == DType::kInt8 ? clamp(wide, -8, wide.number(7)) : clamp(wide, 0, wide.number(15));
  }
  node.output(wide.cast(to).value());
}

void dequantize_linear(NodeContext& node) {
  const ValueId x = node.x(), scale = node.input(1, "x_scale");
  const std::int64_t stated = node.attr_int("output_dtype", 0);
  const DType to =
      stated == 0 ? node.dtype(scale) : require_dtype(static_cast<int>(stated), "the result");
  check_parameters(node, scale, true);
  check_dtype(
      node, x, "its input",
      {DType::kInt8, DType::kUInt8, DType::kInt16, DType::kUInt16, DType::kInt32,
       DType::kFloat8E4M3FN, DType::kFloat8E5M2, DType::kFloat8E4M3FNUZ, DType::kFloat8E5M2FNUZ});
  if (!is_arithmetic_float(to) || to == DType::kFloat64)
    node.invalid("attribute 'output_dtype' is {}; it must be f32, f16 or bf16", to_string(to));
  if (node.has_input(2) && node.is_four_bit(2) != node.is_four_bit(0))
    node.invalid("the input and its zero points differ in type");
  const Grouping grouping = read_grouping(node, x, scale);
  const Shape shape = node.shape(x);
  std::optional<ValueId> zero;
  if (is_float8(node.dtype(x)))
    require_zeros(node, 2, "x_zero_point");
  else if (node.has_input(2))
    zero = spread(node, node.input(2, "x_zero_point"), shape, grouping);
  const Term step = as_float(node, spread(node, scale, shape, grouping));
  const Term wide = is_float8(node.dtype(x)) ? as_float(node, x)
                                             : difference(node, x, zero).cast(DType::kFloat32);
  node.output((wide * step).cast(to).value());
}

struct Quantized {
  Term values, scale, zero;
};

/// Quantizes to uint8 so that the range covers `x` and zero.
Quantized quantize_dynamically(NodeContext& node, const Term& x) {
  Ints axes;
  for (std::int64_t axis = 0; axis < node.rank(x.value()); ++axis) axes.push_back(axis);
  const auto extreme = [&](const char* reduction, const char* with_zero) {
    const Term value = axes.empty()
                           ? x
                           : Term(node, node.add(reduction, {x.value()},
                                                 {{"axes", axes}, {"keepdims", std::int64_t{0}}}));
    return value.with(with_zero, 0);
  };
  const Term low = extreme("ReduceMin", "Min"), high = extreme("ReduceMax", "Max");
  const Term scale = (high - low).with("Quotient", 255);
  // A constant x of zeros has scale 0: the result is zero for any zero point.
  const Term exact = (0 - low).with("Quotient", scale);
  const Term zero = exact.apply("Round").cast(DType::kUInt8);
  return {quantized(x, scale, zero.cast(DType::kFloat32), DType::kUInt8), scale, zero};
}

void dynamic_quantize_linear(NodeContext& node) {
  const Quantized result = quantize_dynamically(node, Term(node, node.x()));
  node.output(0, result.values.value());
  node.output(1, result.scale.value());
  node.output(2, result.zero.value());
}

void check_eight_bits(NodeContext& node,
                      std::initializer_list<std::pair<std::size_t, const char*>> inputs) {
  for (const auto& [i, name] : inputs)
    check_dtype(node, node.input(i, name), name, {DType::kInt8, DType::kUInt8});
}

void check_float8(NodeContext& node,
                  std::initializer_list<std::pair<std::size_t, const char*>> inputs) {
  for (const auto& [i, name] : inputs)
    check_dtype(
        node, node.input(i, name), name,
        {DType::kFloat8E4M3FN, DType::kFloat8E5M2, DType::kFloat8E4M3FNUZ, DType::kFloat8E5M2FNUZ});
}

void check_scales(NodeContext& node,
                  std::initializer_list<std::pair<std::size_t, const char*>> inputs) {
  for (const auto& [i, name] : inputs)
    check_dtype(node, node.input(i, name), name,
                {DType::kFloat32, DType::kFloat16, DType::kBFloat16});
}

void matmul_integer(NodeContext& node) {
  check_eight_bits(node, {{0, "A"}, {1, "B"}});
  node.output(integer_product(node, node.input(0, "A"), optional_input(node, 2), node.input(1, "B"),
                              optional_input(node, 3))
                  .value());
}

void qlinear_matmul(NodeContext& node) {
  check_scales(node, {{1, "a_scale"}, {4, "b_scale"}, {6, "y_scale"}});
  const ValueId zero = node.input(7, "y_zero_point");
  const bool floats = is_float8(node.dtype(zero));
  if (floats) {
    check_float8(node, {{0, "a"}, {3, "b"}});
    for (const auto& [i, name] :
         {std::pair(2, "a_zero_point"), {5, "b_zero_point"}, {7, "y_zero_point"}})
      require_zeros(node, static_cast<std::size_t>(i), name);
  } else {
    check_eight_bits(node, {{0, "a"}, {3, "b"}, {7, "y_zero_point"}});
  }
  const Term product =
      floats ? Term(node, multiply_matrices(node, as_float(node, node.input(0, "a")).value(),
                                            as_float(node, node.input(3, "b")).value()))
             : integer_product(node, node.input(0, "a"), node.input(2, "a_zero_point"),
                               node.input(3, "b"), node.input(5, "b_zero_point"));
  const auto scale = [&](std::size_t i, const char* name, bool left) {
    return as_float(node, matrix_parameter(node, node.input(i, name), left));
  };
  const Term real =
      product.cast(DType::kFloat32) * (scale(1, "a_scale", true) * scale(4, "b_scale", false));
  if (floats)
    return quantize_to_float8(node, real.value(), scale(6, "y_scale", true).value(),
                              node.dtype(zero));
  node.output(quantized(real, scale(6, "y_scale", true),
                        as_float(node, matrix_parameter(node, zero, true)), node.dtype(zero))
                  .value());
}

Term with_bias(NodeContext& node, const Term& y, std::size_t i) {
  return node.has_input(i) ? y + Term(node, node.input(i, "bias")) : y;
}

/// com.microsoft: a float matrix, quantized as by DynamicQuantizeLinear, times integers.
void dynamic_quantize_matmul(NodeContext& node) {
  const ValueId y = multiply_dynamic(node, node.input(0, "A"), node.input(1, "B"),
                                     node.input(2, "b_scale"), optional_input(node, 3));
  node.output(with_bias(node, Term(node, y), 4).value());
}

/// com.microsoft: MatMulInteger with dequantized sums.
void matmul_integer_to_float(NodeContext& node) {
  const Term product = integer_product(node, node.input(0, "A"), optional_input(node, 4),
                                       node.input(1, "B"), optional_input(node, 5));
  const auto scale = [&](std::size_t i, const char* name, bool left) {
    return as_float(node, matrix_parameter(node, node.input(i, name), left));
  };
  const Term y =
      product.cast(DType::kFloat32) * (scale(2, "a_scale", true) * scale(3, "b_scale", false));
  node.output(with_bias(node, y.cast(node.dtype(node.input(2, "a_scale"))), 6).value());
}

/// A parameter of the weights (a scalar, or one value per output channel) along dimension `axis` of
/// `rank`.
ValueId channel_parameter(NodeContext& node, ValueId parameter, std::int64_t rank,
                          std::size_t axis) {
  const Shape own = node.shape(parameter);
  if (own.empty() || (own.size() == 1 && own[0] == Dim(1))) return node.reshape(parameter, {});
  Shape along(static_cast<std::size_t>(rank), Dim(1));
  along[axis] = own[0];
  return node.reshape(parameter, along);
}

Term integer_convolution(NodeContext& node, ValueId x, std::optional<ValueId> x_zero, ValueId w,
                         std::optional<ValueId> w_zero, ValueId bias) {
  require_spatial(node, x);
  if (w_zero) w_zero = channel_parameter(node, *w_zero, node.rank(w), 0);
  if (x_zero) x_zero = channel_parameter(node, *x_zero, node.rank(x), 1);
  const Windows windows = read_windows(node, x, kernel_of_weights(node, w));
  return {node,
          add_conv(node, difference(node, x, x_zero).value(), difference(node, w, w_zero).value(),
                   bias, windows, node.attr_int("group", 1))};
}

void conv_integer(NodeContext& node) {
  check_eight_bits(node, {{0, "x"}, {1, "w"}});
  node.output(integer_convolution(node, node.input(0, "x"), optional_input(node, 2),
                                  node.input(1, "w"), optional_input(node, 3), {})
                  .value());
}

void qlinear_conv(NodeContext& node) {
  check_eight_bits(node, {{0, "x"}, {3, "w"}, {7, "y_zero_point"}});
  check_scales(node, {{1, "x_scale"}, {4, "w_scale"}, {6, "y_scale"}});
  const bool is_last = node.attr_int("channels_last", 0) != 0;  // com.microsoft only
  const ValueId given = node.input(0, "x"), w = node.input(3, "w");
  const ValueId x = is_last ? channels_first(node, given) : given;
  const ValueId w_scale = node.input(4, "w_scale"),
                bias = node.has_input(8) ? node.input(8, "B") : ValueId{};
  if (node.rank(w) < 3) node.invalid("w must be [M, C / group, kernel..], but is {}", node.type(w));
  if (ir::element_count(node.shape(w_scale)) != Dim(1))
    check_shape(node, w_scale, "w_scale", {node.shape(w)[0]});
  if (bias.valid()) check_dtype(node, bias, "B", {DType::kInt32});
  const Term sum = integer_convolution(node, x, node.input(2, "x_zero_point"), w,
                                       node.input(5, "w_zero_point"), bias);
  const Term step = as_float(node, channel_parameter(node, w_scale, node.rank(x), 1));
  const Term real =
      sum.cast(DType::kFloat32) * (one_number(node, 1, "x_scale").cast(DType::kFloat32) * step);
  const Term zero = one_number(node, 7, "y_zero_point");
  const Term y = quantized(real, one_number(node, 6, "y_scale").cast(DType::kFloat32),
                           zero.cast(DType::kFloat32), zero.dtype());
  node.output(is_last ? channels_last(node, y.value()) : y.value());
}

}  // namespace

ValueId spread_blocks(NodeContext& node, ValueId parameter, const Shape& shape, std::int64_t along,
                      std::int64_t block) {
  const Shape own = node.shape(parameter);
  const auto axis = static_cast<std::size_t>(along);
  if (own.size() != shape.size())
    node.invalid("blocks need scales of the input's rank, but they are {} for {}", own, shape);
  Shape needed = shape;
  const Dim count = shape[axis];
  needed[axis] = count.is_constant() ? Dim((count.value() - 1) / block + 1) : own[axis];
  for (std::size_t d = 0; d < own.size(); ++d)
    if (own[d] != needed[d] && own[d].is_constant() && needed[d].is_constant())
      node.invalid(
          "scales and zero points of shape {} do not fit blocks of {} along "
          "dimension {} of {}: these need {}",
          own, block, along, shape, needed);
  Shape split = own, repeated = own, merged = own;
  split.insert(split.begin() + along + 1, Dim(1));
  repeated.insert(repeated.begin() + along + 1, Dim(block));
  merged[axis] = own[axis] * Dim(block);
  const ValueId all = node.reshape(node.expand(node.reshape(parameter, split), repeated), merged);
  if (merged[axis] == shape[axis]) return all;
  merged[axis] = shape[axis];  // the last block may be shorter
  return node.add("Slice", {all},
                  {{"starts", std::vector<Dim>(shape.size(), Dim(0))},
                   {"steps", Ints(shape.size(), 1)},
                   {"shape", merged}});
}

ValueId multiply_dynamic(NodeContext& node, ValueId x, ValueId weights, ValueId scale,
                         std::optional<ValueId> zero_point) {
  const Quantized left = quantize_dynamically(node, Term(node, x));
  const Term product =
      integer_product(node, left.values.value(), left.zero.value(), weights, zero_point);
  const Term by = Term(node, matrix_parameter(node, scale, false)) * left.scale;
  // A constant operand of zeros has scale 0, so its product is zero.
  return (product.cast(DType::kFloat32) * by).value();
}

const OpRows kQuantizeOps = {
    {"QuantizeLinear", 10, quantize_linear,
     "axis:13- block_size:21- output_dtype:21- precision:23- saturate:19-", "", Types::kFloats,
     FourBits::kReads},
    {"DequantizeLinear", 10, dequantize_linear, "axis:13- block_size:21- output_dtype:23-", "",
     Types::kIntegers, FourBits::kReads},
    {"DynamicQuantizeLinear", 11, dynamic_quantize_linear},
    {"MatMulInteger", 10, matmul_integer, "", "", Types::kIntegers},
    {"QLinearMatMul", 10, qlinear_matmul, "", "", Types::kIntegers},
    {"ConvInteger", 10, conv_integer, "auto_pad dilations group kernel_shape pads strides", "",
     Types::kIntegers},
    {"QLinearConv", 10, qlinear_conv, "auto_pad dilations group kernel_shape pads strides", "",
     Types::kIntegers},
};

const OpRows kMicrosoftIntegerOps = {
    {"QuantizeLinear", 1, quantize_linear, "axis", kMicrosoft, Types::kFloats, FourBits::kReads},
    {"DequantizeLinear", 1, dequantize_linear, "axis", kMicrosoft, Types::kIntegers,
     FourBits::kReads},
    {"QLinearConv", 1, qlinear_conv,
     "auto_pad channels_last dilations group kernel_shape pads strides", kMicrosoft,
     Types::kIntegers},
    {"MatMulIntegerToFloat", 1, matmul_integer_to_float, "", kMicrosoft, Types::kIntegers},
    {"DynamicQuantizeMatMul", 1, dynamic_quantize_matmul, "", kMicrosoft},
};

}  // namespace sinter::frontend
