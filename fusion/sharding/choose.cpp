// SPDX-License-Identifier: Apache-2.0
#include "fusion/sharding/choose.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "fusion/sharding/rank_writer.h"

namespace sinter::fusion {
namespace {

constexpr std::size_t kKept = 32;  // partial choices

// Splits as bits. An open value is a state before its first reader, which decides how it is split.
using Forms = std::uint64_t;
constexpr Forms kOpen = Forms{1} << 63;
constexpr int kKinds = 3, kAxes = kMostAxes;  // behind the kinds: axes, shared and joined ones

int number_of(Split split) {
  if (!split.is_part()) return static_cast<int>(split.kind);
  const int group = split.is_along() ? 0 : split.is_shared ? 1 : 2;
  return kKinds + group * kAxes + split.axis;
}
Split split_of(int number) {
  if (number < kKinds) return {static_cast<Split::Kind>(number), false, 0};
  const auto axis = static_cast<std::size_t>((number - kKinds) % kAxes);
  switch ((number - kKinds) / kAxes) {
    case 0: return Split::along(axis);
    case 1: return Split::shared(axis);
    default: return Split::joined(axis);
  }
}
Forms bit_of(Split split) { return Forms{1} << number_of(split); }
/// In a fixed order, the whole value first.
std::vector<Split> splits_of(Forms forms) {
  std::vector<Split> splits;
  for (int number = 0; number < kKinds + 3 * kAxes; ++number)
    if ((forms >> number & 1) != 0) splits.push_back(split_of(number));
  return splits;
}

/// What is known of values that are read again: by value, or number of values + state for how a
/// state is split whose result is not yet there.
using Known = std::map<std::size_t, Forms>;

struct Partial {
  double cost = 0;
  int last = -1;  // index of the last choice
  Known known;
  /// Every rank has computed all, or all since it knew the same as a less costly choice.
  bool is_whole = true;
};
struct Choice {
  int before = -1;
  std::size_t way = 0;
};

class Chooser {
 public:
  Chooser(const Graph& graph, Ranks ranks, const ShardingCosts& costs)
      : graph_(graph), ranks_(ranks), costs_(costs), last_reader_(graph.values().size(), -1) {
    for (std::size_t n = 0; n < graph.nodes().size(); ++n)
      for (const ValueId input : graph.nodes()[n].inputs)
        last_reader_[input.position()] = static_cast<int>(n);
    for (std::size_t s = 0; s < graph.states().size(); ++s) {
      const ir::State& state = graph.states()[s];
      state_of_input_[graph.inputs()[static_cast<std::size_t>(state.input)].position()] = s;
      states_of_output_[graph.outputs()[static_cast<std::size_t>(state.output)].position()]
          .push_back(s);
    }
    // An output that is no state is whole.
    std::vector<bool> is_state(graph.outputs().size(), false);
    for (const ir::State& state : graph.states())
      is_state[static_cast<std::size_t>(state.output)] = true;
    for (std::size_t i = 0; i < graph.outputs().size(); ++i)
      if (!is_state[i]) whole_.insert(graph.outputs()[i].position());
  }

  ShardingChoice run() {
    Partial first;
    for (const ValueId input : graph_.inputs())
      first.known[input.position()] =
          state_of_input_.contains(input.position()) ? kOpen : bit_of(kWhole);
    std::vector<Partial> partials{first};
    for (std::size_t n = 0; n < graph_.nodes().size(); ++n) {
      ways_.push_back(strategies(graph_, graph_.nodes()[n], ranks_));
      partials = extended(partials, n);
    }
    return replayed(partials.at(0));
  }

 private:
  std::size_t key_of_state(std::size_t state) const { return graph_.values().size() + state; }

  /// The cost of `value` split so; nothing if it cannot be. Adds what is then at hand.
  std::optional<double> need(Known& known, ValueId value, Split to) const {
    if (graph_.is_constant(value)) return to == kPartial ? std::nullopt : std::optional(0.0);
    Forms& forms = known.at(value.position());
    if (forms == kOpen) {
      if (to != kWhole && (to.kind != Split::Kind::kAxis)) return std::nullopt;
      forms = known[key_of_state(state_of_input_.at(value.position()))] = bit_of(to);
      return 0.0;
    }
    if ((forms & bit_of(to)) != 0) return 0.0;
    const std::vector<Split> splits = splits_of(forms);
    const Split from = cheapest_source(costs_, value, splits, to);
    const double cost = costs_.conversion(value, from, to);
    if (!std::isfinite(cost)) return std::nullopt;
    // A part of what is whole costs nothing again.
    if (from != kWhole) forms |= bit_of(to);
    return cost;
  }

  /// What outputs and states ask of `value`, which is known now.
  std::optional<double> settle(Known& known, ValueId value) const {
    double sum = 0;
    if (whole_.contains(value.position())) {
      const auto cost = need(known, value, kWhole);
      if (!cost) return std::nullopt;
      sum += *cost;
    }
    const auto states = states_of_output_.find(value.position());
    if (states == states_of_output_.end()) return sum;
    for (const std::size_t s : states->second) {
      const auto cost = need(known, value, split_of_state(known, s, value));
      if (!cost) return std::nullopt;
      sum += *cost;
      known.erase(key_of_state(s));
    }
    return sum;
  }

