// Which layouts values have, as a problem of integers: nodes choose among forms, and what lies
// otherwise than it is read costs something.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sinter::fusion {

struct LayoutProblem {
  /// One end of a value: the key that each choice of a variable makes or wants.
  struct Side {
    int node = -1;          // the variable; -1: none, keys[0] it is
    std::vector<int> keys;  // of each choice
  };
  /// Costs `weight` for each key that some reader wants and that is not the one that is made: what
  /// is brought into another order once serves all that read it so.
  struct Term {
    Side made;
    std::vector<Side> readers;
    std::int64_t weight = 0;
  };
  struct Choice {
    int node = 0, choice = 0;
    friend bool operator==(const Choice&, const Choice&) = default;
  };

  std::size_t nodes = 0;
  std::vector<Term> terms;
  /// Choices that agree with each other: what a search changes together. No node comes twice.
  std::vector<std::vector<Choice>> moves;
};

/// The numbers of the terms that each node has an end of, in order.
std::vector<std::vector<std::size_t>> terms_of_nodes(const LayoutProblem& problem);

/// The key that `side` has if nodes choose `labels`.
int key_of(const LayoutProblem::Side& side, const std::vector<int>& labels);
/// What `labels` (a choice of each node) cost in `term`, and in all terms.
std::int64_t cost_of(const LayoutProblem::Term& term, const std::vector<int>& labels);
std::int64_t cost_of(const LayoutProblem& problem, const std::vector<int>& labels);

/// Labels of little cost, by moves from `labels`. Each move is a minimum cut: which of its
/// nodes take its choice and which keep what they have. With one move from labels without
/// choice it finds the least cost; with several, where choices of a move agree in all terms, at
/// most twice the least. Equal costs leave labels as they are.
std::vector<int> solve(const LayoutProblem& problem, std::vector<int> labels);

}  // namespace sinter::fusion
