// SPDX-License-Identifier: Apache-2.0
// What a way costs: the node's own time, and changes of how values are split.
#pragma once

#include "fusion/sharding/strategies.h"

namespace sinter::fusion {

class ShardingCosts {
 public:
  ShardingCosts(const Graph& graph, const ShardingOptions& options, Ranks ranks);

  /// Bytes that a rank reads and writes, for a typical shape.
  double bytes(const Node& node, const Strategy& way) const;
  /// Seconds: the longer of moving these bytes and of multiplying.
  double seconds(const Node& node, const Strategy& way) const;
  /// Seconds to make `to` of `from`; infinite if that cannot be.
  double conversion(ValueId value, Split from, Split to) const;
  /// Bytes of a value as it is split.
  double bytes(ValueId value, Split split) const;

 private:
  double operations(const Node& node) const;

  const Graph& graph_;
  const ShardingOptions& options_;
  Ranks ranks_;
  std::vector<double> bytes_;  // of whole values
};

}  // namespace sinter::fusion
