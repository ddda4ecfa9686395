// SPDX-License-Identifier: Apache-2.0
// What an element of a float is made of, at a symbolic index: sums of products of other elements,
// however an exporter has spelled them with views, broadcasts, multiplications and matmuls.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fusion/context.h"

namespace sinter::fusion {

/// Element `index` (one Dim a dimension) of `value`.
struct ElementAt {
  ValueId value;
  std::vector<Dim> index;
};

/// factor * the sum over all values of `sums` of the product of `factors`.
struct ProductTerm {
  double factor = 1;
  std::vector<ElementAt> factors;
  std::vector<std::pair<std::string, Dim>> sums;  // symbols, and how many values each has
};

class Terms {
 public:
  /// `is_leaf`: elements at which terms end, besides those that are no products or sums.
  Terms(const Graph& graph, std::function<bool(const ElementAt&)> is_leaf)
      : graph_(graph), ranges_(graph.ranges()), is_leaf_(std::move(is_leaf)) {}

  /// A new symbol with values 0 to extent - 1; the constant 0 for an extent of 1.
  Dim symbol(const Dim& extent);
  /// An element of `value` at new symbols.
  ElementAt any_of(ValueId value);

  /// The element behind views, widening casts and Gathers at known numbers, one step or all; an
  /// element that several sources or a fill may give stays.
  std::optional<ElementAt> behind(const ElementAt& element) const;
  ElementAt source(ElementAt element) const;
  /// The elements that the element is the sum of; itself alone if it is none, or of more than 16.
  std::vector<ElementAt> addends(const ElementAt& element) const;
  /// The element as a product.
  ProductTerm product(const ElementAt& element);
  /// Operand `i` of the element's node, which broadcasts it.
  ElementAt operand(const ElementAt& element, std::size_t i) const;

  /// The producer of `element` if it is an `op`, otherwise null.
  const Node* is(const ElementAt& element, std::string_view op) const;
  /// Whether it is the number `number`, wherever it lies.
  bool is_number(const ElementAt& element, double number) const;
  /// An element that is `kept` where row >= column + k, and `other` above: a Where with a square
  /// constant mask, at symbols row and column.
  struct Triangle {
    std::int64_t k;
    ElementAt kept, other;
  };
  std::optional<Triangle> triangle(const ElementAt& element, const Dim& row,
                                   const Dim& column) const;

  const Graph& graph() const { return graph_; }
  const Ranges& ranges() const { return ranges_; }

 private:
  void multiply(ElementAt element, ProductTerm& term);
  /// k, if the flag is `value` just where row >= column + k.
  std::optional<std::int64_t> diagonal(const ElementAt& flag, bool value, const Dim& row,
                                       const Dim& column) const;
  bool holds(const ir::ViewSource::Guard& guard) const;

  const Graph& graph_;
  Ranges ranges_;
  std::function<bool(const ElementAt&)> is_leaf_;
  int symbols_ = 0;
};

/// The element with `from` replaced by `to`.
ElementAt at(const ElementAt& element, const Dim& from, const Dim& to);

}  // namespace sinter::fusion
