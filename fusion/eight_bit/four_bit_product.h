// SPDX-License-Identifier: Apache-2.0
// Matmuls with 4-bit weights whose other operand is a dequantized 8-bit float, as matmuls of these
// floats; row scales are applied to the result.
#pragma once

#include <optional>
#include <string>

#include "fusion/context.h"
#include "fusion/quantize/quantized_operand.h"
#include "fusion/regions/rebuild.h"

namespace sinter::fusion {

/// A MatMul by weights of 4 bits and the quantized form of its x.
struct FourBitProduct {
  const Node* node = nullptr;
  QuantizedOperand x;
};

/// `node` in this form, if the target multiplies it so. Otherwise nothing; `refusal` has the reason
/// if x is such a value.
std::optional<FourBitProduct> find_four_bit_product(const Graph& graph, const TargetTraits& target,
                                                    const Node& node, std::string& refusal);

/// The matmul of the 8-bit floats, and the conversion of its sums to the node's result.
Piece four_bit_piece(const Graph& graph, FourBitProduct product);

}  // namespace sinter::fusion
