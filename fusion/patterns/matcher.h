// Matching of patterns, element by element.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fusion/patterns/pattern.h"
#include "ir/graph.h"

namespace sinter::fusion {

/// An element of a value: what stands at `index` (one Dim per dimension, over index symbols).
struct Element {
  ir::ValueId value;
  std::vector<ir::Dim> index;
  friend bool operator==(const Element&, const Element&) = default;
};

/// What reductions run over: their operands' shape, and the index of the element they are seen at.
struct Space {
  ir::Shape shape;
  std::vector<ir::Dim> index;
};

/// What a match found.
struct Match {
  /// For a variable, the elements that it stands for: the first is as the graph has it, each
  /// following one what a view or a float cast before it reads.
  std::map<std::string, std::vector<Element>> variables;
  std::map<std::string, double> constants;
  std::optional<std::vector<std::int64_t>> axes;  // of the reductions, if there are any
  std::optional<Space> space;                     // where the variables are whole
};

/// What every match in one graph asks again and again. Must not outlive the graph.
class MatchFacts {
 public:
  explicit MatchFacts(const ir::Graph& graph) : graph_(graph) {}

  const ir::Graph& graph() const { return graph_; }
  /// The value of a constant whose elements are all equal.
  std::optional<double> number_of(ir::ValueId value);
  /// What a product, one over it, or a sum of nothing but such constants comes to.
  enum class Fold { kProduct, kInverse, kSum };
  std::optional<double> folded(ir::ValueId value, Fold fold);
  /// Steps of all matches so far.
  std::int64_t steps = 0;

 private:
  using Key = std::pair<ir::ValueId, Fold>;
  const ir::Graph& graph_;
  std::map<ir::ValueId, std::optional<double>> numbers_;
  std::map<Key, std::optional<double>> folded_;
};

/// What an element reads through plain views and casts between floats, if it is made by one.
std::optional<ir::ValueId> behind_view(const ir::Graph& graph, ir::ValueId value);

/// Matches patterns against the element ($0, $1, ..) of one value. A view is followed to the
/// element that it reads, so that it does not matter where an exporter put reshapes and expansions;
/// a reduction matches only if it reduces values of the same shape and is read at its own row. The
/// element that is matched lies in that row, or is what the row comes to, if the pattern is per
/// row.
class Matcher {
 public:
  Matcher(MatchFacts& facts, ir::ValueId root);

  /// Every way in which the pattern matches; several where operands may be exchanged.
  std::vector<Match> match(const Pattern& pattern);

 private:
  using Matches = std::vector<Match>;
  /// A match with the constant factor (or term) that was found on the way.
  struct Weighted {
    Match match;
    double constant = 0;
  };
  using WeightedMatches = std::vector<Weighted>;
  using Parts = std::vector<const Pattern*>;

  const std::vector<Element>& chain(const Element& element);
  const ir::Node* node_of(const Element& element) const;
  Element operand(const ir::Node& node, std::size_t i, const Element& at) const;
  std::optional<double> number_of(const Element& element);
  bool close(double found, double wanted, const Element& at) const;

  Matches match_at(const Pattern& pattern, const Element& at, const Match& sofar);
  Matches match_variable(const Pattern& pattern, const Element& at, const Match& sofar);
  Matches match_call(const Pattern& pattern, const Element& at, const Match& sofar);
  std::optional<Space> space_of(const ir::Node& reduce, const Element& at);
  Matches match_reduce(const Pattern& pattern, const Element& at, const Match& sofar);
  Matches match_inverse(const Pattern& inner, const Element& at, const Match& sofar);
  WeightedMatches products(const Parts& parts, const Element& at, bool inverted,
                           const Match& sofar);
  WeightedMatches factor(const Pattern& pattern, const Element& at, bool inverted,
                         const Match& sofar);
  WeightedMatches sums(const Parts& parts, const Element& at, const Match& sofar);

  struct Before {
    bool operator()(const Element& a, const Element& b) const {
      return a.value != b.value ? a.value < b.value : a.index < b.index;
    }
  };

  MatchFacts& facts_;
  const ir::Graph& graph_;
  ir::Ranges ranges_;
  Element root_;
  int budget_ = 0;  // steps left before a match is given up
  std::map<Element, std::vector<Element>, Before> chains_;
};

}  // namespace sinter::fusion
