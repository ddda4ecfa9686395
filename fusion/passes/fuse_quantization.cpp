#include "fusion/passes/passes.h"
#include "fusion/quantize/narrow_maxima.h"
#include "fusion/quantize/narrow_product.h"

namespace sinter::fusion {
namespace {

Graph fuse_products(const Graph& graph, Context& context) {
  ConstantValues values(graph);
  const NarrowProducts products(graph, context.target, values);
  std::vector<Piece> pieces;
  for (const Node& node : graph.nodes()) {
    std::string refusal;
    auto product = products.find(node, refusal);
    const bool found = product.has_value();
    if (found) pieces.push_back(products.piece(std::move(*product)));
    if (!found && refusal.empty()) continue;
    const Node* x = graph.producer(node.inputs[0]);
    decide(context, x != nullptr ? *x : node, node, found,
           found ? "its operands stand for numbers of 8 bits, which are multiplied: scales and "
                   "zero points come behind"
                 : "not a product of 8 bits: " + refusal);
  }
  return pieces.empty() ? graph : rebuild(graph, pieces);
}

}  // namespace

Graph fuse_quantization(const Graph& graph, Context& context) {
  return fuse_products(drop_requantization(narrow_maxima(graph, context)), context);
}

}  // namespace sinter::fusion
