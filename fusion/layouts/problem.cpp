// SPDX-License-Identifier: Apache-2.0
#include "fusion/layouts/problem.h"

#include <algorithm>
#include <optional>
#include <set>

#include "fusion/layouts/min_cut.h"

namespace sinter::fusion {
namespace {

using Term = LayoutProblem::Term;
using Side = LayoutProblem::Side;
using Move = std::vector<LayoutProblem::Choice>;

/// One expansion move as a cut: nodes on the sink's side take the move's choice.
class Expansion {
 public:
  Expansion(const std::vector<int>& labels, const Move& move, std::vector<int>& in_move)
      : labels_(labels), move_(move), in_move_(in_move) {
    for (std::size_t i = 0; i < move.size(); ++i) {
      in_move_[static_cast<std::size_t>(move[i].node)] = static_cast<int>(i);
      cut_.add_node();
    }
  }
  ~Expansion() {
    for (const auto& one : move_) in_move_[static_cast<std::size_t>(one.node)] = -1;
  }
  Expansion(const Expansion&) = delete;
  Expansion& operator=(const Expansion&) = delete;

  void add(const Term& term) {
    const End made = end_of(term.made);
    std::vector<End> readers;
    std::set<int> keys;
    for (const Side& side : term.readers) {
      readers.push_back(end_of(side));
      keys.insert({readers.back().kept, readers.back().taken});
    }
    for (const int key : keys) add(key, made, readers, term.weight);
  }

  /// Solves the cut; returns the choices that are taken.
  Move solve() {
    const std::vector<bool> takes = cut_.solve();
    Move taken;
    for (std::size_t i = 0; i < move_.size(); ++i)
      if (takes[cut_node(static_cast<int>(i))]) taken.push_back(move_[i]);
    return taken;
  }

 private:
  struct End {
    int in_move = -1;  // index in the move, or -1
    int kept, taken;   // keys
  };

  static std::size_t cut_node(int in_move) { return static_cast<std::size_t>(in_move) + 2; }

  End end_of(const Side& side) const {
    const int kept = key_of(side, labels_);
    const int in_move = side.node < 0 ? -1 : in_move_[static_cast<std::size_t>(side.node)];
    if (in_move < 0) return {-1, kept, kept};
    const int choice = move_[static_cast<std::size_t>(in_move)].choice;
    return {in_move, kept, side.keys[static_cast<std::size_t>(choice)]};
  }

  /// Adds cost `weight` if a reader wants `key` and it is not made. If choices of a move disagree,
  /// no cut expresses this exactly; the arcs added cost at least as much, and solve() evaluates the
  /// true cost.
  void add(int key, const End& made, const std::vector<End>& readers, std::int64_t weight) {
    if (made.kept == key && made.taken == key) return;
    bool always = false;
    std::vector<std::size_t> while_kept, once_taken;  // readers that want it
    for (const End& reader : readers) {
      if (reader.kept == key && reader.taken == key)
        always = true;
      else if (reader.kept == key)
        while_kept.push_back(cut_node(reader.in_move));
      else if (reader.taken == key)
        once_taken.push_back(cut_node(reader.in_move));
    }
    if (made.kept == key) {  // not made if taken
      if (always || !once_taken.empty())
        cut_.add_arc(MinCut::kSource, cut_node(made.in_move), weight);
      else if (!while_kept.empty())
        cut_.add_arc(any_kept(while_kept), cut_node(made.in_move), weight);
    } else if (made.taken == key) {  // not made if kept
      if (always || !while_kept.empty())
        cut_.add_arc(cut_node(made.in_move), MinCut::kSink, weight);
      else if (!once_taken.empty())
        cut_.add_arc(cut_node(made.in_move), any_taken(once_taken), weight);
    } else if (!always) {
      if (!while_kept.empty()) cut_.add_arc(any_kept(while_kept), MinCut::kSink, weight);
      if (!once_taken.empty()) cut_.add_arc(MinCut::kSource, any_taken(once_taken), weight);
    }
  }

