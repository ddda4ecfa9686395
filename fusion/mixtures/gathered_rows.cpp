// SPDX-License-Identifier: Apache-2.0
#include "fusion/mixtures/gathered_rows.h"

#include <algorithm>

#include "fusion/mixtures/elements.h"
#include "fusion/mixtures/nodes.h"
#include "fusion/patterns/producer.h"
#include "ir/affine.h"
#include "ir/scale_format.h"

namespace sinter::fusion {
namespace {

/// The Gather of whole matrices behind `value` [S, .., ..], through a transpose of each.
struct Matrices {
  const Node* gather = nullptr;
  bool swapped = false;
};
Matrices matrices_of(const Graph& graph, ValueId value) {
  Matrices found;
  const Node* node = graph.producer(value);
  if (node != nullptr && node->op->name == "Transpose") {
    if (node->attrs.get_ints("perm") != Ints{0, 2, 1}) return {};
    found.swapped = true;
    node = graph.producer(node->inputs[0]);
  }
  if (node == nullptr || node->op->name != "Gather" || node->attrs.get_int("axis") != 0) return {};
  const Shape& all = graph.type(node->inputs[0]).shape;
  if (all.size() != 3 || !all[0].is_constant() || graph.type(node->inputs[1]).shape.size() != 1)
    return {};
  found.gather = node;
  return found;
}

Shape without_ones(Shape shape) {
  std::erase(shape, Dim(1));
  return shape;
}

struct FlatProduct {
  Matrices matrices;
  std::size_t left = 0;     // the operand with the rows
  bool transposed = false;  // matrices are [n, k]
};
std::optional<FlatProduct> find_flat(const Graph& graph, const Node& node) {
  if (!ir::is_plain_matmul(node)) return std::nullopt;
  for (const std::size_t left : {0, 1}) {
    const Shape& rows = graph.type(node.inputs[left]).shape;
    const Shape& other = graph.type(node.inputs[1 - left]).shape;
    if (rows.size() != 3 || other.size() != 3 || rows[0] != other[0] || rows[1 + left] != Dim(1))
      continue;
    const Matrices matrices = matrices_of(graph, node.inputs[1 - left]);
    // On the right, [k, n] times a row; on the left, [n, k] times a column.
    if (matrices.gather != nullptr)
      return FlatProduct{matrices, left, matrices.swapped == (left == 0)};
  }
  return std::nullopt;
}

}  // namespace

ValueId from_front(GraphBuilder& b, ValueId indices, std::int64_t count) {
  indices = mixtures::cast(b, indices, DType::kInt32);
  const auto number = [&](std::int64_t value) {
    return b.scalar(DType::kInt32, static_cast<double>(value));
  };
  return b.add("Where", {b.add("Less", {indices, number(0)}),
                         b.add("Add", {indices, number(count)}), indices});
}

void GatheredRows::visit(const Node& node, std::span<const ValueId> inputs) {
  for (std::size_t i = 0; i < inputs.size(); ++i) new_.emplace(node.inputs[i], inputs[i]);
}

const Node* GatheredRows::find(const Node& node) const {
  const auto found = find_flat(graph_, node);
  return found && graph_.type(node.inputs[0]).dtype == graph_.type(node.outputs[0]).dtype
             ? found->matrices.gather
             : nullptr;
}

const ir::ExpertRows& GatheredRows::rows_of(GraphBuilder& b, ValueId indices,
                                            std::int64_t experts) {
  if (const auto known = rows_.find(indices); known != rows_.end()) return known->second;
  // Flat choices of tokens, or of as many tokens.
  const Node* flat = producer_of(graph_, indices, "Reshape");
  const bool is_flat = flat != nullptr && graph_.type(flat->inputs[0]).shape.size() == 2 &&
                       graph_.type(flat->inputs[0]).shape[1].is_constant();
  const ValueId choices = is_flat ? flat->inputs[0] : indices;
  const Dim count = graph_.type(indices).shape[0];
  const Shape shape = is_flat ? graph_.type(choices).shape : Shape{count, Dim(1)};
  ValueId own = new_.at(choices);
  const auto sorted = sorted_experts(graph_, choices);
  own = sorted && *sorted <= experts ? mixtures::cast(b, own, DType::kInt32)
                                     : from_front(b, own, experts);
  return rows_.emplace(indices, ir::sort_by_expert(b, mixtures::reshape(b, own, shape), experts))
      .first->second;
}

/// Rows [S, k] of the operand, sorted.
ValueId GatheredRows::left_rows(GraphBuilder& b, ValueId left, ValueId indices,
                                const ir::ExpertRows& rows) {
  const Shape& shape = graph_.type(left).shape;
  const std::size_t column = shape[1] == Dim(1) ? 2 : 1;
  const Shape flat{shape[0], shape[column]};
  if (const auto known = sorted(b, left, indices)) return mixtures::reshape(b, *known, flat);
  // Tokens that are repeated for each of their choices.
  Ranges ranges = graph_.ranges();
  const std::vector<Dim> index = ir::index_symbols(shape, ranges);
  const Shape tokens{rows.tokens, flat[1]};
  const auto source = ir::trace_to_source(graph_, left, index, ranges, [&](const Node& view) {
    return without_ones(graph_.type(view.outputs[0]).shape) != tokens;
  });
  if (source && new_.contains(source->source)) {
    const Shape& own = graph_.type(source->source).shape;
    std::vector<Dim> at;
    for (std::size_t d = 0; d < own.size(); ++d)
      if (own[d] != Dim(1)) at.push_back(source->index[d]);
    const Dim token = ir::floor_div(index[0], rows.chosen, ranges);
    if (without_ones(own) == tokens && at == std::vector<Dim>{token, index[column]})
      return ir::take_tokens(b, rows, mixtures::reshape(b, new_.at(source->source), tokens));
  }
  return ir::take_choices(b, rows, mixtures::reshape(b, new_.at(left), flat));
}

ValueId GatheredRows::product(GraphBuilder& b, const Node& node) {
  const FlatProduct found = *find_flat(graph_, node);
  const Node& gather = *found.matrices.gather;
  const ValueId indices = gather.inputs[1];
  const Shape& shape = graph_.type(node.outputs[0]).shape;
  const ir::ExpertRows rows = rows_of(b, indices, graph_.type(gather.inputs[0]).shape[0].value());
  const ValueId x = left_rows(b, node.inputs[found.left], indices, rows);
  const ValueId y = b.add("GroupedMatMul", {x, new_.at(gather.inputs[0]), rows.offsets},
                          {{"transposed", std::int64_t{found.transposed}}});
  sorted_.insert_or_assign(node.outputs[0], Sorted{indices, mixtures::reshape(b, y, shape)});
  return mixtures::reshape(b, b.add("Gather", {y, rows.rows_of}, {{"axis", std::int64_t{0}}}),
                           shape);
}

std::optional<ValueId> GatheredRows::sorted(GraphBuilder& b, ValueId value, ValueId indices) {
  if (const auto known = sorted_.find(value); known != sorted_.end())
    return known->second.indices == indices ? std::optional(known->second.value) : std::nullopt;
  // Biases of the experts.
  const Node* gather = producer_of(graph_, value, "Gather");
  if (gather == nullptr || gather->inputs[1] != indices || gather->attrs.get_int("axis") != 0 ||
      graph_.type(gather->inputs[0]).shape.size() != 2)
    return std::nullopt;
  return ir::take_experts(b, rows_.at(indices), new_.at(gather->inputs[0]));
}

/// Whether each row of the result, along the first dimension, is made of that of its operands.
bool GatheredRows::keeps_rows(const Node& node, const Dim& count) const {
  const std::string& op = node.op->name;
  const Shape& shape = graph_.type(node.outputs[0]).shape;
  if (node.outputs.size() != 1 || node.body || shape.empty() || shape[0] != count) return false;
  if (node.op->kind == OpKind::kPointwise) return true;
  const Shape& from = graph_.type(node.inputs[0]).shape;
  if (from.empty() || from[0] != count) return false;
  if (op == "Reshape") return true;
  if (op == "Slice") return node.attrs.get_dims("starts")[0] == Dim(0);
  if (op == "Transpose") return node.attrs.get_ints("perm")[0] == 0;
  return false;
}

void GatheredRows::sort(GraphBuilder& b, const Node& node) {
  const auto first =
      std::ranges::find_if(node.inputs, [&](ValueId input) { return sorted_.contains(input); });
  if (first == node.inputs.end()) return;
  const ValueId indices = sorted_.at(*first).indices;
  const Dim& count = graph_.type(indices).shape[0];
  if (!keeps_rows(node, count)) return;
  const std::size_t rank = graph_.type(node.outputs[0]).shape.size();
  std::vector<ValueId> operands;
  for (const ValueId input : node.inputs) {
    const Shape& shape = graph_.type(input).shape;
    const bool has_rows = shape.size() == rank && shape[0] != Dim(1);
    if (const auto own = has_rows || node.op->kind != OpKind::kPointwise
                             ? sorted(b, input, indices)
                             : std::optional(new_.at(input))) {
      operands.push_back(*own);
      continue;
    }
    return;
  }
  const ir::GraphBuilder::OriginScope scope(b, node.origins);
  sorted_.insert_or_assign(node.outputs[0],
                           Sorted{indices, b.add(node.op->name, std::move(operands), node.attrs)});
}

}  // namespace sinter::fusion
