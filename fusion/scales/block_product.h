// SPDX-License-Identifier: Apache-2.0
// Matmuls of fp8 with scales that change along k, one for each block (DeepSeek-V3: 1x128 of
// activations, 128x128 of weights).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "fusion/context.h"
#include "fusion/regions/constant_values.h"
#include "fusion/regions/rebuild.h"
#include "fusion/scales/quantized_operand.h"

namespace sinter::fusion {

/// A MatMul of operands with block scales.
struct BlockProduct {
  const Node* node = nullptr;
  QuantizedOperand x, w;
  ValueId x_scales;  // [.., m, blocks], or [.., m, blocks, 1]
  Tensor w_scales;   // [groups of columns, blocks] of f32
};

/// Consecutive k's, and columns of weights, with one scale in the kernels.
inline constexpr std::int64_t kScaleBlock = 128;

class BlockProducts {
 public:
  BlockProducts(const Graph& graph, const TargetTraits& target, ConstantValues& values)
      : graph_(graph), target_(target), values_(values) {}

  /// `node` in this form, if the target supports it. Otherwise nothing; `refusal` has the reason if
  /// both operands are fp8 and x has block scales.
  std::optional<BlockProduct> find(const Node& node, std::string& refusal) const;

  /// The MatMul of the codes, with formats.
  Piece piece(BlockProduct product) const;

 private:
  std::optional<ValueId> scales_of_rows(const QuantizedOperand& x) const;
  std::optional<Tensor> scales_of_columns(const QuantizedOperand& w) const;
  std::optional<Tensor> scales_of_weights(const QuantizedOperand& w, std::string& refusal) const;

  const Graph& graph_;
  const TargetTraits& target_;
  ConstantValues& values_;
};

}  // namespace sinter::fusion
