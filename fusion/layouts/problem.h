// SPDX-License-Identifier: Apache-2.0
// The choice of layouts as an integer problem: nodes choose among forms, and disagreements of
// layouts have costs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sinter::fusion {

struct LayoutProblem {
  /// One end of a value: the key that each choice of a variable makes or wants.
  struct Side {
    int node = -1;          // the variable; -1: constant, keys[0]
    std::vector<int> keys;  // by choice
  };
  /// Costs `weight` for each key that some reader wants and that is not made: one layout change
  /// serves all readers of that key.
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
  /// Consistent choices, which the search changes together. No node occurs twice.
  std::vector<std::vector<Choice>> moves;
};

/// For each node, indices of the terms that it is part of, ascending.
std::vector<std::vector<std::size_t>> terms_of_nodes(const LayoutProblem& problem);

/// The key of `side` if nodes choose `labels`.
int key_of(const LayoutProblem::Side& side, const std::vector<int>& labels);
/// The cost of `labels` (a choice for each node) in `term`, and in all terms.
std::int64_t cost_of(const LayoutProblem::Term& term, const std::vector<int>& labels);
std::int64_t cost_of(const LayoutProblem& problem, const std::vector<int>& labels);

/// Labels of low cost, found by moves from `labels`. Each move is a minimum cut that decides which
/// of its nodes take its choice. With one move and a single initial label the result is optimal.
/// With several, if choices of a move agree in all terms, it costs at most twice the optimum. Ties
/// keep labels.
std::vector<int> solve(const LayoutProblem& problem, std::vector<int> labels);

}  // namespace sinter::fusion
