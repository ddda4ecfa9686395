// SPDX-License-Identifier: Apache-2.0
#include "fusion/scales/choice/operands.h"

#include <numeric>
#include <vector>

#include "fusion/regions/constant_values.h"
#include "fusion/scales/block_product.h"
#include "fusion/scales/rounding/quantizer.h"
#include "ir/reference/evaluate.h"

namespace sinter::fusion {
namespace {

// Lower bound of scales for rows of zeros, to avoid division by zero.
constexpr double kLeastScale = 0x1p-100;

ValueId as(GraphBuilder& builder, ValueId value, DType type) {
  if (builder.type(value).dtype == type) return value;
  return builder.add("Cast", {value}, {{"to", type}});
}

/// `x`, float32, divided by the smoothing.
ValueId add_divided(GraphBuilder& builder, ValueId x, const ActivationScale& scale) {
  if (scale.smoothing.empty()) return x;
  Ints shape(builder.type(x).shape.size() - scale.axis, 1);
  shape[0] = std::ssize(scale.smoothing);
  std::vector<float> factors(scale.smoothing.size());
  for (std::size_t i = 0; i < factors.size(); ++i) factors[i] = 1 / scale.smoothing[i];
  return builder.add("Mul", {x, builder.constant(Tensor::of(DType::kFloat32, shape, factors))});
}

/// `weights` with output channels as rows: [n, k], or [m, c * taps] of a convolution.
Tensor channels_as_rows(const Tensor& weights) {
  const Ints& shape = weights.shape();
  return shape.size() == 2 ? transposed(weights)
                           : weights.reshaped({shape[0], weights.element_count() / shape[0]});
}

/// The other way round, for weights of `shape`.
Tensor operand_of(const Tensor& rows, const Ints& shape) {
  return shape.size() == 2 ? transposed(rows) : rows.reshaped(shape);
}

/// Rounds floats that quantize() does not have.
std::pair<Tensor, Tensor> round_floats(const Tensor& rows, DType type, bool per_channel) {
  const auto number = [](double value) { return Tensor::scalar(DType::kFloat32, value); };
  const Tensor wide = computed("Cast", {{"to", DType::kFloat32}}, {rows});
  const Tensor largest = computed(
      "ReduceMax", {{"axes", per_channel ? Ints{1} : Ints{0, 1}}, {"keepdims", std::int64_t{1}}},
      {computed("Abs", {}, {wide})});
  const Tensor scales =
      computed("Max", {},
               {computed("Quotient", {}, {largest, number(ir::codes_stored_as(type).largest)}),
                number(kLeastScale)});
  return {computed("Cast", {{"to", type}}, {computed("Quotient", {}, {wide, scales})}), scales};
}

}  // namespace

Tensor computed(std::string_view op, const Attrs& attrs, const std::vector<Tensor>& inputs) {
  return ir::evaluate_op(ir::get_op(op), attrs, inputs).front();
}

ir::ScaleFormat activation_format(DType type, ActivationScales scales) {
  return {&ir::codes_stored_as(type), DType::kFloat32, std::nullopt,
          scales == ActivationScales::kBlock ? kScaleBlock : 0,
          scales == ActivationScales::kStatic ? 0 : 1};
}

ValueId add_rounded(GraphBuilder& builder, ValueId x, const ActivationScale& scale, bool smooths) {
  const DType type = builder.type(x).dtype;
  const Shape shape = builder.type(x).shape;
  ValueId wide = as(builder, x, DType::kFloat32);
  if (smooths) wide = add_divided(builder, wide, scale);
  const bool has_blocks = scale.format.depth != 0;
  if (has_blocks) {
    Shape blocks = shape;
    blocks.back() = Dim(shape.back().value() / scale.format.depth);
    blocks.emplace_back(scale.format.depth);
    wide = builder.add("Reshape", {wide}, {{"shape", blocks}});
  }
  const auto number = [&](double value) { return builder.scalar(DType::kFloat32, value); };
  ValueId step = number(scale.scale);
  if (scale.format.has_rows_of_scales()) {
    const std::int64_t last = std::ssize(builder.type(wide).shape) - 1;
    const ValueId largest = builder.add("ReduceMax", {builder.add("Abs", {wide})},
                                        {{"axes", Ints{last}}, {"keepdims", std::int64_t{1}}});
    step =
        builder.add("Max", {builder.add("Mul", {largest, number(1 / scale.format.codes->largest)}),
                            number(kLeastScale)});
  }
  ValueId result = builder.add("Quotient", {wide, step});
  const bool is_integer_type = !scale.format.codes->is_float;
  if (is_integer_type) result = builder.add("Round", {result});
  if (scale.zero != 0)
    result = builder.add("Add", {result, number(static_cast<double>(scale.zero))});
  result = as(builder, result, scale.type());
  if (is_integer_type) result = as(builder, result, DType::kInt32);
  if (scale.zero != 0)
    result = builder.add("Sub",
                         {result, builder.scalar(DType::kInt32, static_cast<double>(scale.zero))});
  result = builder.add("Mul", {as(builder, result, DType::kFloat32), step});
  if (has_blocks) result = builder.add("Reshape", {result}, {{"shape", shape}});
  return as(builder, result, type);
}

ir::ScaledTensor eight_bit_weights(const Tensor& weights, DType type, bool per_channel) {
  const Tensor rows = channels_as_rows(weights);
  const Ints& shape = rows.shape();
  WeightOptions options;
  options.bits = 8;
  options.floats = type == DType::kFloat8E4M3FN;
  ir::ScaledTensor made;
  if (is_integer(type) || options.floats) {
    made = quantize(per_channel ? rows : rows.reshaped({1, weights.element_count()}), options);
  } else {
    auto [values, scales] = round_floats(rows, type, per_channel);
    made = ir::scaled_rows_of(8, 0, shape[1], std::move(values), std::move(scales), std::nullopt);
  }
  made.values = made.values.reshaped(shape);
  made.k = shape[1];
  if (!per_channel) made.format.rows = 0;
  return made;
}

ir::ScaledTensor block_weights(const Tensor& weights) {
  WeightOptions options;
  options.bits = 8;
  options.floats = true;
  options.group = options.channels = kScaleBlock;
  return quantize(transposed(weights), options);
}

Tensor divided_columns(const Tensor& constant, const std::vector<float>& factors) {
  const Tensor wide = computed("Cast", {{"to", DType::kFloat32}}, {constant});
  const Tensor result =
      computed("Div", {}, {wide, Tensor::of(DType::kFloat32, {std::ssize(factors)}, factors)});
  return computed("Cast", {{"to", constant.dtype()}}, {result});
}

ValueId add_dequantized(GraphBuilder& builder, const ir::ScaledTensor& weights, const Ints& shape,
                        DType type, const std::vector<float>& divisors) {
  const Ints& counts = weights.scales.shape();
  const std::int64_t n = counts[0], depth = weights.format.depth;
  Tensor scales = depth > 0 ? transposed(weights.scales) : weights.scales.reshaped({1, n});
  if (!divisors.empty()) scales = divided_columns(scales, divisors);
  const Tensor values = operand_of(weights.values, shape);
  if (depth > 0) {
    const std::int64_t blocks = counts[1];
    const ValueId product = builder.add(
        "Mul", {as(builder, builder.constant(values.reshaped({blocks, depth, n})), DType::kFloat32),
                builder.constant(scales.reshaped({blocks, 1, n}))});
    const Shape whole{Dim(blocks * depth), Dim(n)};
    return as(builder, builder.add("Reshape", {product}, {{"shape", whole}}), type);
  }
  if (divisors.empty()) {
    Ints along(weights.format.rows == 0 ? 0 : shape.size(), 1);
    if (!along.empty()) along[shape.size() == 2 ? 1 : 0] = n;
    scales = scales.reshaped(along);
  }
  ValueId codes = builder.constant(values);
  if (is_integer(values.dtype())) codes = as(builder, codes, DType::kInt32);
  const ValueId product =
      builder.add("Mul", {as(builder, codes, DType::kFloat32), builder.constant(scales)});
  return as(builder, product, type);
}

ValueId add_dequantized_groups(GraphBuilder& builder, const ir::ScaledTensor& weights,
                               std::int64_t groups, DType type) {
  const std::int64_t n = weights.values.shape()[0] / groups;
  ValueId codes = builder.constant(weights.values.reshaped({groups, n, weights.k}));
  if (is_integer(weights.values.dtype())) codes = as(builder, codes, DType::kInt32);
  const Tensor scales =
      weights.scales.reshaped(weights.format.rows == 0 ? Ints{} : Ints{groups, n, 1});
  return as(builder,
            builder.add("Mul", {as(builder, codes, DType::kFloat32), builder.constant(scales)}),
            type);
}

Tensor dequantized_rows(const ir::ScaledTensor& weights) {
  return ir::dequantized(
      {weights.format, weights.k, weights.values.plain(), weights.scales.plain(), std::nullopt},
      DType::kFloat32);
}

Tensor dequantized_operand(const ir::ScaledTensor& weights, const Ints& shape) {
  return operand_of(dequantized_rows(weights), shape);
}

}  // namespace sinter::fusion
