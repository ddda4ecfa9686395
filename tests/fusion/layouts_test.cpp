// SPDX-License-Identifier: Apache-2.0
// The choice of layouts: minimum cuts, what solve() finds, and graphs in any forms that they could
// have.
#include <algorithm>
#include <bit>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codegen/targets/cpu/cpu_target.h"
#include "codegen/targets/cuda/cuda_target.h"
#include "fusion/layouts/build_layouts.h"
#include "fusion/layouts/candidates.h"
#include "fusion/layouts/costs.h"
#include "fusion/layouts/min_cut.h"
#include "ir/text/text.h"
#include "random_graph.h"
#include "support.h"

namespace sinter::fusion::test {
namespace {

class Random {
 public:
  explicit Random(std::uint64_t seed) : random_(seed) {}
  int below(int n) { return static_cast<int>(random_() % static_cast<std::uint64_t>(n)); }

 private:
  std::mt19937_64 random_;
};

struct Arc {
  int from, to;
  std::int64_t capacity;
};

TEST(MinCut, IsTheLeastOfAllAndTheSmallestOnTheSinksSide) {
  constexpr int kNodes = 8;  // with source and sink
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Random random(seed);
    std::vector<Arc> arcs;
    MinCut cut;
    for (int i = 2; i < kNodes; ++i) cut.add_node();
    for (int i = 0; i < 20; ++i) {
      arcs.push_back({random.below(kNodes), random.below(kNodes), random.below(6)});
      cut.add_arc(static_cast<std::size_t>(arcs[i].from), static_cast<std::size_t>(arcs[i].to),
                  arcs[i].capacity);
    }
    // Bit i of `sides`: node i is on the sink's side.
    const auto capacity = [&](unsigned sides) {
      std::int64_t sum = 0;
      for (const Arc& arc : arcs)
        if ((sides >> arc.from & 1) == 0 && (sides >> arc.to & 1) == 1) sum += arc.capacity;
      return sum;
    };
    unsigned best = 2, found = 0;
    for (unsigned sides = 0; sides < 1u << kNodes; ++sides) {
      if ((sides & 3) != 2) continue;  // the source on its own side, the sink on the other
      const std::int64_t one = capacity(sides), least = capacity(best);
      if (one < least || (one == least && std::popcount(sides) < std::popcount(best))) best = sides;
    }
    const std::vector<bool> on_sink = cut.solve();
    for (int i = 0; i < kNodes; ++i) found |= on_sink[static_cast<std::size_t>(i)] ? 1u << i : 0;
    EXPECT_EQ(found, best) << "seed " << seed;
  }
}

/// A problem in which choice 0 of a node has key 0 everywhere, and choice c key c; some nodes have
/// one choice of any key.
struct Made {
  LayoutProblem problem;
  std::vector<int> choices;
};
Made random_problem(Random& random, int keys) {
  Made made;
  constexpr int kNodes = 7;
  made.problem.nodes = kNodes;
  std::vector<LayoutProblem::Side> sides;
  for (int n = 0; n < kNodes; ++n) {
    const bool is_fixed = random.below(3) == 0;
    LayoutProblem::Side side{n, {}};
    for (int key = 0; key < (is_fixed ? 1 : keys); ++key)
      side.keys.push_back(is_fixed ? random.below(keys) : key);
    made.choices.push_back(static_cast<int>(side.keys.size()));
    sides.push_back(side);
  }
  for (int t = 0; t < 12; ++t) {
    LayoutProblem::Term term{
        sides[static_cast<std::size_t>(random.below(kNodes))], {}, random.below(20)};
    if (random.below(6) == 0) term.made = {-1, {0}};
    for (int r = 1 + random.below(3); r > 0; --r)
      term.readers.push_back(sides[static_cast<std::size_t>(random.below(kNodes))]);
    made.problem.terms.push_back(term);
  }
  for (int key = keys; key-- > 0;) {
    made.problem.moves.emplace_back();
    for (int n = 0; n < kNodes; ++n)
      if (made.choices[static_cast<std::size_t>(n)] > 1)
        made.problem.moves.back().push_back({n, key});
  }
  return made;
}

std::int64_t least_cost(const Made& made) {
  std::vector<int> labels(made.choices.size(), 0);
  std::int64_t least = cost_of(made.problem, labels);
  while (true) {
    std::size_t n = 0;
    while (n < labels.size() && ++labels[n] == made.choices[n]) labels[n++] = 0;
    if (n == labels.size()) return least;
    least = std::min(least, cost_of(made.problem, labels));
  }
}

TEST(Layouts, OfTwoOrdersTheBestIsFound) {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    Random random(seed);
    Made made = random_problem(random, 2);
    made.problem.moves.resize(1);  // away from the first order; one move is enough
    const auto labels = solve(made.problem, std::vector<int>(made.choices.size(), 0));
    EXPECT_EQ(cost_of(made.problem, labels), least_cost(made)) << "seed " << seed;
  }
}

