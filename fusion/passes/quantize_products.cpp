// SPDX-License-Identifier: Apache-2.0
// --precision int8 and fp8: rounds the operands of matmuls and convolutions of activations and
// constant weights to 8 bits, as if the model had QuantizeLinear and DequantizeLinear there.
#include "fusion/passes/passes.h"
#include "fusion/scales/choice/choose_products.h"
#include "fusion/scales/choice/rewrite_products.h"

namespace sinter::fusion {

Graph quantize_products(const Graph& graph, Context& context) {
  if (!context.eight_bit.type) return graph;
  const EightBitProducts products = choose_products(graph, context);
  return products.layers.empty() ? graph : rewrite_products(graph, products);
}

}  // namespace sinter::fusion
