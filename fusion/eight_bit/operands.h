// Operands of products as numbers of 8 bits, spelled as a model of QuantizeLinear and
// DequantizeLinear is imported: a model's own and ours are recognised by the same code.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "fusion/context.h"

namespace sinter::fusion {

/// What an operator of one result makes of constants.
Tensor computed(std::string_view op, const Attrs& attrs, const std::vector<Tensor>& inputs);

/// How an activation becomes numbers of 8 bits: x / smoothing / scale + zero, rounded and
/// saturated.
struct ActivationScale {
  DType type = DType::kInt8;                            // kInt8, kUInt8 or a float of 8 bits
  ActivationScales scales = ActivationScales::kStatic;  // others are found in each run
  float scale = 1;                                      // of all elements, if it is static
  std::int64_t zero = 0;
  std::vector<float> smoothing;  // of each element along `axis`; empty: all are 1
  std::size_t axis = 0;          // along which a layer sums up: columns, or channels
};

/// The largest magnitude that scales map to: of kInt8, kUInt8, kFloat8E4M3FN or kFloat8E5M2. -128
/// is left out.
double largest_of_eight_bits(DType type);

/// What is left of `x` when it has been such numbers, in x's type. Without `smooths` x is divided
/// by the factors already.
ValueId add_rounded(GraphBuilder& builder, ValueId x, const ActivationScale& scale, bool smooths);

/// values * scales, of the operand's shape.
struct EightBitWeights {
  Tensor values;           // i8, or a float of 8 bits
  Tensor scales;           // f32; broadcasts to it, or is [k / block, n]
  std::int64_t block = 0;  // elements of k, and columns, that share a scale; 0: as scales broadcast
};

/// `weights` with one scale for each slice along `axis`, or one for all. Integers have the scale
/// with the least squared error of several (quantize), floats the one that maps the largest weight
/// to the largest number. Weights are [k, n] with axis 1, or axis is 0.
EightBitWeights eight_bit_weights(const Tensor& weights, std::size_t axis, DType type,
                                  bool per_channel);
/// `weights` [k, n] as e4m3 with one scale for each kScaleBlock x kScaleBlock of them, the last of
/// fewer columns; k is a multiple.
EightBitWeights block_weights(const Tensor& weights);
/// What they stand for, in `type`, as nodes and as a constant of float32.
ValueId add_dequantized(GraphBuilder& builder, const EightBitWeights& weights, DType type);
Tensor dequantized(const EightBitWeights& weights);

}  // namespace sinter::fusion