  /// How state `s` is split; one that nothing has read is split as its result.
  Split split_of_state(Known& known, std::size_t s, ValueId result) const {
    if (const auto decided = known.find(key_of_state(s)); decided != known.end())
      return splits_of(decided->second).front();
    const auto forms = known.find(result.position());
    if (forms != known.end() && forms->second != kOpen)
      for (const Split split : splits_of(forms->second))
        if (split == kWhole || split.kind == Split::Kind::kAxis) return split;
    return kWhole;
  }

  std::optional<Partial> extended(const Partial& partial, std::size_t n, std::size_t w) {
    const Node& node = graph_.nodes()[n];
    const Strategy& way = ways_[n][w];
    Partial next = partial;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const auto cost = need(next.known, node.inputs[i], way.inputs[i]);
      if (!cost) return std::nullopt;
      next.cost += *cost;
    }
    next.cost += costs_.seconds(node, way);
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      next.known[node.outputs[i].position()] = bit_of(way.outputs[i]);
      const auto cost = settle(next.known, node.outputs[i]);
      if (!cost) return std::nullopt;
      next.cost += *cost;
    }
    for (const ValueId input : node.inputs)
      if (last_reader_[input.position()] == static_cast<int>(n)) next.known.erase(input.position());
    for (const ValueId output : node.outputs)
      if (last_reader_[output.position()] < 0) next.known.erase(output.position());
    return next;
  }

  std::vector<Partial> extended(const std::vector<Partial>& partials, std::size_t n) {
    std::vector<Partial> all;
    std::map<Known, std::size_t> by_known;
    for (const Partial& partial : partials)
      for (std::size_t w = 0; w < ways_[n].size(); ++w) {
        std::optional<Partial> next = extended(partial, n, w);
        if (!next) continue;
        const auto [known, is_new] = by_known.emplace(next->known, all.size());
        if (!is_new && all[known->second].cost <= next->cost) {
          all[known->second].is_whole |= partial.is_whole && w == 0;
          continue;
        }
        next->is_whole = partial.is_whole && w == 0;
        choices_.push_back({partial.last, w});
        next->last = static_cast<int>(choices_.size()) - 1;
        if (is_new) {
          all.push_back(std::move(*next));
        } else {
          next->is_whole |= all[known->second].is_whole;
          all[known->second] = std::move(*next);
        }
      }
    std::ranges::stable_sort(all, {}, &Partial::cost);
    if (all.size() <= kKept) return all;
    // One goes on that computes all: what ranks save by a split they pay later, where they meet.
    const auto whole = std::ranges::find_if(all, &Partial::is_whole);
    if (whole != all.end() && whole - all.begin() >= static_cast<std::ptrdiff_t>(kKept))
      std::swap(all[kKept - 1], *whole);
    all.resize(kKept);
    return all;
  }

  ShardingChoice replayed(const Partial& best) const {
    std::vector<std::size_t> chosen(graph_.nodes().size());
    int at = best.last;
    for (std::size_t n = chosen.size(); n-- > 0; at = choices_[static_cast<std::size_t>(at)].before)
      chosen[n] = choices_[static_cast<std::size_t>(at)].way;
    ShardingChoice choice;
    choice.state_splits.resize(graph_.states().size());
    for (std::size_t n = 0; n < chosen.size(); ++n) choice.ways.push_back(ways_[n][chosen[n]]);
    replay_states(choice);
    return choice;
  }

  /// How the first reader, or else the result, splits each state.
  void replay_states(ShardingChoice& choice) const {
    std::vector<bool> is_decided(choice.state_splits.size(), false);
    const auto decide = [&](std::size_t s, Split split) {
      if (!is_decided[s]) choice.state_splits[s] = split;
      is_decided[s] = true;
    };
    for (std::size_t n = 0; n < choice.ways.size(); ++n) {
      const Node& node = graph_.nodes()[n];
      for (std::size_t i = 0; i < node.inputs.size(); ++i)
        if (const auto s = state_of_input_.find(node.inputs[i].position());
            s != state_of_input_.end())
          decide(s->second, choice.ways[n].inputs[i]);
      for (std::size_t i = 0; i < node.outputs.size(); ++i) {
        const auto states = states_of_output_.find(node.outputs[i].position());
        if (states == states_of_output_.end()) continue;
        const Split split = choice.ways[n].outputs[i];
        // As in settle(): an output that is whole, too, is so first.
        const bool is_whole = whole_.contains(node.outputs[i].position());
        for (const std::size_t s : states->second)
          decide(s, split.kind == Split::Kind::kAxis && !is_whole ? split : kWhole);
      }
    }
  }

  const Graph& graph_;
  Ranks ranks_;
  const ShardingCosts& costs_;
  std::vector<int> last_reader_;
  std::map<std::size_t, std::size_t> state_of_input_;
  std::map<std::size_t, std::vector<std::size_t>> states_of_output_;
  std::set<std::size_t> whole_;
  std::vector<std::vector<Strategy>> ways_;  // by node
  std::vector<Choice> choices_;
};

}  // namespace

ShardingChoice choose_splits(const Graph& graph, Ranks ranks, const ShardingCosts& costs) {
  return Chooser(graph, ranks, costs).run();
}

}  // namespace sinter::fusion
