// SPDX-License-Identifier: Apache-2.0
#include "tools/tokenizer/models/unigram.h"

#include <algorithm>
#include <limits>

#include "tools/tokenizer/unicode/unicode.h"

namespace sinter::tools {

Unigram::Unigram(Fields& fields) {
  std::vector<std::pair<std::string_view, std::int32_t>> names;
  least_ = std::numeric_limits<double>::infinity();
  const Fields::Json& entries = fields.at("vocab");
  if (!entries.is_array()) throw usage_error("not a tokenizer.json: {}: vocab", fields.what());
  for (const Fields::Json& entry : entries) {
    if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() || !entry[1].is_number())
      throw usage_error("not a tokenizer.json: {} has the entry {}", fields.what(), entry.dump());
    const auto score = entry[1].get<double>();
    vocabulary_.add(entry[0].get<std::string>(), static_cast<TokenId>(scores_.size()));
    scores_.push_back(score);
    least_ = std::min(least_, score);
  }
  for (TokenId id = vocabulary_.limit(); id-- > 0;)  // the last of equal names counts
    if (const auto name = vocabulary_.name_of(id); name && !name->empty())
      names.emplace_back(*name, static_cast<std::int32_t>(id));
  trie_ = ByteTrie(std::move(names));
  if (fields.find("unk_id") != nullptr) {
    unknown_ = fields.get<TokenId>("unk_id");
    if (*unknown_ < 0 || *unknown_ >= vocabulary_.limit())
      throw usage_error("tokenizer: unk_id {} is none of {} tokens", *unknown_,
                        vocabulary_.limit());
  }
  if (fields.get("byte_fallback", false)) {
    byte_tokens_.emplace();
    for (std::size_t byte = 0; byte < 256; ++byte)
      (*byte_tokens_)[byte] = vocabulary_.find(fmt::format("<0x{:02X}>", byte));
  }
}

void Unigram::fail(std::string_view part) {
  throw usage_error("the tokenizer has no token for '{}', and none for what is unknown", part);
}

void Unigram::encode_part(std::string_view part, std::vector<TokenId>& ids) const {
  if (const auto id = vocabulary_.find(part)) return ids.push_back(*id);
  if (byte_tokens_) {
    const auto token_of = [&](char c) { return (*byte_tokens_)[static_cast<unsigned char>(c)]; };
    if (std::ranges::all_of(part, [&](char c) { return token_of(c).has_value(); })) {
      for (const char c : part) ids.push_back(*token_of(c));
      return;
    }
  }
  if (!unknown_) fail(part);
  ids.push_back(*unknown_);
}

void Unigram::encode(std::string_view piece, std::vector<TokenId>& ids) const {
  constexpr double kUnknownPenalty = 10;  // as in SentencePiece
  constexpr std::uint32_t kNowhere = std::numeric_limits<std::uint32_t>::max();
  struct Best {  // best segmentation that ends here
    double score = 0;
    std::uint32_t begin = kNowhere;  // begin of its last part
    std::int32_t id = 0;
  };
  std::vector<Best> ends(piece.size() + 1);
  for (std::size_t at = 0; at < piece.size();) {
    const std::size_t character = std::min(piece.size() - at, unicode::length_of(piece[at]));
    const auto offer = [&](std::size_t end, double score, TokenId id) {
      Best& best = ends[end];
      score += ends[at].score;
      if (best.begin == kNowhere || score > best.score)
        best = {score, static_cast<std::uint32_t>(at), static_cast<std::int32_t>(id)};
    };
    bool has_character = false;
    ByteTrie::Node node = ByteTrie::kRoot;
    for (std::size_t end = at; end < piece.size();) {
      node = trie_.walk(node, piece[end++]);
      if (node == ByteTrie::kNowhere) break;
      const std::int32_t id = trie_.value(node);
      if (id == ByteTrie::kNoValue) continue;
      offer(end, scores_[static_cast<std::size_t>(id)], id);
      has_character = has_character || end == at + character;
    }
    if (!has_character) {
      if (!unknown_) fail(piece.substr(at, character));
      offer(at + character, least_ - kUnknownPenalty, *unknown_);
    }
    at += character;
  }
  std::vector<std::pair<std::size_t, std::size_t>> parts;  // from right to left
  bool was_unknown = false;                                // adjacent unknown parts are one part
  for (std::size_t end = piece.size(); end > 0;) {
    const Best& best = ends[end];
    const bool is_unknown = unknown_ && best.id == *unknown_;
    if (is_unknown && was_unknown)
      parts.back().first = best.begin;
    else
      parts.emplace_back(best.begin, end);
    was_unknown = is_unknown;
    end = best.begin;
  }
  for (auto part = parts.rbegin(); part != parts.rend(); ++part)
    encode_part(piece.substr(part->first, part->second - part->first), ids);
}

}  // namespace sinter::tools
