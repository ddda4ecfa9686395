// SPDX-License-Identifier: Apache-2.0
// Matmuls of one row by a matrix that was gathered for it: batched spellings of mixtures of
// experts (einsum over gathered weights, batched matmuls). What is computed element by element
// between two of them stays in the order of the rows, and one Route makes their indices.
#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "fusion/mixtures/gathered_rows.h"
#include "fusion/mixtures/nodes.h"
#include "fusion/passes/passes.h"
#include "fusion/patterns/top_choices.h"
#include "fusion/regions/rebuild.h"
#include "ir/mixture/expert_rows.h"
#include "ir/scale_format.h"

namespace sinter::fusion {
namespace {

/// A matmul of rows, T times c, each with a matrix of its own.
struct GatheredProduct {
  const Node* gather = nullptr;
  std::size_t operand = 1;  // of the matmul: the matrices
  bool transposed = false;  // matrices are [n, k]
  bool by_token = false;    // the c rows of a token are one, else they are c different ones
};

/// [T, c, ..]: what c matrices each of T tokens have.
bool is_of_choices(const Shape& shape, const Dim& tokens, const Dim& chosen) {
  return shape.size() > 2 && shape[0] == tokens && shape[1] == chosen;
}

/// MatMul([T, c, 1, k], [T, c, k, n]), or MatMul([T, 1, k], [T, k, c * n]), whose right operand is
/// Gather(matrices, indices [T, c]) with its dimensions in this order; or both operands transposed
/// and exchanged.
std::optional<GatheredProduct> find_product(const Graph& graph, const Node& node,
                                            std::size_t operand) {
  if (!ir::is_plain_matmul(node)) return std::nullopt;
  GatheredProduct found;
  found.operand = operand;
  const bool is_left = operand == 0;
  const Shape &row = graph.type(node.inputs[1 - operand]).shape,
              &matrix = graph.type(node.inputs[operand]).shape,
              &result = graph.type(node.outputs[0]).shape;
  // The row has one of two dimensions.
  if (row.size() < 3 || row.size() != matrix.size() ||
      row[row.size() - (is_left ? 1 : 2)] != Dim(1))
    return std::nullopt;
  const Node* view = graph.producer(node.inputs[operand]);
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
    if (!is_of_choices(row, indices[0], indices[1]) || row.size() != 4 ||
        !is_of_choices(result, indices[0], indices[1]))
      return std::nullopt;
    if (!perm.empty() && perm != Ints{0, 1, 3, 2}) return std::nullopt;
    found.transposed = perm.empty() == is_left;
    return found;
  }
  // [T, k, c, n], or [T, c, n, k], of matrices [n, k] or [k, n].
  if (is_left ? !perm.empty() && perm != Ints{0, 1, 3, 2}
              : perm != Ints{0, 3, 1, 2} && perm != Ints{0, 2, 1, 3})
    return std::nullopt;
  found.transposed = is_left ? perm.empty() : perm[1] == 3;
  found.by_token = true;
  const Dim k = matrices[found.transposed ? 2 : 1],
            all = indices[1] * matrices[found.transposed ? 1 : 2];
  const bool fits =
      is_left ? matrix == Shape{indices[0], all, k} && row == Shape{indices[0], k, Dim(1)}
              : matrix == Shape{indices[0], k, all} && row == Shape{indices[0], Dim(1), k};
  if (!fits) return std::nullopt;
  return found;
}
std::optional<GatheredProduct> find_product(const Graph& graph, const Node& node) {
  auto found = find_product(graph, node, 1);
  return found ? found : find_product(graph, node, 0);
}

/// The product, if the target has grouped matmuls of its type.
std::optional<GatheredProduct> find_product(const Graph& graph, const Node& node,
                                            const TargetTraits& target) {
  const auto found = find_product(graph, node);
  if (!found) return found;
  const DType type = graph.type(node.outputs[0]).dtype;
  const bool takes = graph.type(node.inputs[1 - found->operand]).dtype == type &&
                     target.takes("GroupedMatMul", type, to_string(type), false) != nullptr;
  return takes ? found : std::nullopt;
}

using mixtures::cast;
using mixtures::reshape;

class Grouper {
 public:
  Grouper(const Graph& graph, Context& context) : old_(graph), context_(context) {
    for (const Node& node : graph.nodes())
      if (const auto found = find_product(graph, node, context.target))
        find_choices(found->gather->inputs[1]);
  }

  std::optional<std::vector<ValueId>> visit(GraphBuilder& b, const Node& node,
                                            std::span<const ValueId> inputs) {
    b_ = &b;
    if (const auto found = choices_.find(&node); found != choices_.end())
      return std::vector{route(found->second, inputs[0])};
    if (const auto found = shares_.find(node.outputs[0]); found != shares_.end())
      return std::vector{cast(b, found->second, old_.type(node.outputs[0]).dtype)};
    if (const auto found = find_product(old_, node, context_.target))
      return std::vector{product(*found, node, inputs)};
    if (const ValueId sum = combined(node, inputs); sum.valid()) return std::vector{sum};
    return std::nullopt;
  }

