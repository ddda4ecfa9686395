// SPDX-License-Identifier: Apache-2.0
// Graphs of several ranks: all ranks run one graph (SPMD), each on its part of the values that are
// split, and meet at collectives (ir/ops/collective.cpp). What differs between ranks follows from
// one symbol, the rank's number: a Slice that starts at `rank*n` is the rank's part of a value.
#pragma once

#include <cstdint>
#include <string_view>

#include "ir/graph.h"

namespace sinter::ir {

/// The symbol. A graph of N ranks has it among its ranges, as 0 to N - 1; no input binds it.
inline constexpr std::string_view kRankSymbol = "rank";
/// The kind of kernel of collectives (OpDef::kernel).
inline constexpr std::string_view kCollectiveKernel = "collective";

inline bool is_collective(const OpDef& op) { return op.kernel == kCollectiveKernel; }

/// The number of ranks that `graph` is for.
inline std::int64_t rank_count(const Graph& graph) {
  const auto range = graph.ranges().find(kRankSymbol);
  return range == graph.ranges().end() ? 1 : range->second.max + 1;
}

}  // namespace sinter::ir
