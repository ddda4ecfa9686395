// SPDX-License-Identifier: Apache-2.0
// Small sorted sets and maps in contiguous memory: regions are copied for every tried node.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace sinter::fusion {

/// A sorted set.
template <typename Key>
class SortedSet {
 public:
  auto begin() const { return keys_.begin(); }
  auto end() const { return keys_.end(); }
  std::size_t size() const { return keys_.size(); }
  bool empty() const { return keys_.empty(); }
  std::size_t count(const Key& key) const { return std::ranges::binary_search(keys_, key) ? 1 : 0; }
  void insert(const Key& key) {
    const auto at = std::ranges::lower_bound(keys_, key);
    if (at == keys_.end() || *at != key) keys_.insert(at, key);
  }
  void erase(const Key& key) {
    const auto at = std::ranges::lower_bound(keys_, key);
    if (at != keys_.end() && *at == key) keys_.erase(at);
  }

 private:
  std::vector<Key> keys_;
};

/// A sorted map; copies share values until one changes its own.
template <typename Key, typename Value>
class SortedMap {
 public:
  using Entry = std::pair<Key, std::shared_ptr<Value>>;
  /// Sorted by key; values are read-only.
  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }
  std::size_t size() const { return entries_.size(); }
  /// The value of `key`, or null.
  const Value* find(const Key& key) const {
    const auto at = lower_bound(key);
    return at != entries_.end() && at->first == key ? at->second.get() : nullptr;
  }
  std::size_t count(const Key& key) const { return find(key) != nullptr ? 1 : 0; }
  /// The value of `key`, created if absent, for modification.
  Value& change(const Key& key) {
    auto at = entries_.begin() + (lower_bound(key) - entries_.begin());
    if (at == entries_.end() || at->first != key)
      at = entries_.insert(at, {key, std::make_shared<Value>()});
    else if (at->second.use_count() > 1)
      at->second = std::make_shared<Value>(*at->second);
    return *at->second;
  }
  void erase(const Key& key) {
    const auto at = lower_bound(key);
    if (at != entries_.end() && at->first == key) entries_.erase(at);
  }

 private:
  auto lower_bound(const Key& key) const {
    return std::ranges::lower_bound(entries_, key, {}, &Entry::first);
  }
  std::vector<Entry> entries_;
};

}  // namespace sinter::fusion