 private:
  /// Indices that a Route can make, if the target has a kernel for it.
  void find_choices(ValueId indices) {
    const Node* node = old_.producer(indices);
    while (node != nullptr && (node->op->name == "Cast" || node->op->name == "Reshape"))
      node = old_.producer(node->inputs[0]);
    if (node == nullptr || choices_.contains(node)) return;
    const auto found = find_top_choices(old_, *node);
    if (!found) return;
    const TensorType& logits = old_.type(node->inputs[0]);
    const auto* row = context_.target.takes("Route", logits.dtype, to_string(logits.dtype), false);
    if (row != nullptr && logits.shape[1].value() <= row->most) choices_.emplace(node, *found);
  }

  ValueId route(const TopChoices& choices, ValueId scores) {
    const Node* softmax = choices.before_softmax ? b_->producer(scores) : nullptr;
    const auto made = b_->add_multi("Route", {softmax != nullptr ? softmax->inputs[0] : scores},
                                    {{"k", choices.chosen},
                                     {"scores", choices.scores},
                                     {"normalise", std::int64_t{choices.normalises}}});
    if (choices.shares.valid()) shares_.emplace(choices.shares, made[1]);
    return cast(*b_, made[0], DType::kInt64);
  }

  /// Indices that count from the end, from the front.
  ValueId from_front(ValueId indices, std::int64_t count) {
    const Node* node = b_->producer(indices);
    while (node != nullptr && (node->op->name == "Cast" || node->op->name == "Reshape"))
      node = b_->producer(node->inputs[0]);
    const bool is_in_front =
        node != nullptr && (node->op->name == "Route" || node->op->name == "ArgSort");
    if (is_in_front && node->op->name == "Route" &&
        b_->type(node->outputs[0]).shape == b_->type(indices).shape)
      return node->outputs[0];
    return is_in_front ? cast(*b_, indices, DType::kInt32)
                       : fusion::from_front(*b_, indices, count);
  }

  ValueId product(const GatheredProduct& found, const Node& node, std::span<const ValueId> inputs) {
    // The builder's Gather has the mapped inputs; a Reshape and a Transpose may stand between.
    const Node* gather = b_->producer(inputs[found.operand]);
    while (gather->op->name != "Gather") gather = b_->producer(gather->inputs[0]);
    const ValueId matrices = gather->inputs[0], indices = gather->inputs[1];
    const Shape weights = b_->type(matrices).shape, chosen = b_->type(indices).shape;
    const std::int64_t groups = weights[0].value();
    decide(context_, *found.gather, node, true,
           fmt::format("a mixture: rows are sorted by which of {} matrices they choose", groups));
    const ir::ExpertRows rows = ir::sort_by_expert(*b_, from_front(indices, groups), groups);
    mixtures_.emplace(rows.rows_of, rows);
    const ValueId y = b_->add(
        "GroupedMatMul",
        {left_rows(found, inputs[1 - found.operand], rows, weights[found.transposed ? 2 : 1]),
         matrices, rows.offsets},
        {{"transposed", std::int64_t{found.transposed}}});
    const ValueId back = b_->add("Gather", {y, rows.rows_of}, {{"axis", std::int64_t{0}}});
    return reshape(*b_, back, old_.type(node.outputs[0]).shape);
  }

  ValueId left_rows(const GatheredProduct& found, ValueId x, const ir::ExpertRows& rows,
                    const Dim& k) {
    if (found.by_token) return ir::take_tokens(*b_, rows, reshape(*b_, x, {rows.tokens, k}));
    const Dim chosen(rows.chosen);
    if (const ValueId own = as_rows(reshape(*b_, x, {rows.tokens, chosen, k}), rows); own.valid())
      return own;
    return ir::take_choices(*b_, rows, reshape(*b_, x, {rows.tokens * chosen, k}));
  }

  /// `value` [tokens, chosen, ..] as rows [tokens * chosen, ..]; invalid if it is not computed from
  /// rows, each from one.
  ValueId as_rows(ValueId value, const ir::ExpertRows& rows) {
    const Dim chosen(rows.chosen);
    const Shape shape = b_->type(value).shape;
    while (b_->producer(value) != nullptr && b_->producer(value)->op->name == "Reshape")
      value = b_->producer(value)->inputs[0];
    const Shape from = b_->type(value).shape;
    const Node* producer = b_->producer(value);
    if (producer == nullptr || !is_of_choices(from, rows.tokens, chosen)) return {};
    const Node node = *producer;
    Shape own(from.begin() + 1, from.end());
    own[0] = rows.tokens * chosen;
    ValueId result;
    if (node.op->name == "Gather" && node.inputs[1] == rows.rows_of)
      result = node.inputs[0];
    else if (node.op->kind == OpKind::kPointwise && node.outputs.size() == 1)
      result = pointwise_rows(node, from, rows);
    else if (node.op->name == "Slice" || node.op->name == "Transpose")
      result = viewed_rows(node, own, rows);
    if (!result.valid()) return {};
    own.assign(shape.begin() + 1, shape.end());
    own[0] = rows.tokens * chosen;
    return reshape(*b_, result, own);
  }

