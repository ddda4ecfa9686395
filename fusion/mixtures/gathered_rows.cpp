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

Shape without_ones(Shape shape) {
  std::erase(shape, Dim(1));
  return shape;
}

/// Indices that count from the end, from the front; i32.
ValueId from_front(GraphBuilder& b, ValueId indices, std::int64_t count) {
  indices = mixtures::cast(b, indices, DType::kInt32);
  const auto number = [&](std::int64_t value) {
    return b.scalar(DType::kInt32, static_cast<double>(value));
  };
  return b.add("Where", {b.add("Less", {indices, number(0)}),
                         b.add("Add", {indices, number(count)}), indices});
}

}  // namespace

void GatheredRows::visit(const Node& node, std::span<const ValueId> inputs) {
  for (std::size_t i = 0; i < inputs.size(); ++i) new_.emplace(node.inputs[i], inputs[i]);
}

// ---- Shapes

/// The choices [tokens, c] behind indices [S], which are the same in order; else the indices.
ValueId GatheredRows::choices_of(ValueId indices) const {
  ValueId choices = indices;
  if (graph_.type(indices).shape.size() != 1) return choices;
  for (const Node* view = producer_of(graph_, indices, "Reshape"); view != nullptr;
       view = producer_of(graph_, view->inputs[0], "Reshape")) {
    const Shape& own = graph_.type(view->inputs[0]).shape;
    if (own.size() == 2 && own[1].is_constant()) choices = view->inputs[0];
  }
  return choices;
}

/// How many dimensions of rows count them: 1, or 2 for tokens and their choices; 0: others do.
std::size_t GatheredRows::lead(const Shape& shape, ValueId choices) const {
  const ir::ExpertRows& rows = rows_.at(choices);
  if (!shape.empty() && shape[0] == rows.tokens * Dim(rows.chosen)) return 1;
  return shape.size() > 1 && shape[0] == rows.tokens && shape[1] == Dim(rows.chosen) ? 2 : 0;
}

/// The shape of the same rows, sorted; nothing if these are no rows.
std::optional<Shape> GatheredRows::row_shape(const Shape& shape, ValueId choices) const {
  const std::size_t counted = lead(shape, choices);
  if (counted == 0) return std::nullopt;
  const ir::ExpertRows& rows = rows_.at(choices);
  Shape result{rows.tokens * Dim(rows.chosen)};
  result.insert(result.end(), shape.begin() + static_cast<std::ptrdiff_t>(counted), shape.end());
  return result;
}

// ---- Matmuls

/// MatMul([.., 1, k], [.., k, n]) where the right operand is Gather(matrices, choices [..]), or the
/// left one has rows of tokens, [T, 1, 1, k]. Or MatMul([T, 1, k], [T, k, c * n]), the right
/// operand being the Gather with its dimensions in this order. Or both operands transposed and
/// exchanged.
std::optional<GatheredRows::Product> GatheredRows::find_product(const Node& node,
                                                                std::size_t operand) const {
  Product found;
  found.operand = operand;
  const bool is_left = operand == 0;
  const Shape &row = graph_.type(node.inputs[1 - operand]).shape,
              &matrix = graph_.type(node.inputs[operand]).shape;
  // The row has one of two dimensions.
  if (row.size() < 3 || row.size() != matrix.size() ||
      row[row.size() - (is_left ? 1 : 2)] != Dim(1))
    return std::nullopt;
  const Node* view = graph_.producer(node.inputs[operand]);
  const bool merges = view != nullptr && view->op->name == "Reshape";
  if (merges) view = graph_.producer(view->inputs[0]);
  const Node* gather = view;
  Ints perm;
  if (view != nullptr && view->op->name == "Transpose") {
    perm = view->attrs.get_ints("perm");
    gather = graph_.producer(view->inputs[0]);
  }
  if (gather == nullptr || gather->op->name != "Gather" || gather->attrs.get_int("axis") != 0)
    return std::nullopt;
  const Shape& matrices = graph_.type(gather->inputs[0]).shape;
  const Shape& indices = graph_.type(gather->inputs[1]).shape;
  if (matrices.size() != 3 || indices.empty() || indices.size() > 2 || !matrices[0].is_constant() ||
      (indices.size() == 2 && !indices[1].is_constant()))
    return std::nullopt;
  found.gather = gather;
  if (!merges) {
    if (row.size() != indices.size() + 2) return std::nullopt;
    const Shape rows(row.begin(), row.end() - 2);
    found.by_token = rows != indices;
    if (found.by_token && rows != Shape{indices[0], Dim(1)}) return std::nullopt;
    const Ints swapped = indices.size() == 1 ? Ints{0, 2, 1} : Ints{0, 1, 3, 2};
    if (!perm.empty() && perm != swapped) return std::nullopt;
    found.transposed = perm.empty() == is_left;
    return found;
  }
  // [T, k, c, n], or [T, c, n, k], of matrices [n, k] or [k, n].
  if (indices.size() != 2) return std::nullopt;
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
  return fits ? std::optional(found) : std::nullopt;
}

