#include "tools/generate/tokenizer.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "runtime/engine/utf8.h"
#include "runtime/files/input_file.h"
#include "runtime/format_error.h"
#include "tools/generate/byte_pairs.h"
#include "tools/generate/text_normalizer.h"
#include "tools/generate/text_split.h"
#include "tools/generate/unigram.h"
#include "tools/generate/word_pieces.h"

namespace sinter::tools {
namespace {

using engine::append_utf8;
using engine::repaired_utf8;
using engine::utf8_length;
using nlohmann::json;

// The words of GPT-2: what ByteLevel cuts text into.
constexpr const char* kByteLevelWords =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
// More tokens than any vocabulary has: ids become sizes of tables.
constexpr TokenId kMostTokens = 1 << 24;

/// The alphabet of byte-level tokenizers. The character, as UTF-8, that stands for each byte: bytes
/// that are printable in Latin-1 (33 to 126, 161 to 172, 174 to 255) for themselves, the others in
/// order for U+0100 and on.
const std::array<std::string, 256>& byte_characters() {
  static const auto characters = [] {
    std::array<std::string, 256> result;
    char32_t next = 0x100;
    for (unsigned byte = 0; byte < 256; ++byte) {
      const bool is_printable =
          (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
      append_utf8(result[byte], is_printable ? byte : next++);
    }
    return result;
  }();
  return characters;
}

/// What `token` of the alphabet means as bytes; `token` itself if a character is not in it.
std::string bytes_of_characters(std::string_view token) {
  static const auto bytes = [] {
    std::unordered_map<std::string_view, char> result;
    for (unsigned byte = 0; byte < 256; ++byte)
      result.emplace(byte_characters()[byte], static_cast<char>(byte));
    return result;
  }();
  std::string result;
  for (std::size_t at = 0; at < token.size();) {
    const std::size_t length = utf8_length(token[at]);
    const auto found = length == 0 ? bytes.end() : bytes.find(token.substr(at, length));
    if (found == bytes.end()) return std::string(token);
    result += found->second;
    at += length;
  }
  return result;
}

[[noreturn]] void unsupported(const std::string& what) {
  throw unsupported_error(
      "tokenizer: {} is not supported; byte-pair encoding, WordPiece and Unigram are "
      "(or encode elsewhere and give ids)",
      what);
}

const json* member(const json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

std::string type_of(const json& part) {
  return part.value("type", std::string("a part without a type"));
}

/// `part` and, where it is a sequence of parts under `key`, those.
std::vector<const json*> flattened(const json* part, const char* key) {
  if (part == nullptr) return {};
  if (type_of(*part) != "Sequence") return {part};
  std::vector<const json*> result;
  for (const json& inner : part->at(key))
    for (const json* leaf : flattened(&inner, key)) result.push_back(leaf);
  return result;
}

std::string escaped(const std::string& literal) {
  std::string result;
  for (const char c : literal) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80 && std::isalnum(byte) == 0) result += '\\';
    result += c;
  }
  return result;
}

SplitBehavior behavior_of(const std::string& name) {
  constexpr std::array<std::pair<const char*, SplitBehavior>, 5> kNames = {{
      {"Isolated", SplitBehavior::kIsolated},
      {"Removed", SplitBehavior::kRemoved},
      {"MergedWithPrevious", SplitBehavior::kMergedWithPrevious},
      {"MergedWithNext", SplitBehavior::kMergedWithNext},
      {"Contiguous", SplitBehavior::kContiguous},
  }};
  for (const auto& [known, behavior] : kNames)
    if (name == known) return behavior;
  unsupported(fmt::format("the split behavior '{}'", name));
}

/// One step of the pre-tokenizer: cuts each piece of text.
struct Cut {
  std::optional<TextPattern> pattern;
  SplitBehavior behavior = SplitBehavior::kIsolated;
  bool invert = false;
  bool add_prefix_space = false;
  std::string blank;  // of Metaspace: what stands for a blank, also in front of a text
  enum class Prefix : char { kNever, kFirst, kAlways } prefix = Prefix::kNever;
};

Cut cut_of(const json& part) {
  const std::string type = type_of(part);
  Cut cut;
  if (type == "ByteLevel") {
    cut.add_prefix_space = part.value("add_prefix_space", true);
    if (part.value("use_regex", true)) cut.pattern.emplace(kByteLevelWords);
  } else if (type == "Digits") {
    cut.pattern.emplace("\\p{N}");
    if (!part.value("individual_digits", false)) cut.behavior = SplitBehavior::kContiguous;
  } else if (type == "Metaspace") {
    cut.blank = part.value("replacement", "\u2581");
    const std::string scheme =
        part.value("prepend_scheme", part.value("add_prefix_space", true) ? "always" : "never");
    cut.prefix = scheme == "always"  ? Cut::Prefix::kAlways
                 : scheme == "first" ? Cut::Prefix::kFirst
                                     : Cut::Prefix::kNever;
    cut.behavior = SplitBehavior::kMergedWithNext;
    if (part.value("split", true)) cut.pattern.emplace(escaped(cut.blank));
  } else if (type == "WhitespaceSplit") {
    cut.pattern.emplace("\\s");
    cut.behavior = SplitBehavior::kRemoved;
  } else if (type == "Split") {
    const json& pattern = part.at("pattern");
    cut.pattern.emplace(pattern.contains("Regex")
                            ? pattern.at("Regex").get<std::string>()
                            : escaped(pattern.at("String").get<std::string>()));
    cut.behavior = behavior_of(part.at("behavior"));
    cut.invert = part.value("invert", false);
  } else {
    unsupported(fmt::format("the pre-tokenizer '{}'", type));
  }
  return cut;
}

struct AddedToken {
  std::string text;
  TokenId id = 0;
  bool takes_left = false, takes_right = false;  // white space beside it
};

void add_normalizer(const json& part, TextNormalizer& normalizer) {
  using Step = TextNormalizer::Step;
  constexpr std::array<std::pair<const char*, Step>, 7> kSteps = {
      {{"NFC", Step::kNfc},
       {"Nmt", Step::kNmt},
       {"NFD", Step::kNfd},
       {"NFKC", Step::kNfkc},
       {"NFKD", Step::kNfkd},
       {"Lowercase", Step::kLowercase},
       {"StripAccents", Step::kStripAccents}}};
  const std::string type = type_of(part);
  if (type == "Prepend") return normalizer.add(Step::kPrepend, "", part.at("prepend"));
  if (type == "Replace") {
    const json& pattern = part.at("pattern");
    if (const json* expression = member(pattern, "Regex"))
      return normalizer.add(TextPattern(expression->get<std::string>()), part.at("content"));
    const auto from = pattern.at("String").get<std::string>();
    if (from.empty()) unsupported("the normalizer 'Replace' of an empty text");
    return normalizer.add(Step::kReplace, from, part.at("content"));
  }
  if (type == "Precompiled") {
    const json* const map = member(part, "precompiled_charsmap");
    if (map != nullptr && !map->get_ref<const std::string&>().empty())
      normalizer.add(CharacterMap(map->get_ref<const std::string&>()));
    return;
  }
  if (type == "Strip") {
    if (part.value("strip_left", true)) normalizer.add(Step::kStripLeft);
    if (part.value("strip_right", true)) normalizer.add(Step::kStripRight);
    return;
  }
  for (const auto& [name, step] : kSteps)
    if (type == name) return normalizer.add(step);
  if (type != "BertNormalizer") unsupported(fmt::format("the normalizer '{}'", type));
  const bool lowers = part.value("lowercase", true);
  const json* const accents = member(part, "strip_accents");  // null: as letters are lowered
  if (part.value("clean_text", true)) normalizer.add(Step::kCleanText);
  if (part.value("handle_chinese_chars", true)) normalizer.add(Step::kSpaceIdeographs);
  if (accents != nullptr ? accents->get<bool>() : lowers)
    normalizer.add(Step::kStripNonspacingMarks);
  if (lowers) normalizer.add(Step::kLowercase);
}

}  // namespace

struct Tokenizer::Impl {
  std::unordered_map<std::string, TokenId> vocabulary;  // by name: in the byte alphabet
  std::vector<std::string> bytes;                       // by id
  std::vector<bool> special;                            // by id
  std::vector<AddedToken> added;                        // the longest first
  std::vector<Cut> cuts;
  BytePairs pairs;
  std::array<std::optional<TokenId>, 256> byte_tokens;  // none: the byte is left out
  bool is_byte_level = false;  // words are bytes; else characters, as SentencePiece has them
  std::optional<TokenId> unknown;
  bool fuses_unknown = false, falls_back_to_bytes = false;  // of characters
  std::size_t stripped = 0;  // blanks in front of a decoded text of characters
  bool ignore_merges = false;
  TextNormalizer normalizer;
  std::optional<WordPieces> word_pieces;  // instead of pairs, byte tokens and cuts
  std::optional<Unigram> unigram;         // instead of pairs
  bool cleans_up = false;                 // the text of word pieces
  std::vector<TokenId> before, behind;    // special tokens around every text

