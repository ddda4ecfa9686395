// SPDX-License-Identifier: Apache-2.0
#include "fusion/recurrences/terms.h"

#include <algorithm>

#include <fmt/format.h>

#include "fusion/regions/rebuild.h"
#include "ir/affine.h"
#include "ir/scale_format.h"

namespace sinter::fusion {
namespace {

/// Of an element: steps of recurrences have 3, sums over tokens of a chunk are reductions.
constexpr std::size_t kMostAddends = 16;
/// Of an index, in all its divisions: those of layers have some 20. Reshapes of reshapes without
/// common factors multiply them.
constexpr std::size_t kMostIndexTerms = 40;

/// Takes the terms of `dim` from `left`; false if they are more.
bool fits(const Dim& dim, std::size_t& left) {
  for (const Dim::Term& term : dim.terms()) {
    if (left == 0) return false;
    --left;
    for (const auto& atom : term.factors)
      if (atom->kind != ir::DimAtom::Kind::kSymbol && !(fits(atom->a, left) && fits(atom->b, left)))
        return false;
  }
  return true;
}

}  // namespace

ElementAt at(const ElementAt& element, const Dim& from, const Dim& to) {
  ElementAt result = element;
  if (const auto symbol = from.as_symbol())
    for (Dim& dim : result.index) dim = dim.substitute({{*symbol, to}});
  return result;
}

Dim Terms::symbol(const Dim& extent) {
  if (extent == Dim(1)) return Dim(0);
  const std::string name = fmt::format("$t{}", symbols_++);
  ranges_[name] = ir::index_range(extent, ranges_);
  return Dim::symbol(name);
}

ElementAt Terms::any_of(ValueId value) {
  ElementAt element{value, {}};
  for (const Dim& extent : graph_.type(value).shape) element.index.push_back(symbol(extent));
  return element;
}

const Node* Terms::is(const ElementAt& element, std::string_view op) const {
  const Node* node = graph_.producer(element.value);
  return node != nullptr && node->op->name == op ? node : nullptr;
}

bool Terms::holds(const ir::ViewSource::Guard& guard) const {
  return ir::proves_le(Dim(0), guard.value, ranges_) &&
         ir::proves_le(guard.value + Dim(1), guard.extent, ranges_);
}

std::optional<ElementAt> Terms::behind(const ElementAt& element) const {
  const Node* node = graph_.producer(element.value);
  if (node == nullptr || node->outputs.size() != 1) return std::nullopt;
  const std::vector<TensorType> types = graph_.types(node->inputs);
  if (node->op->kind == OpKind::kView) {
    const auto sources = node->op->view().map(node->attrs, types, graph_.type(element.value),
                                              element.index, ranges_);
    const auto holds_all = [&](const ir::ViewSource& source) {
      return std::ranges::all_of(source.guards, [&](const auto& guard) { return holds(guard); });
    };
    // Guards exclude each other: of several sources one that is sure is the only one.
    const auto found = std::ranges::find_if(sources, holds_all);
    if (found == sources.end()) return std::nullopt;
    std::size_t left = kMostIndexTerms;
    if (!std::ranges::all_of(found->index, [&](const Dim& dim) { return fits(dim, left); }))
      return std::nullopt;
    ElementAt result{node->inputs[static_cast<std::size_t>(found->input)], found->index};
    for (Dim& dim : result.index) dim = ir::simplify(dim, ranges_);
    return result;
  }
  if (const ir::TakeDef* take = node->op->take()) {
    ElementAt result{node->inputs[0], {}};
    const auto places = take->map(node->attrs, types, element.index);
    for (std::size_t d = 0; d < places.size(); ++d) {
      if (places[d].input < 0) {
        result.index.push_back(places[d].at[0]);
        continue;
      }
      auto number = ir::index_of_value(
          graph_, node->inputs[static_cast<std::size_t>(places[d].input)], places[d].at, ranges_);
      if (!number || !number->is_constant()) return std::nullopt;
      if (number->value() < 0) number = *number + types[0].shape[d];
      result.index.push_back(*number);
    }
    return result;
  }
  if (node->op->name == "Cast" && is_float(types[0].dtype) &&
      is_float(graph_.type(element.value).dtype) &&
      size_of(types[0].dtype) <= size_of(graph_.type(element.value).dtype))
    return ElementAt{node->inputs[0], element.index};
  return std::nullopt;
}

ElementAt Terms::source(ElementAt element) const {
  while (auto next = behind(element)) element = std::move(*next);
  return element;
}

ElementAt Terms::operand(const ElementAt& element, std::size_t i) const {
  const Node& node = *graph_.producer(element.value);
  const Shape& shape = graph_.type(node.inputs[i]).shape;
  ElementAt result{node.inputs[i], {}};
  const std::size_t missing = element.index.size() - shape.size();
  for (std::size_t d = 0; d < shape.size(); ++d)
    result.index.push_back(shape[d] == Dim(1) ? Dim(0) : element.index[missing + d]);
  return result;
}

std::vector<ElementAt> Terms::addends(const ElementAt& element) const {
  std::vector<ElementAt> open{element}, found;
  while (!open.empty()) {
    // A value that is added to itself doubles them each time.
    if (open.size() + found.size() > kMostAddends) return {element};
    ElementAt next = open.back();
    open.pop_back();
    while (!is_leaf_(next)) {
      auto further = behind(next);
      if (!further) break;
      next = std::move(*further);
    }
    if (is(next, "Add") != nullptr && !is_leaf_(next)) {
      open.push_back(operand(next, 0));
      open.push_back(operand(next, 1));
    } else {
      found.push_back(std::move(next));
    }
  }
  return found;
}

ProductTerm Terms::product(const ElementAt& element) {
  ProductTerm term;
  multiply(element, term);
  return term;
}

void Terms::multiply(ElementAt element, ProductTerm& term) {
  for (;;) {
    if (is_leaf_(element)) break;
    if (auto next = behind(element)) {
      element = std::move(*next);
      continue;
    }
    if (const auto number = splat_value(graph_, element.value)) {
      term.factor *= *number;
      return;
    }
    const Node* node = graph_.producer(element.value);
    if (node == nullptr) break;
    if (node->op->name == "Mul") {
      multiply(operand(element, 1), term);
      element = operand(element, 0);
      continue;
    }
    if (node->op->name == "Neg") {
      term.factor = -term.factor;
      element = operand(element, 0);
      continue;
    }
    const auto summed = [&](const Dim& extent) {
      Dim index = symbol(extent);
      if (const auto name = index.as_symbol()) term.sums.emplace_back(*name, extent);
      return index;
    };
    if (node->op->name == "ReduceSum") {
      const Shape& shape = graph_.type(node->inputs[0]).shape;
      const Ints& axes = node->attrs.get_ints("axes");
      const bool keeps = node->attrs.get_int("keepdims") != 0;
      ElementAt inner{node->inputs[0], {}};
      std::size_t from = 0;
      for (std::size_t d = 0; d < shape.size(); ++d) {
        const bool is_summed = std::ranges::find(axes, static_cast<std::int64_t>(d)) != axes.end();
        inner.index.push_back(is_summed ? summed(shape[d]) : element.index[from]);
        if (!is_summed || keeps) ++from;
      }
      element = std::move(inner);
      continue;
    }
    if (ir::is_plain_matmul(*node)) {
      const Shape &a = graph_.type(node->inputs[0]).shape, &b = graph_.type(node->inputs[1]).shape;
      const std::size_t rank = element.index.size();
      const Dim inner = summed(a.back());
      const auto side = [&](std::size_t i, const Shape& shape, const Dim& row, const Dim& column) {
        ElementAt result{node->inputs[i], {}};
        for (std::size_t d = 0; d + 2 < shape.size(); ++d)
          result.index.push_back(shape[d] == Dim(1) ? Dim(0)
                                                    : element.index[rank - shape.size() + d]);
        result.index.push_back(row);
        result.index.push_back(column);
        return result;
      };
      multiply(side(1, b, inner, element.index[rank - 1]), term);
      element = side(0, a, element.index[rank - 2], inner);
      continue;
    }
    break;
  }
  term.factors.push_back(std::move(element));
}

bool Terms::is_number(const ElementAt& element, double number) const {
  const ElementAt last = source(element);
  const auto found = splat_value(graph_, last.value);
  return found && *found == number;
}

std::optional<std::int64_t> Terms::diagonal(const ElementAt& flag, bool value, const Dim& row,
                                            const Dim& column) const {
  const ElementAt last = source(flag);
  if (const Node* node = graph_.producer(last.value)) {
    if (node->op->name == "Not") return diagonal(operand(last, 0), !value, row, column);
    // A Where of flags: that of its condition, or the opposite one.
    if (node->op->name == "Where") {
      for (const bool kept : {true, false})
        if (is_number(operand(last, 1), kept ? 1 : 0) && is_number(operand(last, 2), kept ? 0 : 1))
          return diagonal(operand(last, 0), value == kept, row, column);
      return std::nullopt;
    }
    // A comparison of positions: true where `gap` is not negative.
    const std::string_view op = node->op->name;
    const bool is_less = op == "LessOrEqual" || op == "Less";
    if (!is_less && op != "GreaterOrEqual" && op != "Greater") return std::nullopt;
    const ElementAt a = operand(last, is_less ? 1 : 0), b = operand(last, is_less ? 0 : 1);
    const auto left = ir::index_of_value(graph_, a.value, a.index, ranges_),
               right = ir::index_of_value(graph_, b.value, b.index, ranges_);
    if (!left || !right) return std::nullopt;
    Dim gap = *left - *right;
    if (op == "Less" || op == "Greater") gap = gap - Dim(1);
    if (!value) gap = Dim(0) - gap - Dim(1);
    const Dim k = row - column - gap;
    return k.is_constant() ? std::optional(k.value()) : std::nullopt;
  }
  const auto& constant = graph_.value(last.value).constant;
  if (constant == nullptr || constant->dtype() != DType::kBool) return std::nullopt;
  // Strides of the row and of the column; nothing else moves.
  std::int64_t row_stride = 0, column_stride = 0, rows = 0, columns = 0, stride = 1;
  for (std::size_t d = last.index.size(); d-- > 0; stride *= constant->shape()[d]) {
    if (constant->shape()[d] == 1) continue;
    if (last.index[d] == row) {
      row_stride = stride;
      rows = constant->shape()[d];
    } else if (last.index[d] == column) {
      column_stride = stride;
      columns = constant->shape()[d];
    } else {
      return std::nullopt;
    }
  }
  if (row_stride == 0 || column_stride == 0 || rows != columns || rows == 0) return std::nullopt;
  for (const std::int64_t k : {0, 1}) {
    bool fits = true;
    for (std::int64_t r = 0; r < rows && fits; ++r)
      for (std::int64_t c = 0; c < columns && fits; ++c)
        fits =
            ((constant->at_int(r * row_stride + c * column_stride) != 0) == value) == (r >= c + k);
    if (fits) return k;
  }
  return std::nullopt;
}

std::optional<Terms::Triangle> Terms::triangle(const ElementAt& element, const Dim& row,
                                               const Dim& column) const {
  const ElementAt last = source(element);
  if (is(last, "Where") == nullptr) return std::nullopt;
  const ElementAt flag = operand(last, 0);
  for (const bool value : {true, false})
    if (const auto k = diagonal(flag, value, row, column))
      return Triangle{*k, operand(last, value ? 1 : 2), operand(last, value ? 2 : 1)};
  return std::nullopt;
}

}  // namespace sinter::fusion
