// SPDX-License-Identifier: Apache-2.0
#include "tools/tokenizer/added_tokens.h"

#include <algorithm>

#include "tools/tokenizer/unicode/unicode.h"

namespace sinter::tools {
namespace {

bool ends_with_word(std::string_view text) {
  std::size_t end = text.size();
  return end > 0 && unicode::is_word(unicode::previous_character(text, end));
}

bool starts_with_word(std::string_view text) {
  std::size_t at = 0;
  return !text.empty() && unicode::is_word(unicode::next_character(text, at));
}

}  // namespace

void AddedTokens::read(const Fields::Json* tokens, const Model& model,
                       const Normalizers& normalizers) {
  if (tokens == nullptr) return;
  if (!tokens->is_array()) throw usage_error("not a tokenizer.json: added_tokens is no array");
  TokenId next = model.size();
  std::vector<TokenId> order;
  for (const Fields::Json& each : *tokens) {
    Fields fields(each, "an added token");
    Token token;
    token.name = fields.get<std::string>("content");
    token.is_single_word = fields.get("single_word", false);
    token.takes_left = fields.get("lstrip", false);
    token.takes_right = fields.get("rstrip", false);
    token.is_special = fields.get("special", false);
    token.is_normalized = fields.get("normalized", !token.is_special);
    fields.skip({"id"});
    fields.finish();
    if (token.name.empty()) continue;
    const auto known = find(token.name);
    const auto of_model = known ? known : model.vocabulary().find(token.name);
    const TokenId id = of_model ? *of_model : next++;
    token.text = token.name;
    if (token.is_normalized) {
      Fragment fragment{token.name, {}, 0};
      normalizers.apply(fragment);
      token.text = std::move(fragment.text);
    }
    ids_.insert_or_assign(token.name, id);
    if (token.is_special) special_.emplace(token.name, true);
    if (!tokens_.contains(id)) order.push_back(id);
    tokens_.insert_or_assign(id, std::move(token));
    limit_ = std::max(limit_, id + 1);
  }
  std::vector<std::pair<std::string_view, std::int32_t>> names[2];
  for (const TokenId id : order) {
    const Token& token = tokens_.at(id);
    if (!token.text.empty())
      names[token.is_normalized ? 1 : 0].emplace_back(token.text, static_cast<std::int32_t>(id));
  }
  for (std::size_t i = 0; i < 2; ++i) tries_[i] = ByteTrie(std::move(names[i]));
}

std::optional<TokenId> AddedTokens::find(std::string_view name) const {
  const auto found = ids_.find(std::string(name));
  return found == ids_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<std::string_view> AddedTokens::text_of(TokenId id) const {
  const auto found = tokens_.find(id);
  return found == tokens_.end() ? std::nullopt
                                : std::optional<std::string_view>(found->second.text);
}

bool AddedTokens::is_special(TokenId id) const {
  const auto found = tokens_.find(id);
  return found != tokens_.end() && found->second.is_special;
}

void AddedTokens::find_all(
    std::string_view text, bool normalized,
    const std::function<void(std::size_t, std::size_t, std::optional<TokenId>)>& use) const {
  const ByteTrie& trie = tries_[normalized ? 1 : 0];
  std::size_t done = 0;  // end of the text passed on
  std::size_t spaces_begin = 1,
              spaces_end = 0;  // end of the white space already scanned, so that it is scanned once
  for (std::size_t at = 0; at < text.size() && !trie.is_empty();) {
    // The longest name that starts here.
    std::size_t end = at;
    TokenId id = ByteTrie::kNoValue;
    ByteTrie::Node node = trie.walk(ByteTrie::kRoot, text[at]);
    for (std::size_t i = at + 1; node != ByteTrie::kNowhere; ++i) {
      if (trie.value(node) != ByteTrie::kNoValue) {
        id = trie.value(node);
        end = i;
      }
      if (i == text.size()) break;
      node = trie.walk(node, text[i]);
    }
    if (id == ByteTrie::kNoValue) {
      ++at;
      continue;
    }
    std::size_t begin = at;
    at = end;
    const Token& token = tokens_.at(id);
    if (token.is_single_word &&
        (ends_with_word(text.substr(0, begin)) || starts_with_word(text.substr(end))))
      continue;
    if (token.takes_left && begin > done)
      begin = done + unicode::without_space_at(false, text.substr(done, begin - done)).size();
    if (token.takes_right) {
      if (end > spaces_end || end < spaces_begin) {
        spaces_begin = end;
        spaces_end = text.size() - unicode::without_space_at(true, text.substr(end)).size();
      }
      end = spaces_end;
    }
    if (done < begin) use(done, begin, std::nullopt);
    use(begin, end, id);
    done = end;
  }
  if (done < text.size()) use(done, text.size(), std::nullopt);
}

}  // namespace sinter::tools