std::optional<GatheredRows::Product> GatheredRows::find_product(const Node& node) const {
  if (!ir::is_plain_matmul(node)) return std::nullopt;
  for (const std::size_t operand : {1, 0}) {
    const DType type = graph_.type(node.inputs[1 - operand]).dtype;
    if (auto found = find_product(node, operand);
        found && type == graph_.type(node.outputs[0]).dtype)
      return found;
  }
  return std::nullopt;
}

const Node* GatheredRows::find(const Node& node) const {
  const auto found = find_product(node);
  return found ? found->gather : nullptr;
}

const ir::ExpertRows& GatheredRows::rows_of(GraphBuilder& b, ValueId choices,
                                            std::int64_t experts) {
  if (const auto known = rows_.find(choices); known != rows_.end()) return known->second;
  Shape shape = graph_.type(choices).shape;
  if (shape.size() == 1) shape.emplace_back(1);
  const auto sorted = sorted_experts(graph_, choices);
  const ValueId own = sorted && *sorted <= experts
                          ? mixtures::cast(b, new_.at(choices), DType::kInt32)
                          : from_front(b, new_.at(choices), experts);
  return rows_.emplace(choices, ir::sort_by_expert(b, mixtures::reshape(b, own, shape), experts))
      .first->second;
}

/// Rows [S, k] of the operand, sorted.
ValueId GatheredRows::left_rows(GraphBuilder& b, const Product& found, ValueId left, const Dim& k) {
  const ValueId choices = choices_of(found.gather->inputs[1]);
  const ir::ExpertRows& rows = rows_.at(choices);
  const Shape flat{rows.tokens * Dim(rows.chosen), k}, tokens{rows.tokens, k};
  if (found.by_token) return ir::take_tokens(b, rows, mixtures::reshape(b, new_.at(left), tokens));
  if (const auto known = sorted(b, left, choices)) return mixtures::reshape(b, *known, flat);
  // Tokens that are repeated for each of their choices.
  const Shape& shape = graph_.type(left).shape;
  Ranges ranges = graph_.ranges();
  const std::vector<Dim> index = ir::index_symbols(shape, ranges);
  const Dim &column = index[shape.size() - (found.operand == 0 ? 2 : 1)],
            token = shape.size() == 3 ? ir::floor_div(index[0], rows.chosen, ranges) : index[0];
  const auto source = ir::trace_to_source(graph_, left, index, ranges, [&](const Node& view) {
    return without_ones(graph_.type(view.outputs[0]).shape) != tokens;
  });
  if (source && new_.contains(source->source)) {
    const Shape& own = graph_.type(source->source).shape;
    std::vector<Dim> at;
    for (std::size_t d = 0; d < own.size(); ++d)
      if (own[d] != Dim(1)) at.push_back(source->index[d]);
    if (without_ones(own) == tokens && at == std::vector<Dim>{token, column})
      return ir::take_tokens(b, rows, mixtures::reshape(b, new_.at(source->source), tokens));
  }
  return ir::take_choices(b, rows, mixtures::reshape(b, new_.at(left), flat));
}

ValueId GatheredRows::product(GraphBuilder& b, const Node& node) {
  const Product found = *find_product(node);
  const ValueId matrices = found.gather->inputs[0];
  const Shape &weights = graph_.type(matrices).shape, &shape = graph_.type(node.outputs[0]).shape;
  const ValueId choices = choices_of(found.gather->inputs[1]);
  const ir::ExpertRows rows = rows_of(b, choices, weights[0].value());
  const ValueId x =
      left_rows(b, found, node.inputs[1 - found.operand], weights[found.transposed ? 2 : 1]);
  const ValueId y = b.add("GroupedMatMul", {x, new_.at(matrices), rows.offsets},
                          {{"transposed", std::int64_t{found.transposed}}});
  const auto own = row_shape(shape, choices);
  sorted_.insert_or_assign(node.outputs[0],
                           Sorted{choices, own ? mixtures::reshape(b, y, *own) : y});
  return mixtures::reshape(b, b.add("Gather", {y, rows.rows_of}, {{"axis", std::int64_t{0}}}),
                           shape);
}

/// MatMul(rows [T, c, n] transposed, shares [T, c, 1]), or MatMul(shares [T, 1, c], rows).
std::optional<ValueId> GatheredRows::sum(GraphBuilder& b, const Node& node) {
  if (!ir::is_plain_matmul(node)) return std::nullopt;
  for (const bool is_left : {true, false}) {
    ValueId y = node.inputs[is_left ? 0 : 1];
    const ValueId shares = node.inputs[is_left ? 1 : 0];
    if (is_left) {
      const Node* view = producer_of(graph_, y, "Transpose");
      if (view == nullptr || view->attrs.get_ints("perm") != Ints{0, 2, 1}) continue;
      y = view->inputs[0];
    }
    const auto known = sorted_.find(y);
    const Shape& shape = graph_.type(y).shape;
    if (known == sorted_.end() || shape.size() != 3) continue;
    const ir::ExpertRows& rows = rows_.at(known->second.choices);
    const Dim &tokens = rows.tokens, chosen(rows.chosen);
    if (lead(shape, known->second.choices) != 2 ||
        graph_.type(shares).shape !=
            (is_left ? Shape{tokens, chosen, Dim(1)} : Shape{tokens, Dim(1), chosen}))
      continue;
    const TensorType& result = graph_.type(node.outputs[0]);
    const ValueId factors =
        mixtures::cast(b, mixtures::reshape(b, new_.at(shares), {tokens, chosen}), DType::kFloat32);
    const ValueId total = ir::combine_rows(b, rows, known->second.value, factors);
    return mixtures::reshape(b, mixtures::cast(b, total, result.dtype), result.shape);
  }
  return std::nullopt;
}

