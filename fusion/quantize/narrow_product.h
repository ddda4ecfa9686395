// Products and convolutions whose operands stand for integers of 8 bits, as products of these
// integers: their sums are exact, and scales and zero points come behind.
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

  /// What `node` is, if the target multiplies it so. Else nothing, with the reason in `refusal` if
  /// both operands stand for integers.
  std::optional<NarrowProduct> find(const Node& node, std::string& refusal) const;

  /// The product of the integers, and what makes the node's result of it.
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

/// The nodes that make operands of such products, and of those with scales of blocks
/// (block_product.h): whoever evaluates constants
/// leaves them. Empty where nothing is made of them later: without fusing.
std::vector<bool> made_of_narrow_values(const Graph& graph, const Context& context);
/// By node: whether it is such a product.
std::vector<bool> narrow_products(const Graph& graph, const Context& context);

}  // namespace sinter::fusion
