// SPDX-License-Identifier: Apache-2.0
// A trie of texts, for matching at a position of another text.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace sinter::tools {

class ByteTrie {
 public:
  using Node = std::uint32_t;
  static constexpr Node kRoot = 0, kNowhere = static_cast<Node>(-1);
  static constexpr std::int32_t kNoValue = -1;

  ByteTrie() = default;
  /// Builds the trie of non-empty texts with values; the first of equal texts counts.
  explicit ByteTrie(std::vector<std::pair<std::string_view, std::int32_t>> texts);

  bool is_empty() const { return labels_.size() < 2; }
  Node walk(Node node, char byte) const {
    const auto label = static_cast<unsigned char>(byte);
    if (node == kRoot) return root_[label];
    const Entry& entry = entries_[node];
    const auto* const begin = labels_.data() + entry.first;
    const auto* const found = std::lower_bound(begin, begin + entry.count, label);
    if (found == begin + entry.count || *found != label) return kNowhere;
    return static_cast<Node>(found - labels_.data());
  }
  Node walk(Node node, std::string_view text) const {
    for (const char byte : text) {
      if (node == kNowhere) break;
      node = walk(node, byte);
    }
    return node;
  }
  /// kNoValue if no text ends here.
  std::int32_t value(Node node) const { return entries_[node].value; }

 private:
  /// A node's children are contiguous and sorted.
  struct Entry {
    Node first = 0;
    std::uint16_t count = 0;
    std::int32_t value = kNoValue;
  };
  std::vector<Entry> entries_;
  std::vector<unsigned char> labels_;  // label of the edge to each node
  std::vector<Node> root_ = std::vector<Node>(256, kNowhere);
};

}  // namespace sinter::tools
