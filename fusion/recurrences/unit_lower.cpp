// SPDX-License-Identifier: Apache-2.0
#include "fusion/recurrences/unit_lower.h"

#include "ir/affine.h"

namespace sinter::fusion {
namespace {

/// The number at `index` of an integer value: a position, the same everywhere, or a constant that
/// counts along its dimensions.
std::optional<Dim> number(const Terms& terms, const ElementAt& element) {
  if (auto found = ir::index_of_value(terms.graph(), element.value, element.index, terms.ranges()))
    return found;
  const ElementAt last = terms.source(element);
  const auto& constant = terms.graph().value(last.value).constant;
  if (constant == nullptr || !is_integer(constant->dtype()) || constant->element_count() == 0)
    return std::nullopt;
  const Ints& shape = constant->shape();
  Dim result(constant->at_int(0));
  std::vector<std::int64_t> slopes(shape.size(), 0);
  std::int64_t stride = constant->element_count();
  for (std::size_t d = 0; d < shape.size(); ++d) {
    stride /= shape[d];
    if (shape[d] > 1) slopes[d] = constant->at_int(stride) - constant->at_int(0);
    result += Dim(slopes[d]) * last.index[d];
  }
  for (std::int64_t i = 0; i < constant->element_count(); ++i) {
    std::int64_t rest = i, expected = constant->at_int(0);
    for (std::size_t d = shape.size(); d-- > 0; rest /= shape[d])
      expected += slopes[d] * (rest % shape[d]);
    if (constant->at_int(i) != expected) return std::nullopt;
  }
  return result;
}

ElementAt index_element(const Terms& terms, const Node& scatter, std::size_t d,
                        const ElementAt& update) {
  const Shape& shape = terms.graph().type(scatter.inputs[d + 2]).shape;
  ElementAt result{scatter.inputs[d + 2], {}};
  const std::size_t missing = update.index.size() - shape.size();
  for (std::size_t i = 0; i < shape.size(); ++i)
    result.index.push_back(shape[i] == Dim(1) ? Dim(0) : update.index[missing + i]);
  return result;
}

/// A Scatter at `element` that replaces elements, with one index for each dimension.
const Node* replacing(const Terms& terms, const ElementAt& element) {
  const Node* scatter = terms.is(element, "Scatter");
  if (scatter == nullptr || scatter->attrs.get_string("combine") != "none") return nullptr;
  const std::size_t rank = element.index.size();
  const bool is_whole = terms.graph().type(scatter->inputs[1]).shape.size() == rank &&
                        scatter->inputs.size() == rank + 2;
  return is_whole ? scatter : nullptr;
}

}  // namespace

std::optional<std::pair<ElementAt, ElementAt>> written_slice(const Terms& terms,
                                                             const ElementAt& element,
                                                             std::size_t axis, const Dim& place) {
  const Node* scatter = replacing(terms, element);
  if (scatter == nullptr) return std::nullopt;
  const Shape& data = terms.graph().type(scatter->inputs[0]).shape;
  const Shape& updates = terms.graph().type(scatter->inputs[1]).shape;
  ElementAt update{scatter->inputs[1], element.index};
  for (std::size_t d = 0; d < data.size(); ++d) {
    const bool is_axis = d == axis;
    if (is_axis ? updates[d] != Dim(1) : updates[d] != data[d]) return std::nullopt;
    if (is_axis) update.index[d] = Dim(0);
  }
  for (std::size_t d = 0; d < data.size(); ++d) {
    const auto at = number(terms, index_element(terms, *scatter, d, update));
    if (!at || *at != (d == axis ? place : element.index[d])) return std::nullopt;
  }
  return std::pair(update, ElementAt{scatter->inputs[0], element.index});
}

std::optional<ElementAt> UnitLower::system_of(const ElementAt& element, std::int64_t rows,
                                              std::string& why) const {
  if (terms_.is(element, "Add") == nullptr || element.index.size() != 5) return std::nullopt;
  for (const std::size_t i : {0, 1}) {
    if (!is_identity(terms_.operand(element, i), element.index[3], element.index[4], rows))
      continue;
    ElementAt all = terms_.source(terms_.operand(element, 1 - i));
    if (all.index.size() != 5) return std::nullopt;
    const Dim row = all.index[3];
    for (std::int64_t r = rows - 1; r > 0; --r) {
      all.index[3] = Dim(r);
      const auto stored = written_slice(terms_, all, 3, Dim(r));
      why = stored ? is_solved_row(stored->first, stored->second, r)
                   : "the rows of its triangular system are not replaced one by one";
      if (!why.empty()) return std::nullopt;
      all = terms_.source(stored->second);
    }
    all.index[3] = row;
    return all;
  }
  return std::nullopt;
}

bool UnitLower::is_identity(const ElementAt& element, const Dim& row, const Dim& column,
                            std::int64_t rows) const {
  const ElementAt last = terms_.source(element);
  const auto& constant = terms_.graph().value(last.value).constant;
  if (constant == nullptr || last.index.size() < 2 || constant->element_count() != rows * rows ||
      last.index[last.index.size() - 2] != row || last.index.back() != column)
    return false;
  for (std::int64_t i = 0; i < rows * rows; ++i)
    if (constant->at(i) != (i / rows == i % rows ? 1 : 0)) return false;
  return true;
}

/// Row i of the rows `before`: its first i elements, and the product of these with the rows.
/// Nothing, or what does not fit.
const char* UnitLower::is_solved_row(const ElementAt& update, const ElementAt& before,
                                     std::int64_t i) const {
  const ElementAt row = terms_.source(update);
  const Node* scatter = replacing(terms_, row);
  if (scatter == nullptr)
    return "a row of its triangular system is not replaced up to its diagonal";
  // The elements from the diagonal on stay.
  const ElementAt kept = terms_.source({scatter->inputs[0], row.index});
  if (kept.value != before.value || kept.index != before.index)
    return "a row of its triangular system does not keep what is above the diagonal";
  const Shape& updates = terms_.graph().type(scatter->inputs[1]).shape;
  const Shape& data = terms_.graph().type(scatter->inputs[0]).shape;
  // Those before it are written, each at its own place.
  const Dim place = terms_.symbol(Dim(i));
  ElementAt written{scatter->inputs[1], row.index};
  for (std::size_t d = 0; d < data.size(); ++d) {
    const bool is_column = row.index[d] == before.index[4];
    if (updates[d] != (is_column ? Dim(i) : data[d]))
      return "a row of its system is not replaced just up to its diagonal";
    if (is_column) written.index[d] = place;
  }
  for (std::size_t d = 0; d < data.size(); ++d) {
    const auto at = number(terms_, index_element(terms_, *scatter, d, written));
    if (!at || *at != written.index[d]) return "a row of its system is replaced elsewhere";
  }
  // The rows before are what is looked for, whatever they are made of.
  sequences_.stop_at(before.value);
  const bool is_solved = is_row_and_product(written, before, i, place);
  sequences_.stop_at({});
  return is_solved ? "" : "a row of its system is not itself and its product with the rows before";
}

bool UnitLower::is_row_and_product(const ElementAt& written, const ElementAt& before,
                                   std::int64_t i, const Dim& place) const {
  const auto parts = terms_.addends(written);
  if (parts.size() != 2) return false;
  const auto is_row = [&](const ElementAt& element, const Dim& at_row, const Dim& at_column) {
    ElementAt wanted = before;
    wanted.index[3] = at_row;
    wanted.index[4] = at_column;
    return element.value == wanted.value && element.index == wanted.index;
  };
  for (const std::size_t own : {0, 1}) {
    const ProductTerm sum = terms_.product(parts[1 - own]);
    if (!is_row(parts[own], Dim(i), place)) continue;
    if (sum.factor != 1 || sum.factors.size() != 2 || sum.sums.size() > 1) break;
    if (sum.sums.empty() != (i == 1) || (i > 1 && sum.sums[0].second != Dim(i))) break;
    const Dim j = i == 1 ? Dim(0) : Dim::symbol(sum.sums[0].first);
    for (const std::size_t first : {0, 1})
      if (is_row(sum.factors[first], Dim(i), j) && is_row(sum.factors[1 - first], j, place))
        return true;
    break;
  }
  return false;
}

}  // namespace sinter::fusion
