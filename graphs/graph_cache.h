// SPDX-License-Identifier: Apache-2.0
// A bounded LRU cache of captured graphs.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <utility>
#include <vector>

namespace sinter::graphs {

/// All that a capture depends on: bound sizes, then addresses.
using GraphKey = std::vector<std::uint64_t>;

/// LRU cache of shared entries: an evicted entry lives until its last user releases it. Capacities
/// are small, so a linear search in order of use suffices; a repeated key costs one compare.
template <typename Entry>
class GraphCache {
 public:
  /// A capacity of 0 counts as 1, for the entry in use.
  explicit GraphCache(std::size_t capacity) : capacity_(std::max<std::size_t>(capacity, 1)) {}

  /// Null if absent. The entry becomes the most recently used.
  std::shared_ptr<Entry> find(const GraphKey& key) {
    for (auto at = entries_.begin(); at != entries_.end(); ++at) {
      if (at->first != key) continue;
      entries_.splice(entries_.begin(), entries_, at);
      return entries_.front().second;
    }
    return nullptr;
  }

  /// Replaces an entry with the same key, else evicts the least recently used one if full.
  void insert(GraphKey key, std::shared_ptr<Entry> entry) {
    entries_.remove_if([&](const auto& item) { return item.first == key; });
    while (entries_.size() >= capacity_) entries_.pop_back();
    entries_.emplace_front(std::move(key), std::move(entry));
  }

  /// Calls `visit(const Entry&)` for all entries.
  template <typename Visit>
  void for_each(const Visit& visit) const {
    for (const auto& [key, entry] : entries_) visit(*entry);
  }
  void clear() { entries_.clear(); }
  std::size_t size() const { return entries_.size(); }
  std::size_t capacity() const { return capacity_; }

 private:
  std::size_t capacity_;
  std::list<std::pair<GraphKey, std::shared_ptr<Entry>>> entries_;
};

}  // namespace sinter::graphs