  /// A node that is on the source's side if one of `nodes` is.
  std::size_t any_kept(const std::vector<std::size_t>& nodes) {
    if (nodes.size() == 1) return nodes[0];
    const std::size_t all = cut_.add_node();
    for (const std::size_t one : nodes) cut_.add_arc(one, all, MinCut::kInfinite);
    return all;
  }

  /// A node that is on the sink's side if one of `nodes` is.
  std::size_t any_taken(const std::vector<std::size_t>& nodes) {
    if (nodes.size() == 1) return nodes[0];
    const std::size_t all = cut_.add_node();
    for (const std::size_t one : nodes) cut_.add_arc(all, one, MinCut::kInfinite);
    return all;
  }

  const std::vector<int>& labels_;
  const Move& move_;
  std::vector<int>& in_move_;  // index in the move by node, or -1
  MinCut cut_;
};

}  // namespace

std::vector<std::vector<std::size_t>> terms_of_nodes(const LayoutProblem& problem) {
  std::vector<std::vector<std::size_t>> result(problem.nodes);
  for (std::size_t i = 0; i < problem.terms.size(); ++i) {
    const auto touch = [&](const Side& side) {
      if (side.node < 0) return;
      auto& terms = result[static_cast<std::size_t>(side.node)];
      if (terms.empty() || terms.back() != i) terms.push_back(i);
    };
    touch(problem.terms[i].made);
    for (const Side& reader : problem.terms[i].readers) touch(reader);
  }
  return result;
}

int key_of(const Side& side, const std::vector<int>& labels) {
  return side.node < 0
             ? side.keys[0]
             : side.keys[static_cast<std::size_t>(labels[static_cast<std::size_t>(side.node)])];
}

std::int64_t cost_of(const Term& term, const std::vector<int>& labels) {
  std::vector<int> moved;
  const int made = key_of(term.made, labels);
  for (const Side& reader : term.readers) {
    const int key = key_of(reader, labels);
    if (key != made && std::ranges::find(moved, key) == moved.end()) moved.push_back(key);
  }
  return term.weight * static_cast<std::int64_t>(moved.size());
}

std::int64_t cost_of(const LayoutProblem& problem, const std::vector<int>& labels) {
  std::int64_t cost = 0;
  for (const Term& term : problem.terms) cost += cost_of(term, labels);
  return cost;
}

std::vector<int> solve(const LayoutProblem& problem, std::vector<int> labels) {
  // Models converge in two rounds.
  constexpr int kMaxRounds = 4;
  const auto terms_of = terms_of_nodes(problem);
  std::vector<int> in_move(problem.nodes, -1);
  for (int round = 0; round < kMaxRounds; ++round) {
    bool improved = false;
    for (const Move& move : problem.moves) {
      std::vector<std::size_t> touched;
      for (const auto& one : move) {
        const auto& terms = terms_of[static_cast<std::size_t>(one.node)];
        touched.insert(touched.end(), terms.begin(), terms.end());
      }
      std::ranges::sort(touched);
      touched.erase(std::unique(touched.begin(), touched.end()), touched.end());
      const auto cost = [&] {
        std::int64_t sum = 0;
        for (const std::size_t i : touched) sum += cost_of(problem.terms[i], labels);
        return sum;
      };
      const std::int64_t before = cost();
      if (before == 0) continue;
      Expansion expansion(labels, move, in_move);
      for (const std::size_t i : touched) expansion.add(problem.terms[i]);
      Move taken = expansion.solve();
      const auto exchange = [&] {
        for (auto& [node, choice] : taken)
          std::swap(labels[static_cast<std::size_t>(node)], choice);
      };
      exchange();
      if (cost() < before)
        improved = true;
      else
        exchange();
    }
    if (!improved) break;
  }
  return labels;
}

}  // namespace sinter::fusion
