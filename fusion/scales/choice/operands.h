// SPDX-License-Identifier: Apache-2.0
// 8-bit operands of matmuls, spelled like imported QuantizeLinear and DequantizeLinear: the same
// code recognises a model's own and ours.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "fusion/context.h"
#include "ir/scale_format.h"

namespace sinter::fusion {

/// Result of an operator with one output on constants.
Tensor computed(std::string_view op, const Attrs& attrs, const std::vector<Tensor>& inputs);

/// The format of an activation rounded to 8 bits.
ir::ScaleFormat activation_format(DType type, ActivationScales scales);

/// How an activation is rounded: x / smoothing / scale + zero, saturated.
struct ActivationScale {
  // Scales of rows or blocks are computed in each run.
  ir::ScaleFormat format = activation_format(DType::kInt8, ActivationScales::kStatic);
  float scale = 1;  // of all elements otherwise
  std::int64_t zero = 0;
  std::vector<float> smoothing;  // for each element along `axis`; empty: all 1
  std::size_t axis = 0;          // summed by a layer: columns, or channels

  DType type() const { return format.codes->stored; }
};

/// `x` after quantization and dequantization, in x's type. Without `smooths`, x has already been
/// divided by the factors.
ValueId add_rounded(GraphBuilder& builder, ValueId x, const ActivationScale& scale, bool smooths);

/// `weights`, [k, n] or those of a convolution, as rows of output channels with a scale for each
/// row, or one for all. Integers get the scale with the least squared error of several (quantize);
/// floats map the largest weight to the largest number.
ir::ScaledTensor eight_bit_weights(const Tensor& weights, DType type, bool per_channel);
/// `weights` [k, n] as rows of e4m3 with scales of groups of kScaleBlock k's, the same for
/// kScaleBlock rows; the last block may have fewer rows; k is a multiple.
ir::ScaledTensor block_weights(const Tensor& weights);
/// The dequantized weights as an operand of `shape`: nodes of `type`, with scales of columns
/// divided by `divisors`, if there are any; or a float32 constant.
ValueId add_dequantized(GraphBuilder& builder, const ir::ScaledTensor& weights, const Ints& shape,
                        DType type, const std::vector<float>& divisors = {});
/// The same for weights [groups * n, k] of a grouped matmul, as [groups, n, k].
ValueId add_dequantized_groups(GraphBuilder& builder, const ir::ScaledTensor& weights,
                               std::int64_t groups, DType type);
Tensor dequantized_operand(const ir::ScaledTensor& weights, const Ints& shape);
/// The dequantized rows.
Tensor dequantized_rows(const ir::ScaledTensor& weights);
/// A constant with its last dimension divided by factors.
Tensor divided_columns(const Tensor& constant, const std::vector<float>& factors);

}  // namespace sinter::fusion
