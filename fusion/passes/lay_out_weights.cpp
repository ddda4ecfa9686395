// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "fusion/passes/passes.h"
#include "fusion/regions/constant_values.h"
#include "fusion/regions/operand.h"
#include "fusion/regions/rebuild.h"
#include "ir/scale_format.h"

namespace sinter::fusion {
namespace {

// Elements of one copy: other row lengths need narrower copies.
constexpr std::int64_t kCopied = 8;

/// A plain MatMul with constant weights [k, n]: of 16 bits, if rows may be few, here or in
/// another graph; or of 8 bits, which tensor cores need K-major. Loading weights is faster with
/// contiguous k than with contiguous columns. For more rows, warpgroup tiles then have more widths.
bool wants_rows_of_k(const Graph& graph, const Node& node, const Context& context) {
  if (!ir::is_plain_matmul(node)) return false;
  const Value& weight = graph.value(node.inputs[1]);
  if (weight.constant == nullptr || weight.type.shape.size() != 2) return false;
  if (multiplies_narrow(context.target, graph, node)) return true;
  if (weight.type.dtype != DType::kFloat16 && weight.type.dtype != DType::kBFloat16) return false;
  if (weight.constant->shape()[0] % kCopied != 0) return false;
  const Shape& x = graph.type(node.inputs[0]).shape;
  const auto least = ir::lower_bound(
      ir::element_count(ir::Shape(x.begin(), x.empty() ? x.end() : x.end() - 1)), graph.ranges());
  return (least && *least <= context.target.few_rows) ||
         (context.laid_out != nullptr && context.laid_out->contains(weight.constant->hash()));
}

Piece with_rows_of_k(const Graph& graph, const Node& node) {
  Piece piece;
  piece.reads = node.inputs;
  piece.writes = node.outputs;
  piece.emit = [&graph, &node](GraphBuilder& builder, std::span<const ValueId> reads) {
    GraphBuilder::OriginScope scope(builder, node.origins);
    const Value& weight = graph.value(node.inputs[1]);
    const ValueId rows = builder.constant(transposed(*weight.constant), weight.name);
    const ValueId view = builder.add("Transpose", {rows}, {{"perm", Ints{1, 0}}});
    std::vector<ValueId> inputs(reads.begin(), reads.end());
    inputs[1] = view;
    return std::vector{builder.add(node.op->name, std::move(inputs), node.attrs)};
  };
  return piece;
}

}  // namespace

Graph lay_out_weights(const Graph& graph, Context& context) {
  if (!context.target.gemm_kernels) return graph;
  std::vector<Piece> pieces;
  for (const Node& node : graph.nodes()) {
    if (!wants_rows_of_k(graph, node, context)) continue;
    const auto& users = graph.users(node.inputs[1]);
    // Weights with other readers would be stored twice.
    if (std::ranges::all_of(users, [&](NodeId user) {
          return wants_rows_of_k(graph, graph.node(user), context);
        })) {
      pieces.push_back(with_rows_of_k(graph, node));
      if (context.laid_out != nullptr)
        context.laid_out->insert(graph.value(node.inputs[1]).constant->hash());
    }
  }
  return rebuild(graph, pieces);
}

}  // namespace sinter::fusion
