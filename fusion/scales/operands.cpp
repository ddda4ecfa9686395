// SPDX-License-Identifier: Apache-2.0
#include "fusion/scales/operands.h"

#include <array>
#include <numeric>
#include <vector>

#include "fusion/regions/constant_values.h"
#include "fusion/scales/block_product.h"
#include "fusion/scales/quantizer.h"
#include "ir/parallel.h"
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

/// Rounded like weight-only quantization: integers, or e4m3.
EightBitWeights quantized_weights(const Tensor& weights, std::size_t axis, bool are_floats,
                                  bool per_channel) {
  const Ints& shape = weights.shape();
  const std::int64_t channels = shape[axis], count = weights.element_count();
  const Tensor rows = axis == 0 ? weights : transposed(weights);
  WeightOptions options;
  options.bits = 8;
  options.floats = are_floats;
  const ir::ScaledTensor made = quantize(
      rows.reshaped(per_channel ? Ints{channels, count / channels} : Ints{1, count}), options);
  Ints along(per_channel ? shape.size() : 0, 1);
  if (per_channel) along[axis] = channels;
  const Tensor values = made.values.reshaped(rows.shape());
  return {axis == 0 ? values : transposed(values), made.scales.reshaped(along)};
}

EightBitWeights float_weights(const Tensor& weights, std::size_t axis, DType type,
                              bool per_channel) {
  const auto number = [](double value) { return Tensor::scalar(DType::kFloat32, value); };
  const Tensor wide = computed("Cast", {{"to", DType::kFloat32}}, {weights});
  Ints axes;
  for (std::size_t d = 0; d < weights.shape().size(); ++d)
    if (!per_channel || d != axis) axes.push_back(static_cast<std::int64_t>(d));
  const Tensor largest =
      computed("ReduceMax", {{"axes", axes}, {"keepdims", std::int64_t{per_channel ? 1 : 0}}},
               {computed("Abs", {}, {wide})});
  const Tensor scales =
      computed("Max", {},
               {computed("Quotient", {}, {largest, number(largest_of_eight_bits(type))}),
                number(kLeastScale)});
  const Tensor values =
      computed("Cast", {{"to", type}}, {computed("Quotient", {}, {wide, scales})});
  return {values, scales};
}

}  // namespace

Tensor computed(std::string_view op, const Attrs& attrs, const std::vector<Tensor>& inputs) {
  return ir::evaluate_op(ir::get_op(op), attrs, inputs).front();
}

double largest_of_eight_bits(DType type) {
  switch (type) {
    case DType::kFloat8E4M3FN: return 448;
    case DType::kFloat8E5M2: return 57344;
    case DType::kUInt8: return 255;
    default: return 127;
  }
}

ValueId add_rounded(GraphBuilder& builder, ValueId x, const ActivationScale& scale, bool smooths) {
  const DType type = builder.type(x).dtype;
  const Shape shape = builder.type(x).shape;
  ValueId wide = as(builder, x, DType::kFloat32);
  if (smooths) wide = add_divided(builder, wide, scale);
  if (scale.scales == ActivationScales::kBlock) {
    Shape blocks = shape;
    blocks.back() = Dim(shape.back().value() / kScaleBlock);
    blocks.emplace_back(kScaleBlock);
    wide = builder.add("Reshape", {wide}, {{"shape", blocks}});
  }
  const auto number = [&](double value) { return builder.scalar(DType::kFloat32, value); };
  ValueId step = number(scale.scale);
  if (scale.scales != ActivationScales::kStatic) {
    const std::int64_t last = std::ssize(builder.type(wide).shape) - 1;
    const ValueId largest = builder.add("ReduceMax", {builder.add("Abs", {wide})},
                                        {{"axes", Ints{last}}, {"keepdims", std::int64_t{1}}});
    step = builder.add(
        "Max", {builder.add("Mul", {largest, number(1 / largest_of_eight_bits(scale.type))}),
                number(kLeastScale)});
  }
  ValueId result = builder.add("Quotient", {wide, step});
  const bool is_integer_type = is_integer(scale.type);
  if (is_integer_type) result = builder.add("Round", {result});
  if (scale.zero != 0)
    result = builder.add("Add", {result, number(static_cast<double>(scale.zero))});
  result = as(builder, result, scale.type);
  if (is_integer_type) result = as(builder, result, DType::kInt32);
  if (scale.zero != 0)
    result = builder.add("Sub",
                         {result, builder.scalar(DType::kInt32, static_cast<double>(scale.zero))});
  result = builder.add("Mul", {as(builder, result, DType::kFloat32), step});
  if (scale.scales == ActivationScales::kBlock)
    result = builder.add("Reshape", {result}, {{"shape", shape}});
  return as(builder, result, type);
}

