// SPDX-License-Identifier: Apache-2.0
// A bounded cache of what was captured, the least recently used entry going first.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <utility>
#include <vector>

namespace sinter::graphs {

/// What a capture depends on: bound sizes, then addresses.
using GraphKey = std::vector<std::uint64_t>;

/// Entries are shared: one that is evicted while it is in use lives on until its user lets go.
/// Capacities are small, so entries are searched in order of use; a repeated key costs one compare.
template <typename Entry>
class GraphCache {
 public:
  /// A capacity of zero counts as one: the entry in use must live somewhere.
  explicit GraphCache(std::size_t capacity) : capacity_(std::max<std::size_t>(capacity, 1)) {}

  /// Null if there is none. The entry becomes the most recently used.
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

  /// Calls `visit(const Entry&)` for all that it holds.
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
