// SPDX-License-Identifier: Apache-2.0
#include "fusion/mixtures/dense_experts.h"

#include <algorithm>

#include <fmt/format.h>

#include "fusion/mixtures/nodes.h"
#include "fusion/mixtures/routing.h"
#include "fusion/patterns/producer.h"
#include "fusion/regions/rebuild.h"
#include "ir/affine.h"
#include "ir/reference/evaluate.h"
#include "ir/scale_format.h"

namespace sinter::fusion {
namespace {

// Numbers of index symbols that no tensor's rank reaches.
constexpr int kExpert = 24, kToken = 25, kColumn = 26, kInner = 27, kChoice = 28;

}  // namespace

std::nullopt_t DenseExperts::fail(std::string why) {
  if (why_.empty()) why_ = std::move(why);
  return std::nullopt;
}

void DenseExperts::visit(const Node& node, std::span<const ValueId> inputs) {
  for (std::size_t i = 0; i < inputs.size(); ++i) new_.emplace(node.inputs[i], inputs[i]);
}

bool DenseExperts::reads(const std::vector<Dim>& index, const Dim& symbol) const {
  const std::string name = *symbol.as_symbol();
  return std::ranges::any_of(
      index, [&](const Dim& dim) { return std::ranges::count(dim.symbols(), name) != 0; });
}

void DenseExperts::set_columns(std::int64_t columns) {
  ranges_.insert_or_assign(ir::index_symbol(kColumn), ir::index_range(columns, graph_.ranges()));
}

/// The element behind views.
std::optional<Place> DenseExperts::trace(ValueId value, std::span<const Dim> index,
                                         const std::function<bool(const Node&)>& through) const {
  auto traced = ir::trace_to_source(graph_, value, index, ranges_, through);
  if (!traced) return std::nullopt;
  for (Dim& dim : traced->index)
    if (dim == flat_token_) dim = token_;
  return Place{traced->source, std::move(traced->index)};
}

std::optional<DenseExperts::Shares> DenseExperts::spread_shares(const Place& place) const {
  const Node* node = graph_.producer(place.value);
  if (node == nullptr || place.index != std::vector<Dim>{token_, expert_}) return std::nullopt;
  const auto shares = node->op->name == "Scatter"     ? scattered_shares(*node)
                      : node->op->name == "ReduceSum" ? tested_shares(*node, place)
                                                      : std::nullopt;
  if (!shares) return std::nullopt;
  const Shape& chosen = graph_.type(shares->choices).shape;
  // Those of a token differ.
  const bool fits = chosen.size() == 2 && chosen[1].is_constant() &&
                    graph_.type(shares->values).shape == chosen &&
                    Dim(sorted_experts(graph_, shares->choices).value_or(-1)) ==
                        graph_.type(place.value).shape[1];
  return fits ? shares : std::nullopt;
}

/// Scatter(zeros, shares, token, choices).
std::optional<DenseExperts::Shares> DenseExperts::scattered_shares(const Node& node) const {
  if (node.inputs.size() != 4 || node.attrs.get_string("combine") != "none") return std::nullopt;
  Elements elements(graph_);
  const std::vector<Dim> index = elements.symbols(graph_.type(node.inputs[1]).shape);
  const auto zero = elements.source(node.inputs[0], std::vector<Dim>(2, Dim(0)));
  const Shape& tokens = graph_.type(node.inputs[2]).shape;
  if (!zero || splat_value(graph_, zero->value) != 0 || tokens.size() != 2) return std::nullopt;
  const std::vector<Dim> row{index[0], tokens[1] == Dim(1) ? Dim(0) : index[1]};
  if (elements.number_at(node.inputs[2], row) != index[0]) return std::nullopt;
  return Shares{node.inputs[1], node.inputs[3]};
}

/// The sum over choices of 1 if a choice is the expert, else 0, times its share.
std::optional<DenseExperts::Shares> DenseExperts::tested_shares(const Node& node,
                                                                const Place& place) const {
  const Ints& axes = node.attrs.get_ints("axes");
  const Shape& shape = graph_.type(node.inputs[0]).shape;
  if (axes.size() != 1 || shape.size() != 3) return std::nullopt;
  Ranges ranges = ranges_;
  const Dim choice = Dim::symbol(ir::index_symbol(kChoice));
  const auto axis = static_cast<std::size_t>(axes[0]);
  ranges.insert_or_assign(ir::index_symbol(kChoice), ir::index_range(shape[axis], ranges));
  std::vector<Dim> index = place.index;
  index.insert(index.begin() + static_cast<std::ptrdiff_t>(axis), choice);
  const auto source = ir::trace_to_source(graph_, node.inputs[0], index, ranges);
  const Node* product = source ? producer_of(graph_, source->source, "Mul") : nullptr;
  if (product == nullptr) return std::nullopt;
  const auto at = [&](std::size_t i) {
    const Shape& own = graph_.type(product->inputs[i]).shape;
    std::vector<Dim> part(source->index.end() - std::ssize(own), source->index.end());
    for (std::size_t d = 0; d < own.size(); ++d)
      if (own[d] == Dim(1)) part[d] = Dim(0);
    return part;
  };
  const std::vector<Dim> own{token_, choice};
  for (const std::size_t i : {0, 1}) {
    const auto test = Elements(graph_, ranges).at(product->inputs[i], at(i));
    if (!test || !test->is_test || test->expert != expert_ || test->yes != 1 || test->no != 0 ||
        test->choice->index != own)
      continue;
    const auto share = ir::trace_to_source(
        graph_, product->inputs[1 - i], at(1 - i), ranges, [&](const Node& view) {
          return graph_.type(view.outputs[0]).shape != graph_.type(test->choice->value).shape;
        });
    if (share && share->index == own) return Shares{share->source, test->choice->value};
  }
  return std::nullopt;
}

std::optional<ValueId> DenseExperts::sum(GraphBuilder& b, const Node& node) {
  why_.clear();
  if (node.op->name != "ReduceSum" || node.attrs.get_ints("axes").size() != 1) return std::nullopt;
  const Shape& shape = graph_.type(node.inputs[0]).shape;
  const auto axis = static_cast<std::size_t>(node.attrs.get_ints("axes")[0]);
  const Dim& columns = shape.back();
  if (axis + 1 == shape.size() || !shape[axis].is_constant() || !columns.is_constant() ||
      shape[axis].value() < 2)
    return std::nullopt;
  ranges_ = graph_.ranges();
  const auto symbol = [&](int number, const Dim& extent) {
    ranges_.insert_or_assign(ir::index_symbol(number), ir::index_range(extent, graph_.ranges()));
    return Dim::symbol(ir::index_symbol(number));
  };
  expert_ = symbol(kExpert, shape[axis]);
  column_ = symbol(kColumn, columns);
  // The dimensions of tokens are one in what is summed.
  std::vector<Dim> index;
  Dim tokens(1);
  flat_token_ = Dim(0);
  for (std::size_t d = 0; d < shape.size(); ++d) {
    Dim own = d == axis ? expert_ : d + 1 == shape.size() ? column_ : Dim(0);
    if (d != axis && d + 1 < shape.size() && shape[d] != Dim(1)) {
      own = symbol(static_cast<int>(d), shape[d]);
      tokens = tokens * shape[d];
      flat_token_ = flat_token_ * shape[d] + own;
    }
    index.push_back(std::move(own));
  }
  token_ = symbol(kToken, tokens);
  const auto source = trace(node.inputs[0], index);
  const Node* scaled = source ? producer_of(graph_, source->value, "Mul") : nullptr;
  if (scaled == nullptr) return std::nullopt;
  const std::vector<Dim>& at = source->index;
  const auto operand = [&](std::size_t i) {
    const Shape& own = graph_.type(scaled->inputs[i]).shape;
    std::vector<Dim> part(at.end() - std::ssize(own), at.end());
    for (std::size_t d = 0; d < own.size(); ++d)
      if (own[d] == Dim(1)) part[d] = Dim(0);
    return part;
  };
  for (const std::size_t i : {0, 1}) {
    const auto place = trace(scaled->inputs[i], operand(i));
    const auto shares = place ? spread_shares(*place) : std::nullopt;
    if (!shares || !new_.contains(shares->values)) continue;
    const DType type = graph_.type(node.inputs[0]).dtype;
    const std::int64_t experts = shape[axis].value();
    ValueId choices = new_.at(shares->choices), factors = new_.at(shares->values);
    const auto routing = find_routing(graph_, shares->choices, shares->values);
    if (routing && new_.contains(routing->logits) &&
        (!routing->bias.valid() || new_.contains(routing->bias))) {
      const ValueId bias = routing->bias.valid() ? new_.at(routing->bias) : ValueId();
      const auto routed = add_route(b, *routing, new_.at(routing->logits), bias);
      choices = routed[0];
      factors = routed[1];
    }
    rows_ = ir::sort_by_expert(b, mixtures::cast(b, choices, DType::kInt32), experts);
    const auto y = rows(b, scaled->inputs[1 - i], operand(1 - i), columns.value());
    if (!y || b.type(*y).shape != Shape{rows_.tokens * Dim(rows_.chosen), columns})
      return fail("an expert is not computed of its token alone");
    const ValueId result =
        ir::combine_rows(b, rows_, *y, mixtures::cast(b, factors, DType::kFloat32));
    return mixtures::reshape(b, mixtures::cast(b, result, type),
                             graph_.type(node.outputs[0]).shape);
  }
  return std::nullopt;
}

std::optional<ValueId> DenseExperts::rows(GraphBuilder& b, ValueId value, std::vector<Dim> index,
                                          std::int64_t columns) {
  set_columns(columns);
  // Up to the rows of tokens that all experts read.
  const Shape tokens{rows_.tokens, Dim(columns)};
  const auto is_above_tokens = [&](const Node& view) {
    Shape shape = graph_.type(view.outputs[0]).shape;
    std::erase(shape, Dim(1));
    return shape != tokens;
  };
  if (auto traced = trace(value, index, is_above_tokens)) {
    value = traced->value;
    index = std::move(traced->index);
  }
  const Node* node = graph_.producer(value);
  if (node == nullptr || !reads(index, expert_) || graph_.is_constant(value))
    return stored_rows(b, {value, std::move(index)}, columns);
  // Some columns of wider rows.
  const Shape& shape = graph_.type(value).shape;
  const std::string name = *column_.as_symbol();
  for (std::size_t d = 0; d < index.size(); ++d) {
    if (node->op->name == "MatMul" || std::ranges::count(index[d].symbols(), name) == 0) continue;
    const auto linear = ir::linear_form(index[d], std::span(&name, 1));
    if (!linear || !linear->offset.is_constant() || !linear->strides[0].is_constant() ||
        !shape[d].is_constant())
      return fail("'" + describe(*node) + "' has its columns in another order");
    const std::int64_t first = linear->offset.value(), step = linear->strides[0].value();
    if (first == 0 && step == 1 && shape[d] == Dim(columns)) continue;
    std::vector<Dim> all = index;
    all[d] = column_;
    const auto wide = rows(b, value, std::move(all), shape[d].value());
    set_columns(columns);
    if (!wide || b.type(*wide).shape[1] == Dim(1)) return wide;
    return b.add("Slice", {*wide},
                 {{"starts", Shape{Dim(0), Dim(first)}},
                  {"steps", Ints{1, step}},
                  {"shape", Shape{b.type(*wide).shape[0], Dim(columns)}}});
  }
  const Place place{value, std::move(index)};
  if (node->op->name == "MatMul") return product(b, *node, place, columns);
  if (node->op->kind == OpKind::kPointwise) return pointwise(b, *node, place, columns);
  return fail("'" + describe(*node) + "' is no operator on the elements of one token");
}

/// Of constants of each expert, and of what is the same for all experts.
std::optional<ValueId> DenseExperts::stored_rows(GraphBuilder& b, const Place& place,
                                                 std::int64_t columns) {
  if (!new_.contains(place.value)) return fail("a value is not known yet");
  const Shape& shape = graph_.type(place.value).shape;
  Shape dims;
  std::vector<Dim> at;
  for (std::size_t d = 0; d < shape.size(); ++d)
    if (shape[d] != Dim(1)) {
      dims.push_back(shape[d]);
      at.push_back(place.index[d]);
    }
  const ValueId value = new_.at(place.value);
  const Dim width = !at.empty() && at.back() == column_ ? Dim(columns) : Dim(1);
  if (at.empty()) return mixtures::reshape(b, value, {Dim(1), Dim(1)});
  const auto is = [&](const Dim& first, const Dim& extent) {
    const bool is_row =
        width == Dim(1) ? at == std::vector<Dim>{first} : at == std::vector<Dim>{first, column_};
    return is_row && dims[0] == extent && (width == Dim(1) || dims[1] == width);
  };
  if (is(expert_, Dim(rows_.experts)) && graph_.is_constant(place.value))
    return ir::take_experts(b, rows_, mixtures::reshape(b, value, {Dim(rows_.experts), width}));
  if (is(token_, rows_.tokens))
    return ir::take_tokens(b, rows_, mixtures::reshape(b, value, {rows_.tokens, width}));
  if (at == std::vector<Dim>{column_} && dims[0] == width)
    return mixtures::reshape(b, value, {Dim(1), width});
  return fail("a value is neither of an expert nor of a token");
}

std::optional<ValueId> DenseExperts::pointwise(GraphBuilder& b, const Node& node,
                                               const Place& place, std::int64_t columns) {
  std::vector<ValueId> operands;
  for (const ValueId input : node.inputs) {
    const Shape& own = graph_.type(input).shape;
    std::vector<Dim> part(place.index.end() - std::ssize(own), place.index.end());
    for (std::size_t d = 0; d < own.size(); ++d)
      if (own[d] == Dim(1)) part[d] = Dim(0);
    const auto made = rows(b, input, std::move(part), columns);
    if (!made) return std::nullopt;
    operands.push_back(*made);
  }
  const ir::GraphBuilder::OriginScope scope(b, node.origins);
  return b.add(node.op->name, std::move(operands), node.attrs);
}

std::optional<ValueId> DenseExperts::product(GraphBuilder& b, const Node& node, const Place& place,
                                             std::int64_t columns) {
  const Shape &x = graph_.type(node.inputs[0]).shape, &w = graph_.type(node.inputs[1]).shape;
  const DType type = graph_.type(node.outputs[0]).dtype;
  const ir::OperandFormats* const row =
      target_.takes("GroupedMatMul", type, to_string(type), false);
  if (!ir::is_plain_matmul(node) || row == nullptr || rows_.experts > row->most ||
      graph_.type(node.inputs[0]).dtype != type || !x.back().is_constant())
    return fail("this target has no grouped matmul like '" + describe(node) + "'");
  const std::int64_t k = x.back().value();
  const auto batch = [&](const Shape& own, const Dim& left, const Dim& right) {
    std::vector<Dim> part;
    const auto missing = place.index.size() - own.size();
    for (std::size_t d = 0; d + 2 < own.size(); ++d)
      part.push_back(own[d] == Dim(1) ? Dim(0) : place.index[d + missing]);
    part.push_back(left);
    part.push_back(right);
    return part;
  };
  // Matrices of the experts: a constant [experts, k, columns], or [experts, columns, k].
  ranges_.insert_or_assign(ir::index_symbol(kInner), ir::index_range(k, graph_.ranges()));
  inner_ = Dim::symbol(ir::index_symbol(kInner));
  const auto weights = trace(node.inputs[1], batch(w, inner_, place.index.back()));
  if (!weights || !graph_.is_constant(weights->value) || !new_.contains(weights->value))
    return fail("weights of '" + describe(node) + "' are not constant");
  const Shape& all = graph_.type(weights->value).shape;
  const bool is_plain = weights->index == std::vector<Dim>{expert_, inner_, column_} &&
                        all == Shape{Dim(rows_.experts), Dim(k), Dim(columns)};
  const bool is_transposed = weights->index == std::vector<Dim>{expert_, column_, inner_} &&
                             all == Shape{Dim(rows_.experts), Dim(columns), Dim(k)};
  // All experts' columns in one matrix.
  const bool is_joined =
      weights->index == std::vector<Dim>{inner_, expert_ * Dim(columns) + column_} &&
      all == Shape{Dim(k), Dim(rows_.experts * columns)};
  if (!is_plain && !is_transposed && !is_joined)
    return fail("weights of '" + describe(node) + "' are no matrix for each expert");
  ValueId matrices = new_.at(weights->value);
  if (is_joined) {
    const Tensor parts =
        graph_.value(weights->value).constant->reshaped({k, rows_.experts, columns});
    matrices = b.constant(
        ir::evaluate_op(ir::get_op("Transpose"), {{"perm", Ints{1, 0, 2}}}, std::span(&parts, 1))
            .at(0));
  }
  const auto left =
      rows(b, node.inputs[0], batch(x, place.index[place.index.size() - 2], column_), k);
  set_columns(columns);
  if (!left || b.type(*left).shape != Shape{rows_.tokens * Dim(rows_.chosen), Dim(k)})
    return fail("rows of '" + describe(node) + "' are not those of tokens");
  const ir::GraphBuilder::OriginScope scope(b, node.origins);
  return b.add("GroupedMatMul", {*left, matrices, rows_.offsets},
               {{"transposed", std::int64_t{is_transposed}}});
}

Graph without_idle_experts(const Graph& graph, Context& context, Explains explains) {
  const auto chooses = [](const Node& node) {
    return node.op->name == "ArgSort" || node.op->name == "Route";
  };
  if (std::ranges::none_of(graph.nodes(), chooses)) return graph;
  DenseExperts dense(graph, context.target);
  return ir::rewrite(graph,
                     [&](GraphBuilder& b, const Graph&, const Node& node,
                         std::span<const ValueId> inputs) -> std::optional<std::vector<ValueId>> {
                       dense.visit(node, inputs);
                       const auto sum = dense.sum(b, node);
                       if (!sum && (dense.why().empty() || explains == Explains::kFound))
                         return std::nullopt;
                       const Node& last = *graph.producer(node.inputs[0]);
                       decide(context, last, node, sum.has_value(),
                              sum ? fmt::format("a mixture of {} experts, {} for each token: the "
                                                "others are not computed",
                                                dense.rows().experts, dense.rows().chosen)
                                  : "no mixture of experts: " + dense.why());
                       context.decisions.back().sought = "GroupedMatMul";
                       return sum ? std::optional(std::vector{*sum}) : std::nullopt;
                     });
}

}  // namespace sinter::fusion
