// SPDX-License-Identifier: Apache-2.0
#include "tools/tokenizer/gguf_tokenizer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <tuple>
#include <unordered_map>

#include <fmt/ranges.h>

#include "runtime/engine/utf8.h"
#include "runtime/format_error.h"

namespace sinter::tools {
namespace {

using frontend::GgufFile;
using Ordered = nlohmann::ordered_json;
using Words = std::vector<std::string_view>;

enum Flag : unsigned { kNfc = 1, kWhole = 2, kBegins = 4 };

#define SINTER_WORDS(name, ...) const Words name = {__VA_ARGS__};
#define SINTER_PRE(pre, name, flags)
#include "tools/tokenizer/word_splits.inc"

struct WordSplit {
  std::string_view pre;
  const Words& words;
  unsigned flags;
};
const WordSplit kWordSplits[] = {
#define SINTER_WORDS(name, ...)
#define SINTER_PRE(pre, name, flags) {pre, name, flags},
#include "tools/tokenizer/word_splits.inc"
};

// Types of tokens in GGUF.
enum TokenType : std::int64_t { kNormal = 1, kUnknown = 2, kControl = 3, kUser = 4, kByte = 6 };

constexpr std::size_t kShown = 100;  // bytes of a name in an error

constexpr const char* kBlank = "\u2581";  // SentencePiece's space

template <typename... Arguments>
[[noreturn]] void invalid(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  throw Error(
      ErrorCode::kInvalidModel,
      "the GGUF file's tokenizer: " + fmt::format(format, std::forward<Arguments>(arguments)...));
}

/// tokenizer.ggml.*
class Metadata {
 public:
  explicit Metadata(const GgufFile& file) : file_(file) {
    tokens = required(file.texts(key("tokens")), "tokens");
    types = file.integers(key("token_type")).value_or(std::vector<std::int64_t>());
    if (types.empty()) types.assign(tokens.size(), kNormal);
    if (types.size() != tokens.size())
      invalid("{} tokens have {} types", tokens.size(), types.size());
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      // Names that are no UTF-8 could not be written as JSON.
      if (engine::repaired_utf8(tokens[i]) != tokens[i]) invalid("token {} is not UTF-8", i);
      if (!ids.emplace(tokens[i], i).second) repeated.push_back(i);
    }
  }

  static std::string key(std::string_view name) { return fmt::format("tokenizer.ggml.{}", name); }
  template <typename T>
  static T required(std::optional<T> value, std::string_view name) {
    if (!value) invalid("'{}' is missing", key(name));
    return std::move(*value);
  }
  std::optional<bool> flag(std::string_view name) const { return file_.boolean(key(name)); }
  /// A token by a key that holds its id.
  std::optional<std::size_t> token(std::string_view name) const {
    const auto id = file_.integer(key(name));
    if (!id || *id < 0) return std::nullopt;
    if (*id >= std::ssize(tokens))
      invalid("'{}' is {}, of {} tokens", key(name), *id, tokens.size());
    return static_cast<std::size_t>(*id);
  }
  const GgufFile& file() const { return file_; }

  std::vector<std::string_view> tokens;
  std::vector<std::int64_t> types;
  std::unordered_map<std::string_view, std::size_t> ids;
  std::vector<std::size_t> repeated;

