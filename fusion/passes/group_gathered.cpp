// SPDX-License-Identifier: Apache-2.0
// Matmuls of one row by a matrix that was gathered for it: batched spellings of mixtures of
// experts (einsum over gathered weights, batched matmuls).
#include <fmt/format.h>

#include "fusion/mixtures/gathered_rows.h"
#include "fusion/mixtures/nodes.h"
#include "fusion/passes/passes.h"
#include "fusion/regions/rebuild.h"
#include "ir/mixture/expert_rows.h"
#include "ir/scale_format.h"

namespace sinter::fusion {
namespace {

/// A matmul of rows, T times c, each with a matrix of its own.
struct GatheredProduct {
  const Node* gather = nullptr;
  bool transposed = false;  // matrices are [n, k]
  bool by_token = false;    // the c rows of a token are one, else they are c different ones
};

/// [T, c, ..]: what c matrices each of T tokens have.
bool is_of_choices(const Shape& shape, const Dim& tokens, const Dim& chosen) {
  return shape.size() > 2 && shape[0] == tokens && shape[1] == chosen;
}

/// MatMul([T, c, 1, k], [T, c, k, n]), or MatMul([T, 1, k], [T, k, c * n]), whose right operand is
/// Gather(matrices, indices [T, c]) with its dimensions in this order.
std::optional<GatheredProduct> find_product(const Graph& graph, const Node& node) {
  if (!ir::is_plain_matmul(node)) return std::nullopt;
  const Shape& left = graph.type(node.inputs[0]).shape;
  const Shape& right = graph.type(node.inputs[1]).shape;
  const Shape& result = graph.type(node.outputs[0]).shape;
  if (left.size() < 3 || left[left.size() - 2] != Dim(1) || left.size() != right.size())
    return std::nullopt;
  GatheredProduct found;
  const Node* view = graph.producer(node.inputs[1]);
  const bool merges = view != nullptr && view->op->name == "Reshape";
  if (merges) view = graph.producer(view->inputs[0]);
  const Node* gather = view;
  Ints perm;
  if (view != nullptr && view->op->name == "Transpose") {
    perm = view->attrs.get_ints("perm");
    gather = graph.producer(view->inputs[0]);
  }
  if (gather == nullptr || gather->op->name != "Gather" || gather->attrs.get_int("axis") != 0)
    return std::nullopt;
  const Shape& matrices = graph.type(gather->inputs[0]).shape;
  const Shape& indices = graph.type(gather->inputs[1]).shape;
  if (matrices.size() != 3 || indices.size() != 2 || !matrices[0].is_constant() ||
      !indices[1].is_constant())
    return std::nullopt;
  found.gather = gather;
  if (!merges) {
    if (!is_of_choices(left, indices[0], indices[1]) || left.size() != 4 ||
        !is_of_choices(result, indices[0], indices[1]))
      return std::nullopt;
    if (!perm.empty() && perm != Ints{0, 1, 3, 2}) return std::nullopt;
    found.transposed = !perm.empty();
    return found;
  }
  // [T, k, c, n] of matrices [n, k] or [k, n].
  if (perm != Ints{0, 3, 1, 2} && perm != Ints{0, 2, 1, 3}) return std::nullopt;
  found.transposed = perm[1] == 3;
  found.by_token = true;
  const Dim k = matrices[found.transposed ? 2 : 1], n = matrices[found.transposed ? 1 : 2];
  if (right != Shape{indices[0], k, indices[1] * n} || left != Shape{indices[0], Dim(1), k})
    return std::nullopt;
  return found;
}

}  // namespace

Graph group_gathered(const Graph& graph, Context& context) {
  GatheredRows flat(graph);
  return ir::rewrite(
      graph,
      [&](GraphBuilder& b, const Graph& old, const Node& node,
          std::span<const ValueId> inputs) -> std::optional<std::vector<ValueId>> {
        const DType type = old.type(node.outputs[0]).dtype;
        flat.visit(node, inputs);
        if (const Node* gather = flat.find(node);
            gather != nullptr &&
            context.target.takes("GroupedMatMul", type, to_string(type), false) != nullptr) {
          decide(context, *gather, node, true,
                 fmt::format("a mixture: rows are sorted by which of {} matrices they choose",
                             old.type(gather->inputs[0]).shape[0].value()));
          return std::vector{flat.product(b, node)};
        }
        flat.sort(b, node);
        const auto found = find_product(old, node);
        if (!found || old.type(node.inputs[0]).dtype != type ||
            context.target.takes("GroupedMatMul", type, to_string(type), false) == nullptr)
          return std::nullopt;
        // The builder's Gather has the mapped inputs; a Reshape and a Transpose may stand between.
        const Node* gather = b.producer(inputs[1]);
        while (gather != nullptr && gather->op->name != "Gather")
          gather = b.producer(gather->inputs[0]);
        if (gather == nullptr) return std::nullopt;
        const ValueId matrices = gather->inputs[0], indices = gather->inputs[1];
        const Shape weights = b.type(matrices).shape, chosen = b.type(indices).shape;
        const std::int64_t groups = weights[0].value();
        decide(
            context, *found->gather, node, true,
            fmt::format("a mixture: rows are sorted by which of {} matrices they choose", groups));
        const ir::ExpertRows rows = ir::sort_by_expert(b, from_front(b, indices, groups), groups);
        const Dim k = weights[found->transposed ? 2 : 1];
        const ValueId x =
            found->by_token
                ? ir::take_tokens(b, rows, mixtures::reshape(b, inputs[0], {chosen[0], k}))
                : ir::take_choices(b, rows,
                                   mixtures::reshape(b, inputs[0], {chosen[0] * chosen[1], k}));
        const ValueId y = b.add("GroupedMatMul", {x, matrices, rows.offsets},
                                {{"transposed", std::int64_t{found->transposed}}});
        const ValueId back = b.add("Gather", {y, rows.rows_of}, {{"axis", std::int64_t{0}}});
        return std::vector{mixtures::reshape(b, back, old.type(node.outputs[0]).shape)};
      });
}

}  // namespace sinter::fusion