// ---- What is between matmuls

std::optional<ValueId> GatheredRows::sorted(GraphBuilder& b, ValueId value, ValueId choices) {
  if (const auto known = sorted_.find(value); known != sorted_.end())
    return known->second.choices == choices ? std::optional(known->second.value) : std::nullopt;
  // Biases of the experts.
  const Node* gather = producer_of(graph_, value, "Gather");
  if (gather == nullptr || choices_of(gather->inputs[1]) != choices ||
      gather->attrs.get_int("axis") != 0 || graph_.type(gather->inputs[0]).shape.size() != 2)
    return std::nullopt;
  return ir::take_experts(b, rows_.at(choices), new_.at(gather->inputs[0]));
}

/// A pointwise operand of rows of shape `result`, which broadcasts.
std::optional<ValueId> GatheredRows::operand_rows(GraphBuilder& b, ValueId value, ValueId choices,
                                                  const Shape& result) {
  const Shape& shape = graph_.type(value).shape;
  const std::size_t counted = lead(result, choices);
  if (shape.size() + counted <= result.size()) return new_.at(value);  // all rows share it
  if (shape.size() != result.size()) return std::nullopt;
  if (std::all_of(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(counted),
                  [](const Dim& dim) { return dim == Dim(1); })) {
    const Shape own(shape.begin() + static_cast<std::ptrdiff_t>(counted) - 1, shape.end());
    return mixtures::reshape(b, new_.at(value), own);
  }
  return sorted(b, value, choices);
}

/// The attributes for sorted rows, if each row of the result is made of that of the operand.
std::optional<Attrs> GatheredRows::row_attrs(const Node& node, ValueId choices) const {
  const std::string& op = node.op->name;
  const Shape& shape = graph_.type(node.outputs[0]).shape;
  const auto own = row_shape(shape, choices);
  Attrs attrs = node.attrs;
  const std::size_t counted = lead(shape, choices);
  if (lead(graph_.type(node.inputs[0]).shape, choices) != counted) return std::nullopt;
  if (op == "Slice") {
    Shape starts = attrs.get_dims("starts");
    Ints steps = attrs.get_ints("steps");
    for (std::size_t d = 0; d < counted; ++d)
      if (starts[d] != Dim(0) || steps[d] != 1) return std::nullopt;
    starts.erase(starts.begin(), starts.begin() + static_cast<std::ptrdiff_t>(counted) - 1);
    steps.erase(steps.begin(), steps.begin() + static_cast<std::ptrdiff_t>(counted) - 1);
    attrs.set("starts", std::move(starts));
    attrs.set("steps", std::move(steps));
    attrs.set("shape", *own);
    return attrs;
  }
  if (op != "Transpose") return std::nullopt;
  Ints perm;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const std::int64_t from = attrs.get_ints("perm")[d];
    if (d < counted && from != static_cast<std::int64_t>(d)) return std::nullopt;
    if (d + 1 >= counted) perm.push_back(from - static_cast<std::int64_t>(counted) + 1);
  }
  attrs.set("perm", std::move(perm));
  return attrs;
}

void GatheredRows::sort(GraphBuilder& b, const Node& node) {
  const auto first =
      std::ranges::find_if(node.inputs, [&](ValueId input) { return sorted_.contains(input); });
  if (first == node.inputs.end() || node.outputs.size() != 1 || node.body) return;
  const ValueId choices = sorted_.at(*first).choices;
  const Shape& shape = graph_.type(node.outputs[0]).shape;
  if (lead(shape, choices) == 0) return;
  const ir::GraphBuilder::OriginScope scope(b, node.origins);
  if (node.op->name == "Reshape") {
    const ValueId rows = mixtures::reshape(b, sorted_.at(*first).value, *row_shape(shape, choices));
    sorted_.insert_or_assign(node.outputs[0], Sorted{choices, rows});
    return;
  }
  const bool is_pointwise = node.op->kind == OpKind::kPointwise;
  const auto attrs = is_pointwise ? std::optional(node.attrs) : row_attrs(node, choices);
  if (!attrs) return;
  std::vector<ValueId> operands;
  for (const ValueId input : node.inputs) {
    const auto own =
        is_pointwise ? operand_rows(b, input, choices, shape) : sorted(b, input, choices);
    if (!own) return;
    operands.push_back(*own);
  }
  sorted_.insert_or_assign(node.outputs[0],
                           Sorted{choices, b.add(node.op->name, std::move(operands), *attrs)});
}

}  // namespace sinter::fusion
