// Byte-pair encoding: merges neighbouring tokens, the pair of the lowest rank first.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

namespace sinter::tools {

using TokenId = std::int64_t;

class BytePairs {
 public:
  /// `left` and `right` become `merged`; pairs rank as they are added. A pair that is there keeps
  /// its place.
  void add(TokenId left, TokenId right, TokenId merged);

  /// Merges `tokens` until no pair is left that can be. Of pairs of one rank the leftmost is first.
  void merge(std::vector<TokenId>& tokens) const;

 private:
  struct Merge {
    std::uint32_t rank = 0;
    TokenId merged = 0;
  };
  struct PairHash {
    std::size_t operator()(const std::pair<TokenId, TokenId>& pair) const {
      const auto mixed = static_cast<std::uint64_t>(pair.first) * 0x9E3779B97F4A7C15ULL;
      return (mixed ^ mixed >> 29) +
             static_cast<std::uint64_t>(pair.second) * 0xC2B2AE3D27D4EB4FULL;
    }
  };
  std::unordered_map<std::pair<TokenId, TokenId>, Merge, PairHash> merges_;
};

}  // namespace sinter::tools
