// SPDX-License-Identifier: Apache-2.0
#include "tools/tokenizer/models/byte_pairs.h"

#include <algorithm>
#include <bit>
#include <queue>
#include <tuple>

#include "tools/tokenizer/unicode/unicode.h"

namespace sinter::tools {

void BytePairs::Merges::reserve(std::size_t count) {
  slots_.assign(std::bit_ceil(count * 2 + 2), {});
  mask_ = slots_.size() - 1;
}

void BytePairs::Merges::add(TokenId left, TokenId right, Merge merge) {
  const std::uint64_t key = key_of(left, right);
  std::size_t at = place_of(key);
  while (slots_[at].key != kFree && slots_[at].key != key) at = (at + 1) & mask_;
  slots_[at] = {key, merge};  // the last of equal pairs counts
}

BytePairs::BytePairs(Fields& fields)
    : prefix_(fields.get<std::string>("continuing_subword_prefix", "")),
      suffix_(fields.get<std::string>("end_of_word_suffix", "")),
      fuses_unknown_(fields.get("fuse_unk", false)),
      falls_back_to_bytes_(fields.get("byte_fallback", false)),
      ignores_merges_(fields.get("ignore_merges", false)) {
  vocabulary_.read(fields.at("vocab"));
  if (fields.find("unk_token") != nullptr) unknown_ = fields.get<std::string>("unk_token");
  if (const auto dropout = fields.get("dropout", 0.0); dropout == 1)
    merges_none_ = true;
  else if (dropout != 0)
    unsupported_part(fmt::format(
        "dropout {} of {}, which leaves out merges at random, as in training (write null)", dropout,
        fields.what()));
  read_merges(fields.at("merges"));
  constexpr char32_t kCharacters = 0x10000;
  if (prefix_.empty() && suffix_.empty()) {
    characters_.assign(kCharacters, -1);
    // Names of one character, which are few of all.
    constexpr std::size_t kLongest = 3;
    for (TokenId id = 0; id < vocabulary_.limit(); ++id) {
      const auto name = vocabulary_.name_of(id);
      if (!name || name->empty() || name->size() > kLongest) continue;
      std::size_t at = 0;
      const char32_t code = unicode::next_character(*name, at);
      if (at == name->size() && code < kCharacters)
        characters_[code] = static_cast<std::int32_t>(*vocabulary_.find(*name));
    }
  }
  for (std::size_t byte = 0; byte < 256; ++byte)
    byte_tokens_[byte] = vocabulary_.find(fmt::format("<0x{:02X}>", byte));
}

void BytePairs::read_merges(const Fields::Json& merges) {
  if (!merges.is_array()) throw usage_error("not a tokenizer.json: the merges are no array");
  const auto require = [&](std::string_view name, const char* what) {
    if (const auto id = vocabulary_.find(name)) return *id;
    throw usage_error("tokenizer: {} '{}' is not in the vocabulary", what, name);
  };
  merges_.reserve(merges.size());
  std::uint32_t rank = 0;
  for (const Fields::Json& merge : merges) {
    std::string_view left, right;
    if (merge.is_string()) {
      const std::string_view text = merge.get_ref<const std::string&>();
      if (text.starts_with("#version")) continue;
      const auto space = text.find(' ');
      if (space == std::string_view::npos || text.find(' ', space + 1) != std::string_view::npos)
        throw usage_error("tokenizer: the merge '{}' is no pair", text);
      left = text.substr(0, space), right = text.substr(space + 1);
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() &&
               merge[1].is_string()) {
      left = merge[0].get_ref<const std::string&>(), right = merge[1].get_ref<const std::string&>();
    } else {
      throw usage_error("tokenizer: the merge {} is no pair", merge.dump());
    }
    const TokenId first = require(left, "the merge's"), second = require(right, "the merge's");
    if (right.size() < prefix_.size())
      throw usage_error("tokenizer: the merge's '{}' is shorter than '{}'", right, prefix_);
    std::string whole(left);
    whole += right.substr(prefix_.size());
    const TokenId merged = require(whole, "the merge's result");
    merges_.add(first, second, {rank++, static_cast<std::int32_t>(merged)});
  }
}

std::optional<TokenId> BytePairs::find_character(std::string_view piece, std::size_t begin,
                                                 std::size_t end) const {
  const std::string_view character = piece.substr(begin, end - begin);
  if (prefix_.empty() && suffix_.empty()) return vocabulary_.find(character);
  std::string name = begin > 0 ? prefix_ : "";
  name += character;
  if (end == piece.size()) name += suffix_;
  return vocabulary_.find(name);
}

bool BytePairs::spell_bytes(std::string_view text, std::vector<std::int32_t>& tokens) const {
  const auto token_of = [&](char c) { return byte_tokens_[static_cast<unsigned char>(c)]; };
  if (!std::ranges::all_of(text, [&](char c) { return token_of(c).has_value(); })) return false;
  for (const char c : text) tokens.push_back(static_cast<std::int32_t>(*token_of(c)));
  return true;
}

void BytePairs::spell(std::string_view piece, std::vector<std::int32_t>& tokens) const {
  bool has_unknown = false;  // an unknown token is pending, since bytes after it may merge with it
  const auto unknown = [&] {
    if (const auto id = vocabulary_.find(*unknown_)) return static_cast<std::int32_t>(*id);
    throw usage_error("tokenizer: unk_token '{}' is not in the vocabulary", *unknown_);
  };
  for (std::size_t at = 0; at < piece.size();) {
    const std::size_t begin = at;
    const char32_t code = unicode::next_character(piece, at);
    std::int32_t id = -1;
    if (code < characters_.size())
      id = characters_[code];
    else if (const auto found = find_character(piece, begin, at))
      id = static_cast<std::int32_t>(*found);
    if (id >= 0) {
      if (std::exchange(has_unknown, false)) tokens.push_back(unknown());
      tokens.push_back(id);
      continue;
    }
    if (falls_back_to_bytes_) {
      std::string text = begin > 0 ? prefix_ : "";
      text += piece.substr(begin, at - begin);
      if (at == piece.size()) text += suffix_;
      if (spell_bytes(text, tokens)) continue;
    }
    if (!unknown_) continue;
    unknown();  // known to exist
    if (has_unknown && !fuses_unknown_) tokens.push_back(unknown());
    has_unknown = true;
  }
  if (has_unknown) tokens.push_back(unknown());
}

void BytePairs::encode(std::string_view piece, std::vector<TokenId>& ids) const {
  if (ignores_merges_ && !merges_none_)
    if (const auto id = vocabulary_.find(piece)) return ids.push_back(*id);
  thread_local std::vector<std::int32_t> tokens;
  tokens.clear();
  spell(piece, tokens);
  if (!merges_none_ && tokens.size() > 1) merge(tokens);
  ids.insert(ids.end(), tokens.begin(), tokens.end());
}

void BytePairs::merge(std::vector<std::int32_t>& tokens) const {
  constexpr std::size_t kFew = 48;  // below this, a linear search over all pairs is faster than a
                                    // queue
  constexpr std::uint32_t kNone = static_cast<std::uint32_t>(-1);
  std::size_t count = tokens.size();
  if (count > kFew) return merge_many(tokens);
  std::array<std::uint32_t, kFew> ranks;  // rank of each token with the next
  std::array<std::int32_t, kFew> merged;
  const auto look = [&](std::size_t at) {
    const Merge* const found = at + 1 < count ? merges_.find(tokens[at], tokens[at + 1]) : nullptr;
    ranks[at] = found == nullptr ? kNone : found->rank;
    if (found != nullptr) merged[at] = found->merged;
  };
  for (std::size_t i = 0; i < count; ++i) look(i);
  while (count > 1) {
    std::size_t best = 0;
    for (std::size_t i = 1; i + 1 < count; ++i)
      if (ranks[i] < ranks[best]) best = i;
    if (ranks[best] == kNone) break;
    tokens[best] = merged[best];
    for (std::size_t i = best + 1; i + 1 < count; ++i) {
      tokens[i] = tokens[i + 1];
      ranks[i] = ranks[i + 1];
      merged[i] = merged[i + 1];
    }
    --count;
    look(best);
    if (best > 0) look(best - 1);
  }
  tokens.resize(count);
}

void BytePairs::merge_many(std::vector<std::int32_t>& tokens) const {
  constexpr std::uint32_t kNone = static_cast<std::uint32_t>(-1);
  constexpr std::int32_t kGone = -1;
  struct Link {
    std::uint32_t before, behind;
  };
  struct Candidate {
    std::uint32_t rank, at, other;
    std::int32_t left, right, merged;
    bool operator>(const Candidate& c) const { return std::tie(rank, at) > std::tie(c.rank, c.at); }
  };
  const auto count = static_cast<std::uint32_t>(tokens.size());
  std::vector<Link> links(count);
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue;
  const auto consider = [&](std::uint32_t at, std::uint32_t other) {
    if (at == kNone || other == kNone) return;
    if (const Merge* const found = merges_.find(tokens[at], tokens[other]))
      queue.push({found->rank, at, other, tokens[at], tokens[other], found->merged});
  };
  for (std::uint32_t i = 0; i < count; ++i)
    links[i] = {i == 0 ? kNone : i - 1, i + 1 == count ? kNone : i + 1};
  for (std::uint32_t i = 0; i + 1 < count; ++i) consider(i, i + 1);
  while (!queue.empty()) {
    const Candidate c = queue.top();
    queue.pop();
    // Either side may have merged with another token since.
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