  void read_model(const json& model);
  void read_word_pieces(const json& model);
  void read_unigram(const json& model);
  void find_byte_tokens();
  void read_cuts(const json* part);
  void read_decoder(const json* part);
  void read_added(const json& tokens);
  void read_post_processor(const json* part);
  void put(const std::string& name, TokenId id);
  TokenId require(const std::string& name, const char* what) const;

  void encode_word(std::string_view word, std::vector<TokenId>& ids) const;
  void encode_characters(std::string_view word, std::vector<TokenId>& ids) const;
  void encode_unigram(std::string_view word, std::vector<TokenId>& ids) const;
  /// Appends the tokens of the bytes of `text`; false: some byte has none.
  bool encode_bytes(std::string_view text, std::vector<TokenId>& ids) const;
  /// `is_first`: nothing is in front of `text`.
  void encode_plain(std::string_view text, bool is_first, std::vector<TokenId>& ids) const;
};

void Tokenizer::Impl::put(const std::string& name, TokenId id) {
  if (id < 0 || id >= kMostTokens)
    throw usage_error("tokenizer: token '{}' has the id {}", name, id);
  vocabulary.insert_or_assign(name, id);
  if (bytes.size() <= static_cast<std::size_t>(id)) {
    bytes.resize(static_cast<std::size_t>(id) + 1);
    special.resize(bytes.size(), false);
  }
  bytes[static_cast<std::size_t>(id)] = is_byte_level ? bytes_of_characters(name) : name;
}

TokenId Tokenizer::Impl::require(const std::string& name, const char* what) const {
  const auto found = vocabulary.find(name);
  if (found == vocabulary.end())
    throw usage_error("tokenizer: {} '{}' is not in the vocabulary", what, name);
  return found->second;
}

void Tokenizer::Impl::read_word_pieces(const json& model) {
  constexpr std::size_t kMostCharacters = 100;
  for (const auto& [name, id] : model.at("vocab").items()) put(name, id.get<TokenId>());
  word_pieces.emplace(model.value("continuing_subword_prefix", "##"),
                      require(model.value("unk_token", "[UNK]"), "unk_token"),
                      model.value("max_input_chars_per_word", kMostCharacters));
}

void Tokenizer::Impl::read_unigram(const json& model) {
  if (is_byte_level) unsupported("Unigram behind ByteLevel");
  falls_back_to_bytes = model.value("byte_fallback", false);
  unigram.emplace();
  TokenId id = 0;
  for (const json& entry : model.at("vocab")) {
    const auto piece = entry.at(0).get<std::string>();
    put(piece, id++);
    if (piece.empty()) throw usage_error("tokenizer: token {} is empty", id - 1);
    unigram->add(piece, entry.at(1).get<double>());
  }
  if (const json* number = member(model, "unk_id")) {
    unknown = number->get<TokenId>();
    if (*unknown < 0 || *unknown >= id)
      throw usage_error("tokenizer: unk_id {} is none of {} tokens", *unknown, id);
  }
  find_byte_tokens();
}

void Tokenizer::Impl::find_byte_tokens() {
  for (std::size_t byte = 0; byte < 256; ++byte) {
    const auto found =
        vocabulary.find(is_byte_level ? byte_characters()[byte] : fmt::format("<0x{:02X}>", byte));
    if (found != vocabulary.end())
      byte_tokens[byte] = found->second;
    else if (is_byte_level)
      byte_tokens[byte] = unknown;
  }
}

void Tokenizer::Impl::read_model(const json& model) {
  if (type_of(model) == "WordPiece") return read_word_pieces(model);
  if (type_of(model) == "Unigram") return read_unigram(model);
  if (type_of(model) != "BPE") unsupported(fmt::format("the model '{}'", type_of(model)));
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"})
    if (const json* text = member(model, key); text != nullptr && !text->get<std::string>().empty())
      unsupported(fmt::format("{} '{}'", key, text->get<std::string>()));
  falls_back_to_bytes = model.value("byte_fallback", false);
  fuses_unknown = model.value("fuse_unk", false);
  if (is_byte_level && falls_back_to_bytes) unsupported("byte_fallback behind ByteLevel");
  ignore_merges = model.value("ignore_merges", false);
  for (const auto& [name, id] : model.at("vocab").items()) put(name, id.get<TokenId>());
  for (const json& merge : model.at("merges")) {
    std::string left, right;
    if (merge.is_string()) {
      const auto& text = merge.get_ref<const std::string&>();
      const auto space = text.find(' ');
      if (space == std::string::npos)
        throw usage_error("tokenizer: the merge '{}' is no pair", text);
      left = text.substr(0, space), right = text.substr(space + 1);
    } else {
      left = merge.at(0).get<std::string>(), right = merge.at(1).get<std::string>();
    }
    const TokenId first = require(left, "the merge's"), second = require(right, "the merge's");
    pairs.add(first, second, require(left + right, "the merge's result"));
  }
  if (const json* name = member(model, "unk_token"))
    unknown = require(name->get<std::string>(), "unk_token");
  if (is_byte_level && unknown && fuses_unknown) unsupported("fuse_unk behind ByteLevel");
  find_byte_tokens();
}

void Tokenizer::Impl::read_added(const json& tokens) {
  for (const json& token : tokens) {
    const auto text = token.at("content").get<std::string>();
    if (token.value("single_word", false))
      unsupported(fmt::format("single_word of the token '{}'", text));
    const auto id = token.at("id").get<TokenId>();
    put(text, id);
    special[static_cast<std::size_t>(id)] = token.value("special", false);
    if (!text.empty())
      added.push_back({text, id, token.value("lstrip", false), token.value("rstrip", false)});
  }
  std::ranges::stable_sort(added, [](const AddedToken& a, const AddedToken& b) {
    return a.text.size() > b.text.size();
  });
}

void Tokenizer::Impl::read_post_processor(const json* part) {
  for (const json* step : flattened(part, "processors")) {
    const std::string type = type_of(*step);
    if (type == "ByteLevel") continue;  // moves offsets, no ids
    if (type == "BertProcessing" || type == "RobertaProcessing") {
      before.push_back(step->at("cls").at(1).get<TokenId>());
      behind.push_back(step->at("sep").at(1).get<TokenId>());
      continue;
    }
    if (type != "TemplateProcessing") unsupported(fmt::format("the post-processor '{}'", type));
    bool is_behind = false;
    for (const json& piece : step->at("single")) {
      if (piece.contains("Sequence")) {
        is_behind = true;
        continue;
      }
      const auto name = piece.at("SpecialToken").at("id").get<std::string>();
      for (const json& id : step->at("special_tokens").at(name).at("ids"))
        (is_behind ? behind : before).push_back(id.get<TokenId>());
    }
  }
}

void Tokenizer::Impl::read_cuts(const json* part) {
  if (word_pieces) {
    if (part == nullptr || type_of(*part) != "BertPreTokenizer")
      unsupported(fmt::format("WordPiece behind {}",
                              part == nullptr ? "no pre-tokenizer" : "'" + type_of(*part) + "'"));
    return;
  }
  for (const json* step : flattened(part, "pretokenizers")) cuts.push_back(cut_of(*step));
}

void Tokenizer::Impl::read_decoder(const json* part) {
  for (const json* step : flattened(part, "decoders")) {
    const std::string type = type_of(*step);
    const auto replace_all = [&](const std::string& from, const std::string& to) {
      for (std::size_t id = 0; id < bytes.size(); ++id)
        if (!from.empty() && !special[id]) bytes[id] = replaced(std::move(bytes[id]), from, to);
    };
    if (word_pieces && type == "WordPiece") {
      cleans_up = step->value("cleanup", false);
      if (step->value("prefix", "##") != word_pieces->prefix())
        unsupported("a decoder with another prefix than the model's");
    } else if (word_pieces || is_byte_level) {
      if (word_pieces || type != "ByteLevel") unsupported(fmt::format("the decoder '{}'", type));
    } else if (type == "Replace" && step->at("pattern").contains("String")) {
      replace_all(step->at("pattern").at("String"), step->at("content"));
    } else if (type == "Metaspace") {
      replace_all(step->value("replacement", "\u2581"), " ");
      if (step->value("prepend_scheme",
                      step->value("add_prefix_space", true) ? "always" : "never") != "never")
        stripped = 1;
    } else if (type == "ByteFallback") {
      for (std::size_t byte = 0; byte < 256; ++byte)
        if (const auto id = byte_tokens[byte]) bytes[static_cast<std::size_t>(*id)] = char(byte);
    } else if (type == "Strip" && step->at("content") == " " && step->value("stop", 0) == 0) {
      stripped = step->value("start", std::size_t{0});
    } else if (type != "Fuse") {
      unsupported(fmt::format("the decoder '{}'", type));
    }
  }
}

void Tokenizer::Impl::encode_characters(std::string_view word, std::vector<TokenId>& ids) const {
  if (ignore_merges)
    if (const auto found = vocabulary.find(std::string(word)); found != vocabulary.end())
      return ids.push_back(found->second);
  std::vector<TokenId> tokens;
  bool was_unknown = false;
  for (std::size_t at = 0; at < word.size();) {
    const auto character = word.substr(at, std::max<std::size_t>(1, utf8_length(word[at])));
    at += character.size();
    const auto found = vocabulary.find(std::string(character));
    const bool is_known = found != vocabulary.end();
    if (is_known) tokens.push_back(found->second);
    const bool is_unknown = !is_known && !(falls_back_to_bytes && encode_bytes(character, tokens));
    if (is_unknown && unknown && !(was_unknown && fuses_unknown)) tokens.push_back(*unknown);
    was_unknown = is_unknown;
  }
  pairs.merge(tokens);
  ids.insert(ids.end(), tokens.begin(), tokens.end());
}

bool Tokenizer::Impl::encode_bytes(std::string_view text, std::vector<TokenId>& ids) const {
  const auto token_of = [&](char c) { return byte_tokens[static_cast<unsigned char>(c)]; };
  if (!std::ranges::all_of(text, [&](char c) { return token_of(c).has_value(); })) return false;
  for (const char c : text) ids.push_back(*token_of(c));
  return true;
}

void Tokenizer::Impl::encode_unigram(std::string_view word, std::vector<TokenId>& ids) const {
  std::vector<std::string_view> parts;
  unigram->cut(word, parts);
  for (const auto part : parts) {
    const auto found = vocabulary.find(std::string(part));
    if (found != vocabulary.end())
      ids.push_back(found->second);
    else if (falls_back_to_bytes && encode_bytes(part, ids))
      continue;
    else if (unknown)
      ids.push_back(*unknown);
    else
      throw usage_error("the tokenizer has no token for '{}', and none for what is unknown", part);
  }
}

void Tokenizer::Impl::encode_word(std::string_view word, std::vector<TokenId>& ids) const {
  if (unigram) return encode_unigram(word, ids);
  if (!is_byte_level) return encode_characters(word, ids);
  if (ignore_merges) {
    std::string name;
    for (const char c : word) name += byte_characters()[static_cast<unsigned char>(c)];
    if (const auto found = vocabulary.find(name); found != vocabulary.end()) {
      ids.push_back(found->second);
      return;
    }
  }
  std::vector<TokenId> tokens;
  for (const char c : word)
    if (const auto token = byte_tokens[static_cast<unsigned char>(c)]) tokens.push_back(*token);
  pairs.merge(tokens);
  ids.insert(ids.end(), tokens.begin(), tokens.end());
}

void Tokenizer::Impl::encode_plain(std::string_view text, bool is_first,
                                   std::vector<TokenId>& ids) const {
  if (word_pieces) {
    const std::string plain = normalizer.apply(text);
    for (const auto word : bert_words(plain)) word_pieces->encode(vocabulary, word, ids);
    return;
  }
  std::vector<std::string> pieces = {normalizer.apply(text)};
  if (pieces.front().empty()) return;
  for (const Cut& cut : cuts) {
    std::vector<std::string> next;
    for (std::string& piece : pieces) {
      if (!cut.blank.empty()) {
        const bool begins = is_first && &piece == pieces.data();
        piece = replaced(std::move(piece), " ", cut.blank);
        if ((cut.prefix == Cut::Prefix::kAlways || (cut.prefix == Cut::Prefix::kFirst && begins)) &&
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
  for (const std::string& piece : pieces) encode_word(piece, ids);
}

Tokenizer::Tokenizer(std::unique_ptr<const Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::~Tokenizer() = default;
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;

Tokenizer Tokenizer::load(const std::string& path) {
  const std::string text = files::read_file(path, "tokenizer file");
  return with_context(path, [&] { return parse(text); });
}

Tokenizer Tokenizer::parse(std::string_view text) {
  auto impl = std::make_unique<Impl>();
  try {
    const json file = json::parse(text);
    for (const json* part : flattened(member(file, "normalizer"), "normalizers"))
      add_normalizer(*part, impl->normalizer);
    for (const json* part : flattened(member(file, "pre_tokenizer"), "pretokenizers"))
      impl->is_byte_level = impl->is_byte_level || type_of(*part) == "ByteLevel";
    impl->read_model(file.at("model"));
    if (const json* tokens = member(file, "added_tokens")) impl->read_added(*tokens);
    impl->read_cuts(member(file, "pre_tokenizer"));
    impl->read_decoder(member(file, "decoder"));
    impl->read_post_processor(member(file, "post_processor"));
  } catch (const json::exception& error) {
    throw usage_error("not a tokenizer.json: {}", error.what());
  }
  return Tokenizer(std::move(impl));
}

std::vector<std::int64_t> Tokenizer::encode(std::string_view text, bool add_special) const {
  if (repaired_utf8(text) != text) throw usage_error("the text is not UTF-8");
  std::vector<TokenId> ids;
  if (add_special) ids = impl_->before;
  std::size_t plain = 0;  // where text without added tokens begins
  const auto flush = [&](std::size_t end) {
    if (end > plain) impl_->encode_plain(text.substr(plain, end - plain), plain == 0, ids);
  };
  for (std::size_t at = 0; at < text.size();) {
    const auto token = std::ranges::find_if(impl_->added, [&](const AddedToken& candidate) {
      return text.substr(at).starts_with(candidate.text);
    });
    if (token == impl_->added.end()) {
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
  if (add_special) ids.insert(ids.end(), impl_->behind.begin(), impl_->behind.end());
  return ids;
}

std::string_view Tokenizer::bytes_of(std::int64_t id) const {
  if (id < 0 || static_cast<std::size_t>(id) >= impl_->bytes.size()) return {};
  return impl_->bytes[static_cast<std::size_t>(id)];
}

bool Tokenizer::is_special(std::int64_t id) const {
  return id >= 0 && static_cast<std::size_t>(id) < impl_->special.size() &&
         impl_->special[static_cast<std::size_t>(id)];
}

std::string Tokenizer::decode(std::span<const std::int64_t> ids, bool skip_special) const {
  std::string bytes;
  bool is_first = true;
  for (const auto id : ids) {
    if (skip_special && is_special(id)) continue;
    if (!impl_->word_pieces) {
      bytes += bytes_of(id);
      continue;
    }
    std::string piece(bytes_of(id));
    if (!is_first && piece.starts_with(impl_->word_pieces->prefix()))
      piece.erase(0, impl_->word_pieces->prefix().size());
    else if (!is_first)
      piece.insert(0, 1, ' ');
    bytes += impl_->cleans_up ? without_blanks_of_punctuation(std::move(piece)) : piece;
    is_first = false;
  }
  std::size_t blanks = 0;
  while (blanks < impl_->stripped && bytes.substr(blanks).starts_with(' ')) ++blanks;
  return repaired_utf8(bytes.substr(blanks));
}

std::optional<std::int64_t> Tokenizer::id_of(std::string_view token) const {
  const auto found = impl_->vocabulary.find(std::string(token));
  if (found == impl_->vocabulary.end()) return std::nullopt;
  return found->second;
}

}  // namespace sinter::tools