EightBitWeights eight_bit_weights(const Tensor& weights, std::size_t axis, DType type,
                                  bool per_channel) {
  const bool is_e4m3 = type == DType::kFloat8E4M3FN;
  return is_integer(type) || is_e4m3 ? quantized_weights(weights, axis, is_e4m3, per_channel)
                                     : float_weights(weights, axis, type, per_channel);
}

EightBitWeights block_weights(const Tensor& weights) {
  WeightOptions options;
  options.bits = 8;
  options.floats = true;
  options.group = options.channels = kScaleBlock;
  const std::int64_t k = weights.shape()[0], n = weights.shape()[1];
  const ir::ScaledTensor made = quantize(transposed(weights), options);
  return {transposed(made.values), transposed(made.scales.reshaped({n, k / kScaleBlock})),
          kScaleBlock};
}

ValueId add_dequantized(GraphBuilder& builder, const EightBitWeights& weights, DType type) {
  if (weights.block > 0) {
    const std::int64_t blocks = weights.scales.shape()[0], n = weights.scales.shape()[1];
    const ValueId values = builder.constant(weights.values.reshaped({blocks, weights.block, n}));
    const ValueId product =
        builder.add("Mul", {as(builder, values, DType::kFloat32),
                            builder.constant(weights.scales.reshaped({blocks, 1, n}))});
    const Shape shape{Dim(blocks * weights.block), Dim(n)};
    return as(builder, builder.add("Reshape", {product}, {{"shape", shape}}), type);
  }
  ValueId values = builder.constant(weights.values);
  if (is_integer(weights.values.dtype())) values = as(builder, values, DType::kInt32);
  const ValueId product =
      builder.add("Mul", {as(builder, values, DType::kFloat32), builder.constant(weights.scales)});
  return as(builder, product, type);
}

/// Direct, as the reference evaluator takes minutes for a large model.
Tensor dequantized(const EightBitWeights& weights) {
  const Tensor values = weights.values.plain(), scales = weights.scales.plain();
  std::array<float, 256> numbers{};
  for (std::size_t code = 0; code < numbers.size(); ++code) {
    const auto byte = static_cast<std::byte>(code);
    numbers[code] = static_cast<float>(ir::load_as_double(values.dtype(), &byte));
  }
  if (weights.block > 0) {
    const auto n = static_cast<std::size_t>(scales.shape()[1]),
               block = static_cast<std::size_t>(weights.block);
    const auto codes = values.bytes();
    const std::span<const float> factors = scales.as<float>();
    std::vector<float> result(codes.size());
    ir::for_each_range(codes.size() / n, block, [&](std::size_t begin, std::size_t end) {
      for (std::size_t row = begin; row < end; ++row)
        for (std::size_t j = 0; j < n; ++j)
          result[row * n + j] = numbers[std::to_integer<std::size_t>(codes[row * n + j])] *
                                factors[row / block * n + j];
    });
    return Tensor::of(DType::kFloat32, values.shape(), result);
  }
  // At most one dimension of scales exceeds 1: `inner` consecutive values share a scale.
  const std::size_t in_front = values.shape().size() - scales.shape().size();
  std::size_t inner = 1;
  for (std::size_t d = scales.shape().size(); d-- > 0 && scales.shape()[d] == 1;)
    inner *= static_cast<std::size_t>(values.shape()[in_front + d]);
  const auto codes = values.bytes();
  const std::span<const float> factors = scales.as<float>();
  std::vector<float> result(codes.size());
  ir::for_each_range(codes.size(), 65536, [&](std::size_t begin, std::size_t end) {
    std::size_t factor = begin / inner % factors.size(), left = inner - begin % inner;
    for (std::size_t i = begin; i < end; ++i) {
      result[i] = numbers[std::to_integer<std::size_t>(codes[i])] * factors[factor];
      if (--left > 0) continue;
      left = inner;
      factor = factor + 1 < factors.size() ? factor + 1 : 0;
    }
  });
  return Tensor::of(DType::kFloat32, values.shape(), result);
}

}  // namespace sinter::fusion
