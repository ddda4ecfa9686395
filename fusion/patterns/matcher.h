// Matching of patterns, element by element.
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

/// An element of a value: what stands at `index` (one Dim per dimension, over index symbols).
struct Element {
  ValueId value;
  std::vector<Dim> index;
  friend bool operator==(const Element&, const Element&) = default;
};

/// What reductions run over: their operands' shape, and the index of the element they are seen at.
struct Space {
  Shape shape;
  std::vector<Dim> index;
};

/// What a match found.
struct Match {
  /// For a variable, the elements that it stands for: the first is as the graph has it, each
  /// following one what a view or a float cast before it reads.
  std::map<std::string, std::vector<Element>> variables;
  std::map<std::string, double> constants;
  std::optional<Ints> axes;    // of the reductions, if there are any
  std::optional<Space> space;  // where the variables are whole
};

/// What every match in one graph asks again and again. Must not outlive the graph.
class MatchFacts {
 public:
  explicit MatchFacts(const Graph& graph) : graph_(graph) {}

  const Graph& graph() const { return graph_; }
  /// The value of a constant whose elements are all equal.
  std::optional<double> number_of(ValueId value);
  /// What a product, one over it, or a sum of nothing but such constants comes to.
  enum class Fold { kProduct, kInverse, kSum };
  std::optional<double> folded(ValueId value, Fold fold);
  /// Steps of all matches so far.
  std::int64_t steps = 0;

 private:
  using Key = std::pair<ValueId, Fold>;
  const Graph& graph_;
  std::map<ValueId, std::optional<double>> numbers_;
  std::map<Key, std::optional<double>> folded_;
};

/// What an element reads through plain views and casts between floats, if it is made by one.
std::optional<ValueId> behind_view(const Graph& graph, ValueId value);

/// Matches patterns against the element ($0, $1, ..) of one value. A view is followed to the
/// element that it reads, so that it does not matter where an exporter put reshapes and expansions;
/// a reduction matches only if it reduces values of the same shape and is read at its own row. The
/// element that is matched lies in that row, or is what the row comes to, if the pattern is per
/// row.
class Matcher {
 public:
  Matcher(MatchFacts& facts, ValueId root);
  ~Matcher();

  /// Every way in which the pattern matches; several where operands may be exchanged.
  std::vector<Match> match(const Pattern& pattern);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sinter::fusion
