// SPDX-License-Identifier: Apache-2.0
// Writes the graph that every rank runs: nodes by the ways chosen for them, and between them what
// changes how values are split.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "fusion/sharding/costs.h"

namespace sinter::fusion {

/// The least costly of `forms` to make `to` of; the first of equal ones.
Split cheapest_source(const ShardingCosts& costs, ValueId value, std::span<const Split> forms,
                      Split to);

class RankWriter {
 public:
  /// Without `costs` no collective is written: there is one form of each value.
  RankWriter(const Graph& graph, GraphBuilder& builder, Ranks ranks, const ShardingCosts* costs)
      : graph_(graph),
        builder_(builder),
        ranks_(ranks),
        costs_(costs),
        forms_(graph.values().size()) {}

  /// `value` in the new graph is `old`, split so.
  void give(ValueId old, Split split, ValueId value);
  /// `old` split so, made of what there is.
  ValueId get(ValueId old, Split to);
  /// Adds `node`; throws Error(kInternal) if a result is not what the way says.
  void add(const Node& node, const Strategy& way);

  /// The collectives so far: the value that each changes, and between which splits.
  struct Change {
    ValueId value;
    Split from, to;
  };
  const std::vector<Change>& changes() const { return changes_; }

 private:
  ValueId convert(ValueId old, ValueId value, Split from, Split to);

  const Graph& graph_;
  GraphBuilder& builder_;
  Ranks ranks_;
  const ShardingCosts* costs_;
  std::vector<std::vector<std::pair<Split, ValueId>>> forms_;  // by value of the old graph
  std::vector<Change> changes_;
};

}  // namespace sinter::fusion
