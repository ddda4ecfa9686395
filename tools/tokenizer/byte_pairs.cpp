#include "tools/tokenizer/byte_pairs.h"

#include <queue>
#include <tuple>

namespace sinter::tools {

void BytePairs::add(TokenId left, TokenId right, TokenId merged) {
  merges_.try_emplace({left, right}, Merge{static_cast<std::uint32_t>(merges_.size()), merged});
}

void BytePairs::merge(std::vector<TokenId>& tokens) const {
  constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  constexpr TokenId kGone = -1;
  struct Link {
    std::size_t before, behind;
  };
  struct Candidate {
    std::uint32_t rank;
    std::size_t at, other;
    TokenId left, right, merged;
    bool operator>(const Candidate& c) const { return std::tie(rank, at) > std::tie(c.rank, c.at); }
  };
  const std::size_t count = tokens.size();
  std::vector<Link> links(count);
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue;
  const auto consider = [&](std::size_t at, std::size_t other) {
    if (at == kNone || other == kNone) return;
    const auto found = merges_.find({tokens[at], tokens[other]});
    if (found != merges_.end())
      queue.push({found->second.rank, at, other, tokens[at], tokens[other], found->second.merged});
  };
  for (std::size_t i = 0; i < count; ++i)
    links[i] = {i == 0 ? kNone : i - 1, i + 1 == count ? kNone : i + 1};
  for (std::size_t i = 0; i + 1 < count; ++i) consider(i, i + 1);
  while (!queue.empty()) {
    const Candidate c = queue.top();
    queue.pop();
    // Either side may have become part of another token since.
    if (tokens[c.at] != c.left || tokens[c.other] != c.right || links[c.at].behind != c.other)
      continue;
    tokens[c.at] = c.merged;
    tokens[c.other] = kGone;
    links[c.at].behind = links[c.other].behind;
    if (links[c.at].behind != kNone) links[links[c.at].behind].before = c.at;
    consider(links[c.at].before, c.at);
    consider(c.at, links[c.at].behind);
  }
  std::erase(tokens, kGone);
}

}  // namespace sinter::tools
