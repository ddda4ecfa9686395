#include "tools/tokenizer/unigram.h"

#include <algorithm>
#include <limits>

#include "runtime/engine/utf8.h"

namespace sinter::tools {

void Unigram::add(const std::string& piece, double score) {
  least_ = scores_.empty() ? score : std::min(least_, score);
  longest_ = std::max(longest_, piece.size());
  scores_.insert_or_assign(piece, score);
}

void Unigram::cut(std::string_view text, std::vector<std::string_view>& parts) const {
  constexpr double kUnknownPenalty = 10;  // as SentencePiece has it
  constexpr std::size_t kNowhere = std::numeric_limits<std::size_t>::max();
  struct Best {  // way to an end of the text
    double score = 0;
    std::size_t begin = kNowhere;  // of its last piece
    bool is_unknown = false;
  };
  std::vector<Best> ends(text.size() + 1);
  std::string piece;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t character =
        std::min(text.size() - at, std::max<std::size_t>(1, engine::utf8_length(text[at])));
    const auto offer = [&](std::size_t length, double score, bool is_unknown) {
      Best& best = ends[at + length];
      score += ends[at].score;
      if (best.begin == kNowhere || score > best.score) best = {score, at, is_unknown};
    };
    bool has_character = false;
    for (std::size_t length = 1; length <= std::min(longest_, text.size() - at); ++length) {
      piece.assign(text.substr(at, length));
      const auto found = scores_.find(piece);
      if (found == scores_.end()) continue;
      offer(length, found->second, false);
      has_character = has_character || length == character;
    }
    if (!has_character) offer(character, least_ - kUnknownPenalty, true);
    at += character;
  }
  const std::size_t first = parts.size();
  for (std::size_t end = text.size(); end > 0;) {
    std::size_t begin = ends[end].begin;
    if (ends[end].is_unknown)
      while (begin > 0 && ends[begin].is_unknown) begin = ends[begin].begin;
    parts.push_back(text.substr(begin, end - begin));
    end = begin;
  }
  std::reverse(parts.begin() + static_cast<std::ptrdiff_t>(first), parts.end());
}

}  // namespace sinter::tools
