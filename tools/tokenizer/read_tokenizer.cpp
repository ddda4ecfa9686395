#include "tools/tokenizer/read_tokenizer.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "runtime/format_error.h"
#include "tools/tokenizer/byte_alphabet.h"

namespace sinter::tools {
namespace {

using nlohmann::json;

// The words of GPT-2: what ByteLevel cuts text into.
constexpr const char* kByteLevelWords =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
// More tokens than any vocabulary has: ids become sizes of tables.
constexpr TokenId kMostTokens = 1 << 24;

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

TextCut cut_of(const json& part) {
  const std::string type = type_of(part);
  TextCut cut;
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
    cut.prefix = scheme == "always"  ? TextCut::Prefix::kAlways
                 : scheme == "first" ? TextCut::Prefix::kFirst
                                     : TextCut::Prefix::kNever;
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

struct Reader {
  TokenizerData data;

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
};

void Reader::put(const std::string& name, TokenId id) {
  if (id < 0 || id >= kMostTokens)
    throw usage_error("tokenizer: token '{}' has the id {}", name, id);
  data.vocabulary.insert_or_assign(name, id);
  if (data.bytes.size() <= static_cast<std::size_t>(id)) {
    data.bytes.resize(static_cast<std::size_t>(id) + 1);
    data.special.resize(data.bytes.size(), false);
  }
  data.bytes[static_cast<std::size_t>(id)] = data.is_byte_level ? bytes_of_characters(name) : name;
}

TokenId Reader::require(const std::string& name, const char* what) const {
  const auto found = data.vocabulary.find(name);
  if (found == data.vocabulary.end())
    throw usage_error("tokenizer: {} '{}' is not in the vocabulary", what, name);
  return found->second;
}

void Reader::read_word_pieces(const json& model) {
  constexpr std::size_t kMostCharacters = 100;
  for (const auto& [name, id] : model.at("vocab").items()) put(name, id.get<TokenId>());
  data.word_pieces.emplace(model.value("continuing_subword_prefix", "##"),
                           require(model.value("unk_token", "[UNK]"), "unk_token"),
                           model.value("max_input_chars_per_word", kMostCharacters));
}

void Reader::read_unigram(const json& model) {
  if (data.is_byte_level) unsupported("Unigram behind ByteLevel");
  data.falls_back_to_bytes = model.value("byte_fallback", false);
  data.unigram.emplace();
  TokenId id = 0;
  for (const json& entry : model.at("vocab")) {
    const auto piece = entry.at(0).get<std::string>();
    put(piece, id++);
    if (piece.empty()) throw usage_error("tokenizer: token {} is empty", id - 1);
    data.unigram->add(piece, entry.at(1).get<double>());
  }
  if (const json* number = member(model, "unk_id")) {
    data.unknown = number->get<TokenId>();
    if (*data.unknown < 0 || *data.unknown >= id)
      throw usage_error("tokenizer: unk_id {} is none of {} tokens", *data.unknown, id);
  }
  find_byte_tokens();
}

void Reader::find_byte_tokens() {
  for (std::size_t byte = 0; byte < 256; ++byte) {
    const auto found = data.vocabulary.find(data.is_byte_level ? byte_characters()[byte]
                                                               : fmt::format("<0x{:02X}>", byte));
    if (found != data.vocabulary.end())
      data.byte_tokens[byte] = found->second;
    else if (data.is_byte_level)
      data.byte_tokens[byte] = data.unknown;
  }
}

void Reader::read_model(const json& model) {
  if (type_of(model) == "WordPiece") return read_word_pieces(model);
  if (type_of(model) == "Unigram") return read_unigram(model);
  if (type_of(model) != "BPE") unsupported(fmt::format("the model '{}'", type_of(model)));
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"})
    if (const json* text = member(model, key); text != nullptr && !text->get<std::string>().empty())
      unsupported(fmt::format("{} '{}'", key, text->get<std::string>()));
  data.falls_back_to_bytes = model.value("byte_fallback", false);
  data.fuses_unknown = model.value("fuse_unk", false);
  if (data.is_byte_level && data.falls_back_to_bytes) unsupported("byte_fallback behind ByteLevel");
  data.ignore_merges = model.value("ignore_merges", false);
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
    data.pairs.add(first, second, require(left + right, "the merge's result"));
  }
  if (const json* name = member(model, "unk_token"))
    data.unknown = require(name->get<std::string>(), "unk_token");
  if (data.is_byte_level && data.unknown && data.fuses_unknown)
    unsupported("fuse_unk behind ByteLevel");
  find_byte_tokens();
}

void Reader::read_added(const json& tokens) {
  for (const json& token : tokens) {
    const auto text = token.at("content").get<std::string>();
    if (token.value("single_word", false))
      unsupported(fmt::format("single_word of the token '{}'", text));
    const auto id = token.at("id").get<TokenId>();
    put(text, id);
    data.special[static_cast<std::size_t>(id)] = token.value("special", false);
    if (!text.empty())
      data.added.push_back({text, id, token.value("lstrip", false), token.value("rstrip", false)});
  }
  std::ranges::stable_sort(data.added, [](const AddedToken& a, const AddedToken& b) {
    return a.text.size() > b.text.size();
  });
}

void Reader::read_post_processor(const json* part) {
  for (const json* step : flattened(part, "processors")) {
    const std::string type = type_of(*step);
    if (type == "ByteLevel") continue;  // moves offsets, no ids
    if (type == "BertProcessing" || type == "RobertaProcessing") {
      data.before.push_back(step->at("cls").at(1).get<TokenId>());
      data.behind.push_back(step->at("sep").at(1).get<TokenId>());
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
        (is_behind ? data.behind : data.before).push_back(id.get<TokenId>());
    }
  }
}

void Reader::read_cuts(const json* part) {
  if (data.word_pieces) {
    if (part == nullptr || type_of(*part) != "BertPreTokenizer")
      unsupported(fmt::format("WordPiece behind {}",
                              part == nullptr ? "no pre-tokenizer" : "'" + type_of(*part) + "'"));
    return;
  }
  for (const json* step : flattened(part, "pretokenizers")) data.cuts.push_back(cut_of(*step));
}

void Reader::read_decoder(const json* part) {
  for (const json* step : flattened(part, "decoders")) {
    const std::string type = type_of(*step);
    const auto replace_all = [&](const std::string& from, const std::string& to) {
      for (std::size_t id = 0; id < data.bytes.size(); ++id)
        if (!from.empty() && !data.special[id])
          data.bytes[id] = replaced(std::move(data.bytes[id]), from, to);
    };
    if (data.word_pieces && type == "WordPiece") {
      data.cleans_up = step->value("cleanup", false);
      if (step->value("prefix", "##") != data.word_pieces->prefix())
        unsupported("a decoder with another prefix than the model's");
    } else if (data.word_pieces || data.is_byte_level) {
      if (data.word_pieces || type != "ByteLevel")
        unsupported(fmt::format("the decoder '{}'", type));
    } else if (type == "Replace" && step->at("pattern").contains("String")) {
      replace_all(step->at("pattern").at("String"), step->at("content"));
    } else if (type == "Metaspace") {
      replace_all(step->value("replacement", "\u2581"), " ");
      if (step->value("prepend_scheme",
                      step->value("add_prefix_space", true) ? "always" : "never") != "never")
        data.stripped = 1;
    } else if (type == "ByteFallback") {
      for (std::size_t byte = 0; byte < 256; ++byte)
        if (const auto id = data.byte_tokens[byte])
          data.bytes[static_cast<std::size_t>(*id)] = char(byte);
    } else if (type == "Strip" && step->at("content") == " " && step->value("stop", 0) == 0) {
      data.stripped = step->value("start", std::size_t{0});
    } else if (type != "Fuse") {
      unsupported(fmt::format("the decoder '{}'", type));
    }
  }
}

}  // namespace

TokenizerData read_tokenizer(std::string_view text) {
  Reader reader;
  try {
    const json file = json::parse(text);
    for (const json* part : flattened(member(file, "normalizer"), "normalizers"))
      add_normalizer(*part, reader.data.normalizer);
    for (const json* part : flattened(member(file, "pre_tokenizer"), "pretokenizers"))
      reader.data.is_byte_level = reader.data.is_byte_level || type_of(*part) == "ByteLevel";
    reader.read_model(file.at("model"));
    if (const json* tokens = member(file, "added_tokens")) reader.read_added(*tokens);
    reader.read_cuts(member(file, "pre_tokenizer"));
    reader.read_decoder(member(file, "decoder"));
    reader.read_post_processor(member(file, "post_processor"));
  } catch (const json::exception& error) {
    throw usage_error("not a tokenizer.json: {}", error.what());
  }
  return std::move(reader.data);
}

}  // namespace sinter::tools
