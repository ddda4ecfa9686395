// SPDX-License-Identifier: Apache-2.0
// 8-bit operands of matmuls, spelled like imported QuantizeLinear and DequantizeLinear: the same
// code recognises a model's own and ours.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "fusion/context.h"

namespace sinter::fusion {

/// Result of an operator with one output on constants.
Tensor computed(std::string_view op, const Attrs& attrs, const std::vector<Tensor>& inputs);

/// Quantization of an activation to 8 bits: x / smoothing / scale + zero, rounded and
/// saturated.
struct ActivationScale {
  DType type = DType::kInt8;                            // kInt8, kUInt8 or an 8-bit float
  ActivationScales scales = ActivationScales::kStatic;  // others are computed in each run
  float scale = 1;                                      // of all elements, if static
  std::int64_t zero = 0;
  std::vector<float> smoothing;  // for each element along `axis`; empty: all 1
  std::size_t axis = 0;          // summed by a layer: columns, or channels
};

/// The largest magnitude that scales map to, for kInt8, kUInt8, kFloat8E4M3FN or kFloat8E5M2; -128
/// is not used.
double largest_of_eight_bits(DType type);

/// `x` after quantization and dequantization, in x's type. Without `smooths`, x has already been
/// divided by the factors.
ValueId add_rounded(GraphBuilder& builder, ValueId x, const ActivationScale& scale, bool smooths);

/// values * scales, in the operand's shape.
struct EightBitWeights {
  Tensor values;           // i8, or an 8-bit float
  Tensor scales;           // f32; broadcasts to it, or is [k / block, n]
  std::int64_t block = 0;  // consecutive k's, and columns, that share a scale; 0: as scales
                           // broadcast
};

/// `weights` with one scale for each slice along `axis`, or one for all. Integers get the scale
/// with the least squared error of several (quantize); floats map the largest weight to the largest
/// number. Weights are [k, n] with axis 1, or axis is 0.
EightBitWeights eight_bit_weights(const Tensor& weights, std::size_t axis, DType type,
                                  bool per_channel);
/// `weights` [k, n] as e4m3 with a scale for each kScaleBlock x kScaleBlock block; the last block
/// may have fewer columns; k is a multiple.
EightBitWeights block_weights(const Tensor& weights);
/// The dequantized weights, as nodes of `type` and as a float32 constant.
ValueId add_dequantized(GraphBuilder& builder, const EightBitWeights& weights, DType type);
Tensor dequantized(const EightBitWeights& weights);

}  // namespace sinter::fusion