TEST(Layouts, OfSeveralOrdersAtMostTwiceTheBestIsFound) {
  int best = 0;
  constexpr int kProblems = 500;
  for (std::uint64_t seed = 0; seed < kProblems; ++seed) {
    Random random(seed);
    const Made made = random_problem(random, 4);
    const std::vector<int> first(made.choices.size(), 0);
    const std::int64_t found = cost_of(made.problem, solve(made.problem, first));
    const std::int64_t least = least_cost(made);
    EXPECT_LE(found, 2 * least) << "seed " << seed;
    EXPECT_LE(found, cost_of(made.problem, first)) << "seed " << seed;
    best += found == least ? 1 : 0;
  }
  EXPECT_GT(best, kProblems * 9 / 10);
}

TEST(Layouts, WhatCostsTheSameStays) {
  LayoutProblem problem;
  problem.nodes = 3;
  const LayoutProblem::Side first{0, {0}}, middle{1, {0, 1}}, last{2, {1}};
  problem.terms = {{first, {middle}, 5}, {middle, {last}, 5}};
  problem.moves = {{{1, 1}}, {{1, 0}}};
  EXPECT_THAT(solve(problem, {0, 0, 0}), testing::ElementsAre(0, 0, 0));
  EXPECT_THAT(solve(problem, {0, 1, 0}), testing::ElementsAre(0, 1, 0));
}

/// Values in another order are brought there once for all that read it so.
TEST(Layouts, ReadersShareATranspose) {
  LayoutProblem problem;
  problem.nodes = 4;
  problem.terms = {{{0, {0}}, {{1, {1}}, {2, {1}}, {3, {2}}}, 7}};
  EXPECT_EQ(cost_of(problem, {0, 0, 0, 0}), 14);
}

/// Whatever forms nodes have, the graph computes the same.
TEST(Layouts, AnyFormsComputeTheSame) {
  int others = 0;
  for (std::uint64_t seed = 0; seed < 500 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Graph graph = random_graph(seed, 5 + static_cast<int>(seed % 40));
    Random random(seed);
    const TargetTraits& target =
        seed % 2 == 0 ? codegen::cuda_target().traits() : codegen::cpu_target().traits();
    const Candidates candidates = find_candidates(graph, target, static_values(graph));
    std::vector<Form> forms;
    for (const auto& of_node : candidates.forms) {
      forms.push_back(
          of_node[static_cast<std::size_t>(random.below(static_cast<int>(of_node.size())))]);
      others += forms.back() == of_node[0] ? 0 : 1;
    }
    const Graph built = build_layouts(graph, forms, target);
    ir::verify(built);
    expect_equivalent(graph, built, 1e-9);
  }
  EXPECT_GT(others, 500);
}

/// What is chosen costs no more than the model's own order, whose moves are all tried.
TEST(Layouts, TheChoiceIsNoWorseThanTheModels) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const Graph graph = random_graph(seed, 30);
    const TargetTraits& target = codegen::cuda_target().traits();
    const auto known = static_values(graph);
    const LayoutProblem problem =
        layout_problem(graph, target, find_candidates(graph, target, known), known);
    const std::vector<int> first(graph.nodes().size(), 0);
    EXPECT_LE(cost_of(problem, solve(problem, first)), cost_of(problem, first)) << "seed " << seed;
  }
}

}  // namespace
}  // namespace sinter::fusion::test
