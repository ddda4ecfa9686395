// SPDX-License-Identifier: Apache-2.0
#include "runtime/grammar/pattern/automaton.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "runtime/format_error.h"

namespace sinter::grammar {
namespace {

constexpr std::size_t kMostStates = 20'000;    // limit for each expression
constexpr std::size_t kMostProducts = 10'000;  // limit for the product of all expressions
constexpr std::size_t kMostWork = 5'000'000;
constexpr int kMostRounds = 64;  // maximum rounds of minimization

[[noreturn]] void fail() {
  throw usage_error("it is too large: shorten the expressions or lengths, or say less at once");
}

/// Nondeterministic automaton: edges by characters, and empty edges.
struct Machine {
  struct State {
    std::vector<std::pair<Characters, int>> edges;
    std::vector<int> free;
  };
  std::vector<State> states;
  int begin = 0, end = 0;

  int add() {
    if (states.size() >= kMostStates) fail();
    states.emplace_back();
    return static_cast<int>(states.size()) - 1;
  }
  State& at(int state) { return states[static_cast<std::size_t>(state)]; }
  const State& at(int state) const { return states[static_cast<std::size_t>(state)]; }

  /// Appends the pattern's states after `from` and returns the end state.
  int append(const Pattern& pattern, int from) {
    switch (pattern.kind) {
      case Pattern::Kind::kCharacters: {
        const int to = add();
        if (!pattern.characters.empty()) at(from).edges.emplace_back(pattern.characters, to);
        return to;
      }
      case Pattern::Kind::kSequence:
        for (const Pattern& part : pattern.parts) from = append(part, from);
        return from;
      case Pattern::Kind::kChoice: {
        const int to = add();
        for (const Pattern& part : pattern.parts) {
          const int own = add();
          at(from).free.push_back(own);
          at(append(part, own)).free.push_back(to);
        }
        return to;
      }
      case Pattern::Kind::kRepeat: {
        const Pattern& part = pattern.parts.front();
        for (int i = 0; i < pattern.least; ++i) from = append(part, from);
        const int to = add();
        if (pattern.most == Pattern::kUnbounded) {
          const int loop = add();
          at(from).free.push_back(loop);
          at(append(part, loop)).free.push_back(loop);
          at(loop).free.push_back(to);
          return to;
        }
        for (int i = pattern.least; i < pattern.most; ++i) {
          at(from).free.push_back(to);
          from = append(part, from);
        }
        at(from).free.push_back(to);
        return to;
      }
      default: throw internal_error("an anchor is left");
    }
  }
};

Machine machine_of(const Pattern& pattern) {
  Machine machine;
  machine.begin = machine.add();
  machine.end = machine.append(pattern, machine.begin);
  return machine;
}

using States = std::vector<int>;  // sorted

class Product {
 public:
  Product(std::vector<Machine> machines, std::size_t wanted)
      : machines_(std::move(machines)), wanted_(wanted) {
    std::set<Character> bounds = {0};
    for (const Machine& machine : machines_)
      for (const auto& state : machine.states)
        for (const auto& [characters, _] : state.edges)
          for (const auto& [first, last] : characters.ranges()) {
            bounds.insert(first);
            bounds.insert(last + 1);
          }
    bounds_.assign(bounds.begin(), bounds.end());
  }

  Automaton run() {
    Key begin;
    for (const Machine& machine : machines_) begin.push_back(closed(machine, {machine.begin}));
    state_of(std::move(begin));
    for (std::size_t i = 0; i < keys_.size(); ++i) expand(i);
    return std::move(result_);
  }

 private:
  using Key = std::vector<States>;  // the states of each machine

  void count(std::size_t work) {
    work_ += work;
    if (work_ > kMostWork) fail();
  }

  States closed(const Machine& machine, States states) {
    std::vector<bool> seen(machine.states.size());
    for (const int state : states) seen[static_cast<std::size_t>(state)] = true;
    for (std::size_t i = 0; i < states.size(); ++i)
      for (const int next : machine.at(states[i]).free) {
        if (seen[static_cast<std::size_t>(next)]) continue;
        seen[static_cast<std::size_t>(next)] = true;
        states.push_back(next);
      }
    count(states.size() + machine.states.size() / 64);
    std::ranges::sort(states);
    return states;
  }

