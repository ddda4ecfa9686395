// SPDX-License-Identifier: Apache-2.0
// Matmuls and convolutions of dequantized 8-bit codes, computed on the codes: scales and zero
// points are applied to the sums. Sums of integers are exact.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fusion/context.h"
#include "fusion/regions/constant_values.h"
#include "fusion/regions/rebuild.h"
#include "fusion/scales/sunk_product_writer.h"

namespace sinter::fusion {

class ScaleSink {
 public:
  ScaleSink(const Graph& graph, const TargetTraits& target, ConstantValues& values)
      : graph_(graph), target_(target), values_(values) {}

  /// `node` in this form, if the target supports it. Otherwise nothing; `refusal` has the reason if
  /// both operands are dequantized codes, or x beside weights of 4 bits.
  std::optional<SunkProduct> find(const Node& node, std::string& refusal) const;

  /// The matmul of the integers, and the conversion of its sums to the node's result.
  Piece piece(SunkProduct product) const;

 private:
  std::optional<SunkProduct> beside_four_bits(const Node& node, std::string& refusal) const;
  bool choose_types(SunkProduct& product) const;
  std::string check(SunkProduct& product) const;
  std::string check_operand(SunkOperand& operand, const Node& node, bool is_left) const;
  void take_difference(SunkOperand& operand, DType wanted) const;

  const Graph& graph_;
  const TargetTraits& target_;
  ConstantValues& values_;
};

/// The nodes that compute operands of such matmuls, and of those with block scales
/// (block_product.h): constant folding skips them. Empty without fusion, where nothing uses them
/// later.
std::vector<bool> made_of_codes(const Graph& graph, const Context& context);
/// By node: whether it is such a matmul.
std::vector<bool> products_of_codes(const Graph& graph, const Context& context);

}  // namespace sinter::fusion