  ValueId pointwise_rows(const Node& node, const Shape& shape, const ir::ExpertRows& rows) {
    std::vector<ValueId> inputs;
    for (const ValueId input : node.inputs) {
      const Shape own = b_->type(input).shape;
      // What all rows share is broadcast over one dimension less, too.
      const bool is_shared = own.size() + 2 <= shape.size();
      inputs.push_back(is_shared                    ? input
                       : own.size() == shape.size() ? as_rows(input, rows)
                                                    : ValueId{});
      if (!inputs.back().valid()) return {};
    }
    return b_->add(node.op->name, std::move(inputs), node.attrs);
  }

  /// A Slice or Transpose of other dimensions than the first two.
  ValueId viewed_rows(const Node& node, const Shape& shape, const ir::ExpertRows& rows) {
    const Shape from = b_->type(node.inputs[0]).shape;
    if (!is_of_choices(from, rows.tokens, Dim(rows.chosen))) return {};
    Attrs attrs = node.attrs;
    if (node.op->name == "Slice") {
      Shape starts = attrs.get_dims("starts");
      Ints steps = attrs.get_ints("steps");
      if (starts[0] != Dim(0) || starts[1] != Dim(0) || steps[0] != 1 || steps[1] != 1) return {};
      starts.erase(starts.begin());
      steps.erase(steps.begin());
      attrs.set("starts", starts);
      attrs.set("steps", steps);
      attrs.set("shape", shape);
    } else {
      Ints perm = attrs.get_ints("perm");
      if (perm[0] != 0 || perm[1] != 1) return {};
      perm.erase(perm.begin());
      for (std::int64_t& d : perm) d -= d > 0 ? 1 : 0;
      attrs.set("perm", perm);
    }
    const ValueId own = as_rows(node.inputs[0], rows);
    return own.valid() ? b_->add(node.op->name, {own}, attrs) : own;
  }

  /// The sum over a token's choices of rows times shares, spelled as a matmul; invalid if it is
  /// none: MatMul(y [T, c, n] transposed, shares [T, c, 1]), or MatMul(shares [T, 1, c], y).
  ValueId combined(const Node& node, std::span<const ValueId> inputs) {
    if (!ir::is_plain_matmul(node)) return {};
    for (const bool is_left : {true, false}) {
      ValueId y = inputs[is_left ? 0 : 1];
      const ValueId shares = inputs[is_left ? 1 : 0];
      if (is_left) {
        const Node* view = b_->producer(y);
        if (view == nullptr || view->op->name != "Transpose" ||
            view->attrs.get_ints("perm") != Ints{0, 2, 1})
          continue;
        y = view->inputs[0];
      }
      const Shape shape = b_->type(y).shape;
      while (b_->producer(y) != nullptr && b_->producer(y)->op->name == "Reshape")
        y = b_->producer(y)->inputs[0];
      const Node* gather = b_->producer(y);
      if (gather == nullptr || gather->op->name != "Gather") continue;
      const ValueId own = gather->inputs[0];
      const auto found = mixtures_.find(gather->inputs[1]);
      if (found == mixtures_.end() || shape.size() != 3 || shape != b_->type(y).shape) continue;
      const Dim &tokens = found->second.tokens, chosen(found->second.chosen);
      if (b_->type(shares).shape !=
          (is_left ? Shape{tokens, chosen, Dim(1)} : Shape{tokens, Dim(1), chosen}))
        continue;
      const TensorType result = old_.type(node.outputs[0]);
      const ValueId factors = cast(*b_, reshape(*b_, shares, {tokens, chosen}), DType::kFloat32);
      const ValueId sum = ir::combine_rows(*b_, found->second, own, factors);
      return reshape(*b_, cast(*b_, sum, result.dtype), result.shape);
    }
    return {};
  }

  const Graph& old_;
  Context& context_;
  GraphBuilder* b_ = nullptr;
  std::map<const Node*, TopChoices> choices_;   // by their ArgSorts
  std::map<ValueId, ValueId> shares_;           // of Routes, by the values that they are
  std::map<ValueId, ir::ExpertRows> mixtures_;  // by rows_of
};

}  // namespace

Graph group_gathered(const Graph& graph, Context& context) {
  Grouper grouper(graph, context);
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
        return grouper.visit(b, node, inputs);
      });
}

}  // namespace sinter::fusion
