// SPDX-License-Identifier: Apache-2.0
// Matmuls and convolutions of dequantized 8-bit integers, computed on the integers: their sums are
// exact; scales and zero points are applied afterwards.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fusion/context.h"
#include "fusion/quantize/narrow_product_writer.h"
#include "fusion/regions/constant_values.h"
#include "fusion/regions/rebuild.h"

namespace sinter::fusion {

class NarrowProducts {
 public:
  NarrowProducts(const Graph& graph, const TargetTraits& target, ConstantValues& values)
      : graph_(graph), target_(target), values_(values) {}

  /// `node` in this form, if the target supports it. Otherwise nothing; `refusal` has the reason if
  /// both operands are dequantized integers.
  std::optional<NarrowProduct> find(const Node& node, std::string& refusal) const;

  /// The matmul of the integers, and the conversion of its sums to the node's result.
  Piece piece(NarrowProduct product) const;

 private:
  bool choose_types(NarrowProduct& product) const;
  std::string check(NarrowProduct& product) const;
  std::string check_operand(NarrowOperand& operand, bool is_conv, bool is_left) const;
  void take_difference(NarrowOperand& operand, DType wanted) const;

  const Graph& graph_;
  const TargetTraits& target_;
  ConstantValues& values_;
};

/// The nodes that compute operands of such matmuls, and of those with block scales
/// (block_product.h): constant folding skips them. Empty without fusion, where nothing uses them
/// later.
std::vector<bool> made_of_narrow_values(const Graph& graph, const Context& context);
/// By node: whether it is such a matmul.
std::vector<bool> narrow_products(const Graph& graph, const Context& context);

}  // namespace sinter::fusion
