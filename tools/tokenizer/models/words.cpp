// SPDX-License-Identifier: Apache-2.0
#include "tools/tokenizer/models/words.h"

#include <algorithm>

namespace sinter::tools {
namespace {

TokenId unknown_of(const Vocabulary& vocabulary, const std::string& name, std::string_view piece) {
  if (const auto id = vocabulary.find(name)) return *id;
  throw usage_error("the tokenizer has no token for '{}', and none for what is unknown ('{}')",
                    piece, name);
}

}  // namespace

WordPieces::WordPieces(Fields& fields) : unknown_(fields.get<std::string>("unk_token", "[UNK]")) {
  constexpr std::int64_t kMostCharacters = 100;
  vocabulary_.read(fields.at("vocab"));
  const auto prefix = fields.get<std::string>("continuing_subword_prefix", "##");
  const auto most = fields.get<std::int64_t>("max_input_chars_per_word", kMostCharacters);
  most_characters_ = static_cast<std::size_t>(std::max<std::int64_t>(most, 0));
  std::vector<std::pair<std::string_view, std::int32_t>> names;
  for (TokenId id = 0; id < vocabulary_.limit(); ++id)
    if (const auto name = vocabulary_.name_of(id); name && !name->empty())
      names.emplace_back(*name, static_cast<std::int32_t>(id));
  trie_ = ByteTrie(std::move(names));
  continues_ = trie_.walk(ByteTrie::kRoot, prefix);
}

void WordPieces::encode(std::string_view piece, std::vector<TokenId>& ids) const {
  const auto characters = static_cast<std::size_t>(
      std::ranges::count_if(piece, [](char c) { return (c & 0xC0) != 0x80; }));
  const std::size_t begin = ids.size();
  bool is_known = characters <= most_characters_;
  for (std::size_t at = 0; is_known && at < piece.size();) {
    ByteTrie::Node node = at == 0 ? ByteTrie::kRoot : continues_;
    std::size_t end = at;
    TokenId longest = ByteTrie::kNoValue;
    for (std::size_t i = at; i < piece.size() && node != ByteTrie::kNowhere; ++i) {
      node = trie_.walk(node, piece[i]);
      if (node == ByteTrie::kNowhere || trie_.value(node) == ByteTrie::kNoValue) continue;
      longest = trie_.value(node);
      end = i + 1;
    }
    is_known = end > at;
    if (is_known) ids.push_back(longest);
    at = end;
  }
  if (is_known) return;
  ids.resize(begin);
  ids.push_back(unknown_of(vocabulary_, unknown_, piece));
}

WordLevel::WordLevel(Fields& fields) : unknown_(fields.get<std::string>("unk_token", "<unk>")) {
  vocabulary_.read(fields.at("vocab"));
}

void WordLevel::encode(std::string_view piece, std::vector<TokenId>& ids) const {
  const auto id = vocabulary_.find(piece);
  ids.push_back(id ? *id : unknown_of(vocabulary_, unknown_, piece));
}

}  // namespace sinter::tools
