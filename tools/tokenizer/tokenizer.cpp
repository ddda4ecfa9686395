#include "tools/tokenizer/tokenizer.h"

#include <algorithm>

#include "runtime/engine/utf8.h"
#include "runtime/files/input_file.h"
#include "runtime/format_error.h"
#include "tools/tokenizer/byte_alphabet.h"
#include "tools/tokenizer/read_tokenizer.h"

namespace sinter::tools {
namespace {

using engine::repaired_utf8;
using engine::utf8_length;

/// Appends the tokens of the bytes of `text`; false: some byte has none.
bool encode_bytes(const TokenizerData& data, std::string_view text, std::vector<TokenId>& ids) {
  const auto token_of = [&](char c) { return data.byte_tokens[static_cast<unsigned char>(c)]; };
  if (!std::ranges::all_of(text, [&](char c) { return token_of(c).has_value(); })) return false;
  for (const char c : text) ids.push_back(*token_of(c));
  return true;
}

void encode_characters(const TokenizerData& data, std::string_view word,
                       std::vector<TokenId>& ids) {
  if (data.ignore_merges)
    if (const auto found = data.vocabulary.find(std::string(word)); found != data.vocabulary.end())
      return ids.push_back(found->second);
  std::vector<TokenId> tokens;
  bool was_unknown = false;
  for (std::size_t at = 0; at < word.size();) {
    const auto character = word.substr(at, std::max<std::size_t>(1, utf8_length(word[at])));
    at += character.size();
    const auto found = data.vocabulary.find(std::string(character));
    const bool is_known = found != data.vocabulary.end();
    if (is_known) tokens.push_back(found->second);
    const bool is_unknown =
        !is_known && !(data.falls_back_to_bytes && encode_bytes(data, character, tokens));
    if (is_unknown && data.unknown && !(was_unknown && data.fuses_unknown))
      tokens.push_back(*data.unknown);
    was_unknown = is_unknown;
  }
  data.pairs.merge(tokens);
  ids.insert(ids.end(), tokens.begin(), tokens.end());
}

void encode_unigram(const TokenizerData& data, std::string_view word, std::vector<TokenId>& ids) {
  std::vector<std::string_view> parts;
  data.unigram->cut(word, parts);
  for (const auto part : parts) {
    const auto found = data.vocabulary.find(std::string(part));
    if (found != data.vocabulary.end())
      ids.push_back(found->second);
    else if (data.falls_back_to_bytes && encode_bytes(data, part, ids))
      continue;
    else if (data.unknown)
      ids.push_back(*data.unknown);
    else
      throw usage_error("the tokenizer has no token for '{}', and none for what is unknown", part);
  }
}

void encode_word(const TokenizerData& data, std::string_view word, std::vector<TokenId>& ids) {
  if (data.unigram) return encode_unigram(data, word, ids);
  if (!data.is_byte_level) return encode_characters(data, word, ids);
  if (data.ignore_merges) {
    std::string name;
    for (const char c : word) name += byte_characters()[static_cast<unsigned char>(c)];
    if (const auto found = data.vocabulary.find(name); found != data.vocabulary.end()) {
      ids.push_back(found->second);
      return;
    }
  }
  std::vector<TokenId> tokens;
  for (const char c : word)
    if (const auto token = data.byte_tokens[static_cast<unsigned char>(c)])
      tokens.push_back(*token);
  data.pairs.merge(tokens);
  ids.insert(ids.end(), tokens.begin(), tokens.end());
}

/// `is_first`: nothing is in front of `text`.
void encode_plain(const TokenizerData& data, std::string_view text, bool is_first,
                  std::vector<TokenId>& ids) {
  if (data.word_pieces) {
    const std::string plain = data.normalizer.apply(text);
    for (const auto word : bert_words(plain)) data.word_pieces->encode(data.vocabulary, word, ids);
    return;
  }
  std::vector<std::string> pieces = {data.normalizer.apply(text)};
  if (pieces.front().empty()) return;
  for (const TextCut& cut : data.cuts) {
    std::vector<std::string> next;
    for (std::string& piece : pieces) {
      if (!cut.blank.empty()) {
        const bool begins = is_first && &piece == pieces.data();
        piece = replaced(std::move(piece), " ", cut.blank);
        if ((cut.prefix == TextCut::Prefix::kAlways ||
             (cut.prefix == TextCut::Prefix::kFirst && begins)) &&
            !piece.starts_with(cut.blank))
          piece.insert(0, cut.blank);
      }
      if (cut.add_prefix_space && !piece.starts_with(' ')) piece.insert(0, 1, ' ');
      if (!cut.pattern) {
        next.push_back(std::move(piece));
        continue;
      }
      for (const auto part : split_text(piece, *cut.pattern, cut.behavior, cut.invert))
        next.emplace_back(part);
    }
    pieces = std::move(next);
  }
  for (const std::string& piece : pieces) encode_word(data, piece, ids);
}

}  // namespace

Tokenizer::Tokenizer(std::unique_ptr<const TokenizerData> data) : data_(std::move(data)) {}
Tokenizer::~Tokenizer() = default;
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;

Tokenizer Tokenizer::load(const std::string& path) {
  const std::string text = files::read_file(path, "tokenizer file");
  return with_context(path, [&] { return parse(text); });
}

Tokenizer Tokenizer::parse(std::string_view json) {
  return Tokenizer(std::make_unique<const TokenizerData>(read_tokenizer(json)));
}

std::vector<std::int64_t> Tokenizer::encode(std::string_view text, bool add_special) const {
  if (repaired_utf8(text) != text) throw usage_error("the text is not UTF-8");
  std::vector<TokenId> ids;
  if (add_special) ids = data_->before;
  std::size_t plain = 0;  // where text without added tokens begins
  const auto flush = [&](std::size_t end) {
    if (end > plain) encode_plain(*data_, text.substr(plain, end - plain), plain == 0, ids);
  };
  for (std::size_t at = 0; at < text.size();) {
    const auto token = std::ranges::find_if(data_->added, [&](const AddedToken& candidate) {
      return text.substr(at).starts_with(candidate.text);
    });
    if (token == data_->added.end()) {
      ++at;
      continue;
    }
    std::size_t begin = at;
    if (token->takes_left)
      begin = plain + without_space_at(false, text.substr(plain, at - plain)).size();
    flush(begin);
    ids.push_back(token->id);
    at += token->text.size();
    if (token->takes_right) at = text.size() - without_space_at(true, text.substr(at)).size();
    plain = at;
  }
  flush(text.size());
  if (add_special) ids.insert(ids.end(), data_->behind.begin(), data_->behind.end());
  return ids;
}

std::string_view Tokenizer::bytes_of(std::int64_t id) const {
  if (id < 0 || static_cast<std::size_t>(id) >= data_->bytes.size()) return {};
  return data_->bytes[static_cast<std::size_t>(id)];
}

bool Tokenizer::is_special(std::int64_t id) const {
  return id >= 0 && static_cast<std::size_t>(id) < data_->special.size() &&
         data_->special[static_cast<std::size_t>(id)];
}

std::string Tokenizer::decode(std::span<const std::int64_t> ids, bool skip_special) const {
  std::string bytes;
  bool is_first = true;
  for (const auto id : ids) {
    if (skip_special && is_special(id)) continue;
    if (!data_->word_pieces) {
      bytes += bytes_of(id);
      continue;
    }
    std::string piece(bytes_of(id));
    if (!is_first && piece.starts_with(data_->word_pieces->prefix()))
      piece.erase(0, data_->word_pieces->prefix().size());
    else if (!is_first)
      piece.insert(0, 1, ' ');
    bytes += data_->cleans_up ? without_blanks_of_punctuation(std::move(piece)) : piece;
    is_first = false;
  }
  std::size_t blanks = 0;
  while (blanks < data_->stripped && bytes.substr(blanks).starts_with(' ')) ++blanks;
  return repaired_utf8(bytes.substr(blanks));
}

std::optional<std::int64_t> Tokenizer::id_of(std::string_view token) const {
  const auto found = data_->vocabulary.find(std::string(token));
  if (found == data_->vocabulary.end()) return std::nullopt;
  return found->second;
}

}  // namespace sinter::tools
