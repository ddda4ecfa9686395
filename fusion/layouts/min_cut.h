// SPDX-License-Identifier: Apache-2.0
// Minimum cuts, by Dinic's algorithm.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sinter::fusion {

/// A directed graph with capacities, cut between a source and a sink.
class MinCut {
 public:
  static constexpr std::size_t kSource = 0, kSink = 1;
  static constexpr std::int64_t kInfinite = INT64_MAX / 4;

  std::size_t add_node();
  void add_arc(std::size_t from, std::size_t to, std::int64_t capacity);
  /// The side of each node in a minimum cut: true on the sink's side. Among minimum cuts, the one
  /// with the fewest nodes on that side.
  std::vector<bool> solve();

 private:
  struct Arc {
    std::size_t to;
    std::int64_t left;  // residual capacity
  };

  bool find_levels();
  void augment();
  std::vector<bool> reaches_sink() const;

  // Arc i ^ 1 is the reverse arc.
  std::vector<Arc> arcs_;
  std::vector<std::vector<std::size_t>> from_ = std::vector<std::vector<std::size_t>>(2);
  std::vector<int> level_;
  std::vector<std::size_t> next_;
};

}  // namespace sinter::fusion
