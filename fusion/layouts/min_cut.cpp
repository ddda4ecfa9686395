// SPDX-License-Identifier: Apache-2.0
#include "fusion/layouts/min_cut.h"

#include <algorithm>

namespace sinter::fusion {

std::size_t MinCut::add_node() {
  from_.emplace_back();
  return from_.size() - 1;
}

void MinCut::add_arc(std::size_t from, std::size_t to, std::int64_t capacity) {
  from_[from].push_back(arcs_.size());
  arcs_.push_back({to, capacity});
  from_[to].push_back(arcs_.size());
  arcs_.push_back({from, 0});
}

std::vector<bool> MinCut::solve() {
  while (find_levels()) augment();
  return reaches_sink();
}

bool MinCut::find_levels() {
  level_.assign(from_.size(), -1);
  next_.assign(from_.size(), 0);
  std::vector<std::size_t> queue{kSource};
  level_[kSource] = 0;
  for (std::size_t i = 0; i < queue.size(); ++i)
    for (const std::size_t id : from_[queue[i]]) {
      const Arc& arc = arcs_[id];
      if (arc.left == 0 || level_[arc.to] >= 0) continue;
      level_[arc.to] = level_[queue[i]] + 1;
      queue.push_back(arc.to);
    }
  return level_[kSink] >= 0;
}

/// A blocking flow by iterative depth-first search: graphs may be long chains, too deep for
/// recursion.
void MinCut::augment() {
  std::vector<std::size_t> walk;  // arcs from the source
  while (true) {
    const std::size_t at = walk.empty() ? kSource : arcs_[walk.back()].to;
    if (at == kSink) {
      std::int64_t flow = kInfinite;
      for (const std::size_t id : walk) flow = std::min(flow, arcs_[id].left);
      std::size_t kept = walk.size();
      for (std::size_t i = walk.size(); i-- > 0;) {
        arcs_[walk[i]].left -= flow;
        arcs_[walk[i] ^ 1].left += flow;
        if (arcs_[walk[i]].left == 0) kept = i;
      }
      walk.resize(kept);
      continue;
    }
    std::size_t& next = next_[at];
    const auto goes_on = [&](const Arc& arc) {
      return arc.left > 0 && level_[arc.to] == level_[at] + 1;
    };
    while (next < from_[at].size() && !goes_on(arcs_[from_[at][next]])) ++next;
    if (next < from_[at].size()) {
      walk.push_back(from_[at][next]);
    } else if (walk.empty()) {
      return;
    } else {
      const std::size_t before = arcs_[walk.back() ^ 1].to;
      walk.pop_back();
      ++next_[before];
    }
  }
}

std::vector<bool> MinCut::reaches_sink() const {
  std::vector<bool> reaches(from_.size(), false);
  std::vector<std::size_t> queue{kSink};
  reaches[kSink] = true;
  for (std::size_t i = 0; i < queue.size(); ++i)
    for (const std::size_t id : from_[queue[i]]) {
      const std::size_t other = arcs_[id].to;
      if (reaches[other] || arcs_[id ^ 1].left == 0) continue;
      reaches[other] = true;
      queue.push_back(other);
    }
  return reaches;
}

}  // namespace sinter::fusion
