// SPDX-License-Identifier: Apache-2.0
// Matches patterns element by element.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fusion/context.h"
#include "fusion/patterns/pattern.h"

namespace sinter::fusion {

/// An element of a value, at `index` (one Dim per dimension, over index symbols).
struct Element {
  ValueId value;
  std::vector<Dim> index;
  friend bool operator==(const Element&, const Element&) = default;
};

/// The space of reductions: their operands' shape, and the index at which they are read.
struct Space {
  Shape shape;
  std::vector<Dim> index;
};

/// The result of a match.
struct Match {
  /// For each variable the elements that it binds: the first as in the graph, each following one
  /// read by a view or float cast before it.
  std::map<std::string, std::vector<Element>> variables;
  std::map<std::string, double> constants;
  std::optional<Ints> axes;    // of the reductions, if any
  std::optional<Space> space;  // in which variables are whole
};

/// Facts about a graph that matches share. Must not outlive the graph.
class MatchFacts {
 public:
  explicit MatchFacts(const Graph& graph) : graph_(graph) {}

  const Graph& graph() const { return graph_; }
  /// The value of a constant whose elements are all equal.
  std::optional<double> number_of(ValueId value);
  /// The value of a product, an inverse, or a sum of such constants only.
  enum class Fold { kProduct, kInverse, kSum };
  std::optional<double> folded(ValueId value, Fold fold);
  /// Total steps of all matches.
  std::int64_t steps = 0;

 private:
  using Key = std::pair<ValueId, Fold>;
  const Graph& graph_;
  std::map<ValueId, std::optional<double>> numbers_;
  std::map<Key, std::optional<double>> folded_;
};

/// The value that `value` reads, if it is a plain view or a cast between floats.
std::optional<ValueId> behind_view(const Graph& graph, ValueId value);

/// Matches patterns against the element ($0, $1, ..) of one value. Views are followed to the
/// element that they read: it does not matter where an exporter put reshapes and expansions. A
/// reduction matches only if it reduces values of the same shape and is read at its own row. The
/// matched element is in that row, or is the row's result if the pattern is per row.
class Matcher {
 public:
  Matcher(MatchFacts& facts, ValueId root);
  ~Matcher();

  /// All matches of the pattern; several if operands commute.
  std::vector<Match> match(const Pattern& pattern);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sinter::fusion