  int state_of(Key key) {
    const auto [at, is_new] = numbers_.emplace(std::move(key), static_cast<int>(keys_.size()));
    if (!is_new) return at->second;
    if (keys_.size() >= kMostProducts) fail();
    keys_.push_back(&at->first);
    bool accepts = true;
    for (std::size_t m = 0; m < machines_.size(); ++m) {
      const bool ends = std::ranges::binary_search(at->first[m], machines_[m].end);
      accepts = accepts && ends == (m < wanted_);
    }
    result_.states.push_back({{}, accepts});
    return at->second;
  }

  void expand(std::size_t number) {
    const Key key = *keys_[number];
    std::map<int, std::vector<Characters::Range>> edges;
    // Groups pieces of the alphabet that take the same edges.
    std::map<std::vector<std::size_t>, int> known;
    for (std::size_t piece = 0; piece < bounds_.size(); ++piece) {
      const Character first = bounds_[piece];
      if (first > 0x10FFFF) break;
      const Character last = piece + 1 < bounds_.size() ? bounds_[piece + 1] - 1 : 0x10FFFF;
      std::vector<std::size_t> taken;
      std::vector<States> next(machines_.size());
      std::size_t edge = 0;
      bool is_dead = false;
      for (std::size_t m = 0; m < machines_.size(); ++m) {
        for (const int state : key[m])
          for (const auto& [characters, to] : machines_[m].at(state).edges) {
            ++edge;
            if (!characters.contains(first)) continue;
            taken.push_back(edge);
            next[m].push_back(to);
          }
        is_dead = is_dead || (m < wanted_ && next[m].empty());
      }
      count(edge + 1);
      if (is_dead) continue;
      const auto found = known.find(taken);
      int to = 0;
      if (found != known.end()) {
        to = found->second;
      } else {
        for (std::size_t m = 0; m < machines_.size(); ++m) {
          std::ranges::sort(next[m]);
          next[m].erase(std::unique(next[m].begin(), next[m].end()), next[m].end());
          next[m] = closed(machines_[m], std::move(next[m]));
        }
        to = state_of(std::move(next));
        known.emplace(std::move(taken), to);
      }
      edges[to].emplace_back(first, last);
    }
    for (auto& [to, ranges] : edges)
      if (Characters characters(std::move(ranges)); !characters.empty())
        result_.states[number].edges.push_back({std::move(characters), to});
  }