 private:
  const GgufFile& file_;
};

/// Tokens that are searched in texts before they are split: special ones and the user's.
Ordered added_tokens(const Metadata& data) {
  Ordered added = Ordered::array();
  for (std::size_t id = 0; id < data.tokens.size(); ++id) {
    const bool is_special = data.types[id] == kControl || data.types[id] == kUnknown;
    if ((!is_special && data.types[id] != kUser) || data.tokens[id].empty() ||
        data.ids.at(data.tokens[id]) != id)
      continue;
    added.push_back({{"id", id},
                     {"content", data.tokens[id]},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", is_special}});
  }
  return added;
}

/// Names by their ids. A name that stands twice keeps its first id; the other gets one of its own.
Ordered vocabulary(const Metadata& data) {
  Ordered names = Ordered::object();
  auto& members = names.get_ref<Ordered::object_t&>();
  members.reserve(data.tokens.size());
  for (std::size_t id = 0; id < data.tokens.size(); ++id) {
    const bool is_first = data.ids.at(data.tokens[id]) == id;
    // No text of a key of JSON: vocabularies have a thousand unused ones.
    members.emplace_back(is_first ? std::string(data.tokens[id]) : fmt::format("[repeated {}]", id),
                         Ordered(id));
  }
  return names;
}

/// Tokens around texts: `begins` and `ends` unless the file says otherwise.
Ordered post_processor(const Metadata& data, bool begins, bool ends) {
  const auto bos = data.token("bos_token_id"), eos = data.token("eos_token_id");
  begins = data.flag("add_bos_token").value_or(begins) && bos;
  ends = data.flag("add_eos_token").value_or(ends) && eos;
  if (!begins && !ends) return nullptr;
  Ordered single = Ordered::array(), pair = Ordered::array(), special = Ordered::object();
  const auto put = [&](std::size_t id, int second) {
    const std::string name(data.tokens[id]);
    special[name] = {{"id", name}, {"ids", {id}}, {"tokens", {name}}};
    (second == 0 ? single : pair).push_back({{"SpecialToken", {{"id", name}, {"type_id", 0}}}});
  };
  const auto text = [](const char* name, int type) {
    return Ordered{{"Sequence", {{"id", name}, {"type_id", type}}}};
  };
  for (const int two : {0, 1}) {
    for (int i = 0; i <= two; ++i) {
      if (begins) put(*bos, two);
      (two == 0 ? single : pair).push_back(text(i == 0 ? "A" : "B", i));
      if (ends) put(*eos, two);
    }
  }
  return {{"type", "TemplateProcessing"},
          {"single", std::move(single)},
          {"pair", std::move(pair)},
          {"special_tokens", std::move(special)}};
}

Ordered sequence(const char* kind, const char* parts, Ordered list) {
  return {{"type", kind}, {parts, std::move(list)}};
}
Ordered replace(const char* from, const char* to) {
  return {{"type", "Replace"}, {"pattern", {{"String", from}}}, {"content", to}};
}

Ordered byte_pairs(const Metadata& data) {
  const auto pre = data.file().text(Metadata::key("pre")).value_or("default");
  const auto* const split = std::ranges::find(kWordSplits, pre, &WordSplit::pre);
  if (split == std::end(kWordSplits))
    throw Error(ErrorCode::kUnsupported,
                fmt::format("the GGUF file's tokenizer splits words as '{}' (tokenizer.ggml.pre), "
                            "which is unknown; known are {}: give the model's own tokenizer.json, "
                            "--tokenizer FILE",
                            pre.substr(0, kShown), fmt::join(known_word_splits(), ", ")));
  Ordered merges = Ordered::array();
  for (const std::string_view merge :
       Metadata::required(data.file().texts(Metadata::key("merges")), "merges")) {
    // Tokens have no spaces: they are in the alphabet of bytes.
    const std::size_t space = merge.find(' ', 1);
    if (space == std::string_view::npos || engine::repaired_utf8(merge) != merge)
      invalid("'{}' is no merge of two tokens", merge.substr(0, kShown));
    merges.push_back({merge.substr(0, space), merge.substr(space + 1)});
  }
  Ordered words = Ordered::array();
  for (const std::string_view expression : split->words)
    words.push_back({{"type", "Split"},
                     {"pattern", {{"Regex", expression}}},
                     {"behavior", "Isolated"},
                     {"invert", false}});
  Ordered bytes = {{"type", "ByteLevel"},
                   {"add_prefix_space", data.flag("add_space_prefix").value_or(false)},
                   {"trim_offsets", true},
                   {"use_regex", false}};
  Ordered decoder = bytes;
  words.push_back(std::move(bytes));
  return {{"normalizer", (split->flags & kNfc) != 0 ? Ordered{{"type", "NFC"}} : Ordered(nullptr)},
          {"pre_tokenizer", sequence("Sequence", "pretokenizers", std::move(words))},
          {"post_processor", post_processor(data, (split->flags & kBegins) != 0, false)},
          {"decoder", std::move(decoder)},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", nullptr},
            {"continuing_subword_prefix", nullptr},
            {"end_of_word_suffix", nullptr},
            {"fuse_unk", false},
            {"byte_fallback", false},
            {"ignore_merges", (split->flags & kWhole) != 0},
            {"vocab", vocabulary(data)},
            {"merges", std::move(merges)}}}};
}

/// SentencePiece merges the two neighbours whose token has the highest score; so the ranks of all
/// pairs that make a token are the order of scores.
Ordered merges_by_score(const Metadata& data, const std::vector<double>& scores) {
  struct Pair {
    std::size_t token, cut;
  };
  std::vector<Pair> pairs;
  const auto is_text = [&](std::size_t id) {
    return data.types[id] == kNormal || data.types[id] == kUser;
  };
  for (std::size_t id = 0; id < data.tokens.size(); ++id) {
    const std::string_view name = data.tokens[id];
    if (!is_text(id) || data.ids.at(name) != id) continue;
    // All cuts are looked up. Vocabularies with scores have pieces of 48 bytes at most.
    constexpr std::size_t kMostPiece = 1024;
    if (name.size() > kMostPiece)
      invalid("token {} has {} bytes: at most {}", id, name.size(), kMostPiece);
    for (std::size_t cut = 1; cut < name.size(); ++cut) {
      if ((name[cut] & 0xC0) == 0x80) continue;  // within a character
      const auto left = data.ids.find(name.substr(0, cut)), right = data.ids.find(name.substr(cut));
      if (left != data.ids.end() && right != data.ids.end() && is_text(left->second) &&
          is_text(right->second))
        pairs.push_back({id, cut});
    }
  }
  std::ranges::stable_sort(
      pairs, [&](const Pair& a, const Pair& b) { return scores[a.token] > scores[b.token]; });
  Ordered merges = Ordered::array();
  for (const auto& [token, cut] : pairs)
    merges.push_back({data.tokens[token].substr(0, cut), data.tokens[token].substr(cut)});
  return merges;
}

Ordered sentence_pieces(const Metadata& data) {
  std::vector<double> scores =
      Metadata::required(data.file().numbers(Metadata::key("scores")), "scores");
  if (scores.size() != data.tokens.size())
    invalid("{} tokens have {} scores", data.tokens.size(), scores.size());
  for (const double score : scores)
    if (std::isnan(score)) invalid("a score is not a number");
  const bool prefix = data.flag("add_space_prefix").value_or(true);
  Ordered normalizers = Ordered::array();
  if (prefix) normalizers.push_back({{"type", "Prepend"}, {"prepend", kBlank}});
  normalizers.push_back(replace(" ", kBlank));
  Ordered decoders = {replace(kBlank, " "), {{"type", "ByteFallback"}}, {{"type", "Fuse"}}};
  if (prefix) decoders.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  auto unknown = data.token("unknown_token_id");
  for (std::size_t id = 0; id < data.tokens.size() && !unknown; ++id)
    if (data.types[id] == kUnknown) unknown = id;
  return {{"normalizer", sequence("Sequence", "normalizers", std::move(normalizers))},
          {"pre_tokenizer", nullptr},
          {"post_processor", post_processor(data, true, false)},
          {"decoder", sequence("Sequence", "decoders", std::move(decoders))},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", unknown ? Ordered(data.tokens[*unknown]) : Ordered(nullptr)},
            {"continuing_subword_prefix", nullptr},
            {"end_of_word_suffix", nullptr},
            {"fuse_unk", true},
            {"byte_fallback", true},
            {"ignore_merges", false},
            {"vocab", vocabulary(data)},
            {"merges", merges_by_score(data, scores)}}}};
}

}  // namespace

std::vector<std::string_view> known_word_splits() {
  std::vector<std::string_view> names;
  for (const WordSplit& split : kWordSplits) names.push_back(split.pre);
  std::ranges::sort(names);
  return names;
}

Ordered tokenizer_of(const GgufFile& file) {
  const auto model = file.text(Metadata::key("model"));
  if (!model)
    throw Error(ErrorCode::kUnsupported,
                "the GGUF file has no tokenizer (tokenizer.ggml.model): give the model's own "
                "tokenizer.json, --tokenizer FILE");
  if (model != "gpt2" && model != "llama")
    throw Error(
        ErrorCode::kUnsupported,
        fmt::format("the GGUF file's tokenizer is '{}' (tokenizer.ggml.model); gpt2 and "
                    "llama are known: give the model's own tokenizer.json, --tokenizer FILE",
                    model->substr(0, kShown)));
  const Metadata data(file);
  Ordered result = {{"version", "1.0"},
                    {"truncation", nullptr},
                    {"padding", nullptr},
                    {"added_tokens", added_tokens(data)}};
  result.update(model == "gpt2" ? byte_pairs(data) : sentence_pieces(data));
  return result;
}

}  // namespace sinter::tools
