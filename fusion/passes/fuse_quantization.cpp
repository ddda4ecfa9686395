// SPDX-License-Identifier: Apache-2.0
#include "fusion/eight_bit/four_bit_product.h"
#include "fusion/passes/passes.h"
#include "fusion/quantize/block_product.h"
#include "fusion/quantize/narrow_maxima.h"
#include "fusion/quantize/narrow_product.h"

namespace sinter::fusion {
namespace {

Graph fuse_products(const Graph& graph, Context& context) {
  ConstantValues values(graph);
  const NarrowProducts products(graph, context.target, values);
  const BlockProducts block_products(graph, context.target, values);
  std::vector<Piece> pieces;
  for (const Node& node : graph.nodes()) {
    std::string refusal, block_refusal;
    std::string reason =
        "its operands stand for numbers of 8 bits, which are multiplied: scales and zero points "
        "come behind";
    bool found = true;
    if (auto block = block_products.find(node, block_refusal)) {
      pieces.push_back(block_products.piece(std::move(*block)));
      reason = "its operands are floats of 8 bits, whose products are scaled block by block of k";
    } else if (auto four = find_four_bit_product(graph, context.target, node, refusal)) {
      pieces.push_back(four_bit_piece(graph, std::move(*four)));
      reason =
          "x stands for floats of 8 bits, which weights of 4 bits multiply: its scale is behind";
    } else if (auto product = refusal.empty() ? products.find(node, refusal) : std::nullopt) {
      pieces.push_back(products.piece(std::move(*product)));
    } else {
      if (!block_refusal.empty()) refusal = block_refusal;
      if (refusal.empty()) continue;
      found = false;
      reason = "not a product of 8 bits: " + refusal;
    }
    const Node* x = graph.producer(node.inputs[0]);
    decide(context, x != nullptr ? *x : node, node, found, reason);
  }
  return pieces.empty() ? graph : rebuild(graph, pieces);
}

}  // namespace

Graph fuse_quantization(const Graph& graph, Context& context) {
  return fuse_products(drop_requantization(narrow_maxima(graph, context)), context);
}

}  // namespace sinter::fusion