  std::vector<Machine> machines_;
  std::size_t wanted_;  // number of machines that must accept; the others must not
  std::vector<Character> bounds_;
  std::map<Key, int> numbers_;
  std::vector<const Key*> keys_;
  Automaton result_;
  std::size_t work_ = 0;
};

/// Removes states that reach no accepting state, and merges equivalent states.
Automaton reduced(const Automaton& given) {
  const std::size_t count = given.states.size();
  std::vector<std::vector<int>> sources(count);
  std::vector<int> alive;
  std::vector<bool> is_alive(count);
  for (std::size_t i = 0; i < count; ++i) {
    for (const auto& edge : given.states[i].edges)
      sources[static_cast<std::size_t>(edge.to)].push_back(static_cast<int>(i));
    if (given.states[i].accepts) is_alive[i] = true, alive.push_back(static_cast<int>(i));
  }
  for (std::size_t i = 0; i < alive.size(); ++i)
    for (const int source : sources[static_cast<std::size_t>(alive[i])])
      if (!is_alive[static_cast<std::size_t>(source)]) {
        is_alive[static_cast<std::size_t>(source)] = true;
        alive.push_back(source);
      }
  if (count == 0 || !is_alive[0]) return {};
  // Moore's algorithm: splits classes until equivalent states have edges to equal classes.
  std::vector<int> group(count, -1);
  for (std::size_t i = 0; i < count; ++i)
    if (is_alive[i]) group[i] = given.states[i].accepts ? 1 : 0;
  using Signature = std::pair<int, std::vector<std::pair<int, std::vector<Characters::Range>>>>;
  std::size_t groups = 0;
  bool is_stable = false;
  for (int round = 0; round < kMostRounds && !is_stable; ++round) {
    std::map<Signature, int> numbers;
    std::vector<int> next(count, -1);
    for (std::size_t i = 0; i < count; ++i) {
      if (!is_alive[i]) continue;
      std::map<int, std::vector<Characters::Range>> edges;
      for (const auto& edge : given.states[i].edges) {
        const int to = group[static_cast<std::size_t>(edge.to)];
        if (to < 0) continue;
        auto& ranges = edges[to];
        const auto& more = edge.characters.ranges();
        ranges.insert(ranges.end(), more.begin(), more.end());
      }
      Signature signature{group[i], {}};
      for (auto& [to, ranges] : edges)
        signature.second.emplace_back(to, Characters(std::move(ranges)).ranges());
      next[i] =
          numbers.emplace(std::move(signature), static_cast<int>(numbers.size())).first->second;
    }
    group = std::move(next);
    is_stable = numbers.size() == groups;
    groups = numbers.size();
  }
  // Chains of more than kMostRounds states need more rounds: they stay unminimized.
  for (std::size_t i = 0; i < count && !is_stable; ++i)
    group[i] = is_alive[i] ? static_cast<int>(i) : -1;
  Automaton result;
  std::map<int, int> numbers;
  std::vector<std::size_t> of;
  const auto number_of = [&](std::size_t state) {
    const auto [at, is_new] = numbers.emplace(group[state], static_cast<int>(of.size()));
    if (is_new) of.push_back(state);
    return at->second;
  };
  number_of(0);
  for (std::size_t i = 0; i < of.size(); ++i) {
    const auto& state = given.states[of[i]];
    std::map<int, Characters> edges;
    for (const auto& edge : state.edges)
      if (is_alive[static_cast<std::size_t>(edge.to)]) {
        Characters& all = edges[number_of(static_cast<std::size_t>(edge.to))];
        all = all | edge.characters;
      }
    result.states.push_back({{}, state.accepts});
    for (auto& [to, characters] : edges)
      result.states.back().edges.push_back({std::move(characters), to});
  }
  return result;
}

}  // namespace

Automaton automaton_of(const std::vector<const Pattern*>& all,
                       const std::vector<const Pattern*>& none) {
  std::vector<Machine> machines;
  for (const Pattern* pattern : all) machines.push_back(machine_of(*pattern));
  for (const Pattern* pattern : none) machines.push_back(machine_of(*pattern));
  const Pattern any = Pattern::repeat(Pattern::of(Characters::all()), 0, Pattern::kUnbounded);
  if (all.empty()) machines.insert(machines.begin(), machine_of(any));
  return reduced(Product(std::move(machines), std::max<std::size_t>(all.size(), 1)).run());
}

bool accepts(const Automaton& automaton, std::string_view text) {
  if (automaton.states.empty()) return false;
  int state = 0;
  for (const Character one : characters_of(text)) {
    const auto& edges = automaton.states[static_cast<std::size_t>(state)].edges;
    const auto edge = std::ranges::find_if(
        edges, [&](const Automaton::Edge& each) { return each.characters.contains(one); });
    if (edge == edges.end()) return false;
    state = edge->to;
  }
  return automaton.states[static_cast<std::size_t>(state)].accepts;
}

Automaton multiples_of(int divisor) {
  // State 0 is the start, 1 follows a leading zero, 2 + r has remainder r.
  Automaton result;
  result.states.resize(static_cast<std::size_t>(divisor) + 2);
  const auto digit = [](int value) { return Characters::of(static_cast<Character>('0' + value)); };
  result.states[0].edges.push_back({digit(0), 1});
  result.states[1].accepts = true;
  result.states[2].accepts = true;
  for (int d = 1; d < 10; ++d) result.states[0].edges.push_back({digit(d), 2 + d % divisor});
  for (int rest = 0; rest < divisor; ++rest)
    for (int d = 0; d < 10; ++d)
      result.states[static_cast<std::size_t>(rest) + 2].edges.push_back(
          {digit(d), 2 + (rest * 10 + d) % divisor});
  return reduced(result);
}

Automaton both(const Automaton& one, const Automaton& other) {
  Automaton result;
  std::map<std::pair<int, int>, int> numbers;
  std::vector<std::pair<int, int>> pairs;
  const auto number_of = [&](std::pair<int, int> pair) {
    const auto [at, is_new] = numbers.emplace(pair, static_cast<int>(pairs.size()));
    if (is_new) {
      if (pairs.size() >= kMostProducts) fail();
      pairs.push_back(pair);
    }
    return at->second;
  };
  if (is_empty(one) || is_empty(other)) return {};
  number_of({0, 0});
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const auto& first = one.states[static_cast<std::size_t>(pairs[i].first)];
    const auto& second = other.states[static_cast<std::size_t>(pairs[i].second)];
    Automaton::State state{{}, first.accepts && second.accepts};
    for (const auto& edge : first.edges)
      for (const auto& beside : second.edges)
        if (Characters common = edge.characters & beside.characters; !common.empty())
          state.edges.push_back({std::move(common), number_of({edge.to, beside.to})});
    result.states.push_back(std::move(state));
  }
  return reduced(result);
}

}  // namespace sinter::grammar
