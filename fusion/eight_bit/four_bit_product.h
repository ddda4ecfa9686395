// Products of weights of 4 bits whose other operand stands for floats of 8 bits, as products of
// these floats: the scales of rows come behind.
#pragma once

#include <optional>
#include <string>

#include "fusion/context.h"
#include "fusion/quantize/quantized_operand.h"
#include "fusion/regions/rebuild.h"

namespace sinter::fusion {

/// A QuantMatMul and what its x is.
struct FourBitProduct {
  const Node* node = nullptr;
  QuantizedOperand x;
};

/// What `node` is, if the target multiplies it so. Else nothing, with the reason in `refusal` if x
/// stands for such floats.
std::optional<FourBitProduct> find_four_bit_product(const Graph& graph, const TargetTraits& target,
                                                    const Node& node, std::string& refusal);

/// The product of the floats of 8 bits, and what makes the node's result of its sums.
Piece four_bit_piece(const Graph& graph, FourBitProduct product);

}  // namespace sinter::fusion
