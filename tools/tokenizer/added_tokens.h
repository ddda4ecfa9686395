// SPDX-License-Identifier: Apache-2.0
// Added tokens: names that are matched in a text before the tokenizer's model runs.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tools/tokenizer/models/byte_trie.h"
#include "tools/tokenizer/models/model.h"
#include "tools/tokenizer/parts/normalizers.h"

namespace sinter::tools {

class AddedTokens {
 public:
  /// `tokens` = null: none. Ids are those of Hugging Face's library: the model's for known names,
  /// else consecutive ones. Throws Error(kUsage) for an invalid list.
  void read(const Fields::Json* tokens, const Model& model, const Normalizers& normalizers);

  std::optional<TokenId> find(std::string_view name) const;
  /// The input of decoders: the token's name, normalized if it is matched in normalized text.
  std::optional<std::string_view> text_of(TokenId id) const;
  bool is_special(TokenId id) const;
  /// Whether decoding omits a token with this text when it skips special ones.
  bool is_special_text(std::string_view text) const { return special_.contains(std::string(text)); }
  TokenId limit() const { return limit_; }

  /// Calls `use(begin, end, id)` for the parts of `text` in order; text has no id. `normalized`
  /// selects the tokens that are matched in normalized text, else the others.
  void find_all(
      std::string_view text, bool normalized,
      const std::function<void(std::size_t, std::size_t, std::optional<TokenId>)>& use) const;
  bool has(bool normalized) const { return !tries_[normalized ? 1 : 0].is_empty(); }

 private:
  struct Token {
    std::string name, text;
    bool is_single_word = false, takes_left = false, takes_right = false;  // white space beside it
    bool is_normalized = true, is_special = false;
  };

  std::unordered_map<TokenId, Token> tokens_;
  std::unordered_map<std::string, TokenId> ids_;
  std::unordered_map<std::string, bool> special_;
  ByteTrie tries_[2];  // for unmodified text, and for normalized text
  TokenId limit_ = 0;  // largest id plus 1
};

}  // namespace sinter::tools
