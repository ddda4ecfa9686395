// The nodes of a product of integers of 8 bits.
#pragma once

#include "fusion/quantize/narrow_product.h"

namespace sinter::fusion {

/// What an unsigned value is more than the signed one that has its place.
inline constexpr int kUnsignedShift = 128;

/// The dimensions of a product's operand that are summed up.
Ints summed_axes(bool is_conv, bool is_left, std::size_t rank);

/// A product's operands and their parameters in the graph that is built; invalid where there are
/// none.
struct ProductInputs {
  ValueId x, x_zero, x_scale, w, w_zero, w_scale, bias;
};

/// Adds `product` of a node of `graph`, and what makes the node's result of its sums, which is
/// returned.
ValueId write_product(GraphBuilder& builder, const Graph& graph, const NarrowProduct& product,
                      const ProductInputs& inputs);

}  // namespace sinter::fusion
