// SPDX-License-Identifier: Apache-2.0
// What single elements of integers and bools are, as far as a mixture of experts is concerned.
#pragma once

#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "fusion/context.h"

namespace sinter::fusion {

/// An element of a value, at one Dim for each dimension.
struct Place {
  ValueId value;
  std::vector<Dim> index;
  friend bool operator==(const Place&, const Place&) = default;
};

/// An element: a number; or an element of `choice` that only the run knows; or a number that
/// depends on whether that element is `expert`.
struct Known {
  std::optional<Dim> number;
  std::optional<Place> choice;
  bool is_test = false;
  Dim expert;
  double yes = 0, no = 0;  // of a test
};

class Elements {
 public:
  explicit Elements(const Graph& graph) : Elements(graph, graph.ranges()) {}
  /// `ranges`: also of symbols in indices.
  Elements(const Graph& graph, Ranges ranges) : graph_(&graph), ranges_(std::move(ranges)) {}

  /// From here on element `row` of `value` (a SelectIndices) is the position of a flag in `shape`:
  /// row * columns + column. Returns what stands for row, column, ..
  std::vector<Dim> bind(ValueId value, const Shape& shape);
  void set_row(Dim row) { row_ = std::move(row); }

  /// Nothing for floats that are not known.
  std::optional<Known> at(ValueId value, std::span<const Dim> index) { return at(value, index, 0); }
  std::optional<Dim> number_at(ValueId value, std::span<const Dim> index);
  /// The element behind views, and behind Gathers and Takes at numbers that are known.
  std::optional<Place> source(ValueId value, std::span<const Dim> index);
  /// The place in the data of a Gather or Take, if it is known.
  std::optional<Place> taken(const Node& node, std::span<const Dim> index) {
    return taken(node, index, 0);
  }
  /// Symbols for the index of an element of `shape`.
  std::vector<Dim> symbols(const Shape& shape);
  const Ranges& ranges() const { return ranges_; }

 private:
  std::optional<Known> at(ValueId value, std::span<const Dim> index, int depth);
  std::optional<Known> of_constant(const Tensor& tensor, std::span<const Dim> index) const;
  std::optional<Known> of_pointwise(const Node& node, const Place& place, int depth);
  std::optional<Known> of_where(const Node& node, const Place& place, int depth);
  /// The operator's result for numbers in place of its operands.
  std::optional<double> folded(const Node& node, std::span<const double> numbers) const;
  std::optional<bool> compared(const Node& node, const Known& a, const Known& b) const;
  std::optional<Place> taken(const Node& node, std::span<const Dim> index, int depth);

  const Graph* graph_;
  Ranges ranges_;
  std::optional<std::pair<ValueId, Dim>> bound_;
  Dim row_;
};

/// Whether `choices` [tokens, chosen] are the first of sorted indices, so that those of a token
/// differ and none is negative; nothing if it is not known. Else how many there are to choose from.
std::optional<std::int64_t> sorted_experts(const Graph& graph, ValueId choices);

}  // namespace sinter::fusion
