// SPDX-License-Identifier: Apache-2.0
#include "fusion/eight_bit/four_bit_product.h"

#include <utility>

#include "fusion/regions/operand.h"

namespace sinter::fusion {

std::optional<FourBitProduct> find_four_bit_product(const Graph& graph, const TargetTraits& target,
                                                    const Node& node, std::string& refusal) {
  refusal.clear();
  if (!has_four_bit_weights(node) || is_float8(graph.type(node.inputs[0]).dtype))
    return std::nullopt;
  auto x = find_quantized_operand(graph, node.inputs[0]);
  if (!x || graph.type(x->values).dtype != DType::kFloat8E4M3FN) return std::nullopt;
  if (x->zero) {
    refusal = "x has a zero point";
  } else if (x->scale) {
    const auto shape = parameter_shape(graph, *x, *x->scale);
    if (!shape)
      refusal = "the scale of x is read through other views than it";
    else if (!shape->empty() && shape->back() != Dim(1))
      refusal = "the scale of x varies along what is summed up";
  }
  if (refusal.empty()) refusal = quantized_refusal(target, graph, node, DType::kFloat8E4M3FN);
  if (!refusal.empty()) return std::nullopt;
  return FourBitProduct{&node, std::move(*x)};
}

Piece four_bit_piece(const Graph& graph, FourBitProduct product) {
  const Node& node = *product.node;
  Piece piece;
  piece.writes = node.outputs;
  piece.reads = {product.x.values};
  piece.reads.insert(piece.reads.end(), node.inputs.begin() + 1, node.inputs.end());
  if (product.x.scale) piece.reads.push_back(product.x.scale->value);
  std::vector<std::string> origins = node.origins;
  for (const NodeId id : product.x.nodes) {
    const auto& own = graph.node(id).origins;
    origins.insert(origins.end(), own.begin(), own.end());
  }
  ir::sort_unique(origins);
  piece.emit = [&graph, product = std::move(product), origins](GraphBuilder& b,
                                                               std::span<const ValueId> reads) {
    GraphBuilder::OriginScope scope(b, origins);
    const Node& old = *product.node;
    std::vector<ValueId> inputs(reads.begin(),
                                reads.begin() + static_cast<std::ptrdiff_t>(old.inputs.size()));
    inputs[0] = place_values(b, graph, product.x, inputs[0]);
    ValueId result = b.add("MatMul", std::move(inputs), old.attrs);
    if (product.x.scale) {
      ValueId scale = place_parameter(b, graph, product.x, *product.x.scale, reads.back());
      if (b.type(scale).dtype != DType::kFloat32)
        scale = add_folded(b, "Cast", {scale}, {{"to", DType::kFloat32}});
      result = b.add("Mul", {result, scale});
    }
    const DType type = graph.type(old.outputs[0]).dtype;
    return std::vector{type == DType::kFloat32 ? result : b.add("Cast", {result}, {{"to", type}})};
  };
  return piece;
}

}  // namespace sinter::fusion
