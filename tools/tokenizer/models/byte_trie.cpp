// SPDX-License-Identifier: Apache-2.0
#include "tools/tokenizer/models/byte_trie.h"

namespace sinter::tools {

ByteTrie::ByteTrie(std::vector<std::pair<std::string_view, std::int32_t>> texts) {
  std::ranges::stable_sort(texts, {}, &std::pair<std::string_view, std::int32_t>::first);
  /// A node whose children do not exist yet, and the texts below it.
  struct Open {
    std::size_t begin, end, depth;
  };
  std::vector<Open> open = {{0, texts.size(), 0}};
  entries_.emplace_back();
  labels_.push_back(0);
  for (Node node = 0; node < open.size(); ++node) {
    auto [at, end, depth] = open[node];
    if (depth > 0 && at < end && texts[at].first.size() == depth) {
      entries_[node].value = texts[at].second;
      while (at < end && texts[at].first.size() == depth) ++at;
    }
    entries_[node].first = static_cast<Node>(entries_.size());
    while (at < end) {
      const char label = texts[at].first[depth];
      std::size_t next = at;
      while (next < end && texts[next].first[depth] == label) ++next;
      open.push_back({at, next, depth + 1});
      entries_.emplace_back();
      labels_.push_back(static_cast<unsigned char>(label));
      ++entries_[node].count;
      at = next;
    }
  }
  for (std::uint32_t i = 0; i < entries_[kRoot].count; ++i)
    root_[labels_[entries_[kRoot].first + i]] = entries_[kRoot].first + i;
}

}  // namespace sinter::tools
