// SPDX-License-Identifier: Apache-2.0
#include "fusion/mixtures/elements.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "ir/affine.h"
#include "ir/reference/evaluate.h"

namespace sinter::fusion {
namespace {

constexpr int kMostDepth = 64;
constexpr int kFirstCoordinate = 24;  // numbers of index symbols that no tensor's rank reaches

Known number(Dim dim) { return {.number = std::move(dim)}; }

/// The part of `index` that a broadcast operand of `shape` reads.
std::vector<Dim> operand_index(const Shape& shape, std::span<const Dim> index) {
  std::vector<Dim> at(index.end() - std::ssize(shape), index.end());
  for (std::size_t d = 0; d < shape.size(); ++d)
    if (shape[d] == Dim(1)) at[d] = Dim(0);
  return at;
}

std::optional<double> as_double(const Dim& dim) {
  return dim.is_constant() ? std::optional(static_cast<double>(dim.value())) : std::nullopt;
}

}  // namespace

std::vector<Dim> Elements::bind(ValueId value, const Shape& shape) {
  std::vector<Dim> coordinates;
  Dim position(0);
  for (std::size_t d = 0; d < shape.size(); ++d) {
    Dim own(0);
    if (shape[d] != Dim(1)) {
      const std::string name = ir::index_symbol(kFirstCoordinate + static_cast<int>(d));
      ranges_.insert_or_assign(name, ir::index_range(shape[d], graph_->ranges()));
      own = Dim::symbol(name);
    }
    position = position * shape[d] + own;
    coordinates.push_back(std::move(own));
  }
  bound_.emplace(value, std::move(position));
  return coordinates;
}

std::vector<Dim> Elements::symbols(const Shape& shape) { return ir::index_symbols(shape, ranges_); }

std::optional<Dim> Elements::number_at(ValueId value, std::span<const Dim> index) {
  const auto known = at(value, index);
  return known ? known->number : std::nullopt;
}

std::optional<Known> Elements::of_constant(const Tensor& tensor, std::span<const Dim> index) const {
  // Consecutive numbers along the last dimension.
  if (is_integer(tensor.dtype()) && !index.empty() && !index.back().is_constant() &&
      tensor.element_count() == tensor.shape().back()) {
    const Ints numbers = tensor.to_ints();
    for (std::size_t i = 1; i < numbers.size(); ++i)
      if (numbers[i] != numbers[i - 1] + 1) return std::nullopt;
    return number(index.back() + Dim(numbers[0]));
  }
  std::int64_t position = 0;
  if (tensor.element_count() != 1)
    for (std::size_t d = 0; d < index.size(); ++d) {
      const std::int64_t extent = tensor.shape()[d];
      if (!index[d].is_constant() || index[d].value() < 0 || index[d].value() >= extent)
        return std::nullopt;
      position = position * extent + index[d].value();
    }
  if (!is_float(tensor.dtype())) return number(Dim(tensor.at_int(position)));
  const double value = tensor.at(position);
  if (value != std::floor(value) || std::abs(value) > 1e15) return std::nullopt;
  return number(Dim(static_cast<std::int64_t>(value)));
}

std::optional<Place> Elements::taken(const Node& node, std::span<const Dim> index, int depth) {
  std::vector<TensorType> types = graph_->types(node.inputs);
  Place place{node.inputs[0], {}};
  const auto map = node.op->take()->map(node.attrs, types, index);
  for (std::size_t d = 0; d < map.size(); ++d) {
    if (map[d].input < 0) {
      place.index.push_back(map[d].at[0]);
      continue;
    }
    const auto known = at(node.inputs[static_cast<std::size_t>(map[d].input)], map[d].at, depth);
    if (!known || !known->number) return std::nullopt;
    Dim own = *known->number;
    if (own.is_constant() && own.value() < 0) own += types[0].shape[d];
    // Coordinates are not negative.
    if (!ir::proves_le(Dim(0), own, ranges_)) return std::nullopt;
    place.index.push_back(std::move(own));
  }
  return place;
}

std::optional<Place> Elements::source(ValueId value, std::span<const Dim> index) {
  Place place{value, {index.begin(), index.end()}};
  for (int step = 0; step < kMostDepth; ++step) {
    const Node* node = graph_->producer(place.value);
    if (node == nullptr) return place;
    if (node->op->kind == OpKind::kView) {
      auto traced = ir::trace_to_source(*graph_, place.value, place.index, ranges_);
      if (!traced || traced->source == place.value) return place;
      place = {traced->source, std::move(traced->index)};
    } else if (node->op->take() != nullptr) {
      auto next = taken(*node, place.index, 0);
      if (!next) return place;
      place = std::move(*next);
    } else {
      return place;
    }
  }
  return std::nullopt;
}

std::optional<Known> Elements::at(ValueId value, std::span<const Dim> index, int depth) {
  if (++depth > kMostDepth) return std::nullopt;
  const DType type = graph_->type(value).dtype;
  if (bound_ && bound_->first == value)
    return index[0] == row_ ? std::optional(number(bound_->second)) : std::nullopt;
  if (const auto& constant = graph_->value(value).constant) return of_constant(*constant, index);
  const Node* node = graph_->producer(value);
  // An element that nothing is known of is a choice, if it can be.
  const auto opaque = [&]() -> std::optional<Known> {
    if (!is_integer(type) || type == DType::kBool) return std::nullopt;
    return Known{.choice = Place{value, {index.begin(), index.end()}}};
  };
  if (node == nullptr) return opaque();
  const Place place{value, {index.begin(), index.end()}};
  std::optional<Known> found;
  if (const auto* generator = node->op->generate()) {
    found = number(generator->value(node->attrs, index));
  } else if (node->op->kind == OpKind::kView) {
    const auto traced = ir::trace_to_source(*graph_, value, index, ranges_);
    if (traced && traced->source != value) found = at(traced->source, traced->index, depth);
  } else if (node->op->take() != nullptr) {
    if (const auto next = taken(*node, index, depth)) found = at(next->value, next->index, depth);
  } else if (node->op->name == "Where") {
    found = of_where(*node, place, depth);
  } else if (node->op->kind == OpKind::kPointwise) {
    found = of_pointwise(*node, place, depth);
  }
  return found ? found : opaque();
}

std::optional<double> Elements::folded(const Node& node, std::span<const double> numbers) const {
  std::vector<Tensor> operands;
  for (std::size_t i = 0; i < numbers.size(); ++i)
    operands.push_back(Tensor::scalar(graph_->type(node.inputs[i]).dtype, numbers[i]));
  return ir::evaluate_op(*node.op, node.attrs, operands).at(0).at(0);
}

std::optional<Known> Elements::of_where(const Node& node, const Place& place, int depth) {
  const auto operand = [&](std::size_t i) {
    return at(node.inputs[i], operand_index(graph_->type(node.inputs[i]).shape, place.index),
              depth);
  };
  const auto condition = operand(0);
  if (!condition) return std::nullopt;
  if (condition->number && condition->number->is_constant())
    return operand(condition->number->value() != 0 ? 1 : 2);
  if (!condition->is_test) return std::nullopt;
  const auto when = [&](double is_true) -> std::optional<double> {
    const auto side = operand(is_true != 0 ? 1 : 2);
    return side && side->number ? as_double(*side->number) : std::nullopt;
  };
  const auto yes = when(condition->yes), no = when(condition->no);
  if (!yes || !no) return std::nullopt;
  Known result = *condition;
  result.yes = *yes;
  result.no = *no;
  return result;
}

/// What a comparison of a choice with a number says whatever the choice is.
std::optional<bool> Elements::compared(const Node& node, const Known& a, const Known& b) const {
  const bool is_left = a.choice.has_value();
  const Known &choice = is_left ? a : b, &other = is_left ? b : a;
  if (!choice.choice || choice.is_test || !other.number || !other.number->is_constant())
    return std::nullopt;
  const auto experts = sorted_experts(*graph_, choice.choice->value);
  if (!experts) return std::nullopt;
  const std::int64_t limit = other.number->value();
  const std::string& op = node.op->name;
  // The choice is one of 0 .. experts - 1.
  const auto ends = [&](bool below, bool or_equal) -> std::optional<bool> {
    const std::int64_t least = or_equal == below ? limit : limit - 1;  // choice <= least, or >
    if (*experts - 1 <= least) return below;
    if (least < 0) return !below;
    return std::nullopt;
  };
  const bool less = op == "Less" || op == "LessOrEqual",
             greater = op == "Greater" || op == "GreaterOrEqual";
  if (!less && !greater) return std::nullopt;
  return ends(less == is_left, op == "LessOrEqual" || op == "GreaterOrEqual");
}

std::optional<Known> Elements::of_pointwise(const Node& node, const Place& place, int depth) {
  std::vector<Known> operands;
  for (const ValueId input : node.inputs) {
    auto own = at(input, operand_index(graph_->type(input).shape, place.index), depth);
    if (!own) return std::nullopt;
    operands.push_back(std::move(*own));
  }
  const std::string& op = node.op->name;
  const auto is_constant = [](const Known& own) { return own.number && own.number->is_constant(); };
  if (op == "Cast" && !is_constant(operands[0]) && !operands[0].is_test) {
    const DType to = graph_->type(place.value).dtype;
    const bool is_exact = to == DType::kInt32 || to == DType::kInt64;
    return is_exact ? std::optional(operands[0]) : std::nullopt;
  }
  if (op == "Equal" || op == "NotEqual") {
    const bool is_left = operands[0].choice && !operands[0].is_test;
    const Known &choice = operands[is_left ? 0 : 1], &other = operands[is_left ? 1 : 0];
    if (choice.choice && !choice.is_test && other.number) {
      Known test{.choice = choice.choice, .is_test = true, .expert = *other.number};
      (op == "Equal" ? test.yes : test.no) = 1;
      return test;
    }
  }
  if (operands.size() == 2)
    if (const auto answer = compared(node, operands[0], operands[1]))
      return number(Dim(std::int64_t{*answer}));
  // Numbers, and tests of one choice for one expert.
  const Known* test = nullptr;
  bool is_folded = true;
  for (const Known& own : operands) {
    if (is_constant(own)) continue;
    is_folded = is_folded && own.is_test &&
                (test == nullptr || (test->choice == own.choice && test->expert == own.expert));
    if (own.is_test) test = &own;
  }
  if (is_folded) {
    const auto when = [&](bool is_yes) {
      std::vector<double> numbers;
      for (const Known& own : operands)
        numbers.push_back(own.number ? *as_double(*own.number) : is_yes ? own.yes : own.no);
      return folded(node, numbers);
    };
    const auto yes = when(true), no = test != nullptr ? when(false) : yes;
    if (!yes || !no) return std::nullopt;
    if (test == nullptr) {
      if (*yes != std::floor(*yes) || std::abs(*yes) > 1e15) return std::nullopt;
      return number(Dim(static_cast<std::int64_t>(*yes)));
    }
    Known result = *test;
    result.yes = *yes;
    result.no = *no;
    return result;
  }
  if (operands.size() != 2 || !operands[0].number || !operands[1].number) return std::nullopt;
  const Dim &a = *operands[0].number, &b = *operands[1].number;
  if (op == "Add") return number(a + b);
  if (op == "Sub") return number(a - b);
  if (op == "Mul") return number(a * b);
  // Of numbers that are not negative a quotient is rounded down.
  const bool is_natural = ir::proves_le(Dim(0), a, ranges_) && ir::proves_le(Dim(1), b, ranges_);
  if (op == "Div" && is_natural) return number(ir::floor_div(a, b, ranges_));
  if (op == "Mod" && is_natural) return number(ir::mod(a, b, ranges_));
  return std::nullopt;
}

std::optional<std::int64_t> sorted_experts(const Graph& graph, ValueId choices) {
  const Node* node = graph.producer(choices);
  while (node != nullptr && node->op->name == "Cast" &&
         is_integer(graph.type(node->inputs[0]).dtype))
    node = graph.producer(node->inputs[0]);
  if (node == nullptr) return std::nullopt;
  if (node->op->name == "Route" && graph.type(choices).dtype != DType::kFloat32) {
    const Dim& experts = graph.type(node->inputs[0]).shape[1];
    return experts.value();
  }
  if (node->op->name != "ArgSort") return std::nullopt;
  const Shape& scores = graph.type(node->inputs[0]).shape;
  const auto axis = node->attrs.get_int("axis");
  if (axis != std::ssize(scores) - 1 || !scores.back().is_constant()) return std::nullopt;
  return scores.back().value();
}

}  // namespace sinter::fusion
