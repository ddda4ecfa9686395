// SPDX-License-Identifier: Apache-2.0
#include "tools/tokenizer/parts/pre_tokenizers.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "tools/tokenizer/parts/byte_alphabet.h"
#include "tools/tokenizer/parts/normalizers.h"
#include "tools/tokenizer/parts/split.h"
#include "tools/tokenizer/unicode/unicode.h"

namespace sinter::tools {
namespace {

// GPT-2's words, into which ByteLevel splits text.
constexpr const char* kByteLevelWords =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

/// BERT's definition: ASCII other than letters, digits and white space; Unicode's category up to
/// version 8.
bool is_punctuation(char32_t code) {
  if (code < 0x80) return std::ispunct(static_cast<int>(code)) != 0;
  const auto& record = unicode::record_of(code);
  return record.is_punctuation() && record.age <= unicode::Age::k8;
}

bool is_number(char32_t code) { return unicode::record_of(code).is_number(); }

SplitBehavior behavior_of(Fields& fields, const char* otherwise) {
  constexpr std::array<std::pair<const char*, SplitBehavior>, 5> kNames = {{
      {"Isolated", SplitBehavior::kIsolated},
      {"Removed", SplitBehavior::kRemoved},
      {"MergedWithPrevious", SplitBehavior::kMergedWithPrevious},
      {"MergedWithNext", SplitBehavior::kMergedWithNext},
      {"Contiguous", SplitBehavior::kContiguous},
  }};
  const auto name = otherwise == nullptr ? fields.get<std::string>("behavior")
                                         : fields.get<std::string>("behavior", otherwise);
  for (const auto& [known, behavior] : kNames)
    if (name == known) return behavior;
  unsupported_part(fmt::format("the behavior '{}' of {}", name, fields.what()));
}

/// Splits around each character for which `Is(code)`.
template <auto Is>
class AtCharacters : public PreTokenizer {
 public:
  explicit AtCharacters(SplitBehavior behavior) : behavior_(behavior) {}
  void apply(Passage& passage) const override {
    passage.split([&](std::string_view text, const auto& cut) {
      Splitter splitter(behavior_, false);
      for (std::size_t at = 0; at < text.size();) {
        const std::size_t begin = at;
        if (Is(unicode::next_character(text, at))) splitter.match(begin, at, cut);
      }
      splitter.finish(text.size(), cut);
    });
  }

 private:
  SplitBehavior behavior_;
};

class AtPattern : public PreTokenizer {
 public:
  AtPattern(TextPattern pattern, SplitBehavior behavior, bool inverts)
      : pattern_(std::move(pattern)), behavior_(behavior), inverts_(inverts) {}
  void apply(Passage& passage) const override {
    passage.split([&](std::string_view text, const auto& cut) {
      Splitter splitter(behavior_, inverts_);
      pattern_.for_each_match(
          text, [&](std::size_t begin, std::size_t end) { splitter.match(begin, end, cut); });
      splitter.finish(text.size(), cut);
    });
  }

 private:
  TextPattern pattern_;
  SplitBehavior behavior_;
  bool inverts_;
};

class ByteLevel : public PreTokenizer {
 public:
  ByteLevel(bool adds_prefix, bool splits) : adds_prefix_(adds_prefix) {
    if (splits)
      words_ = std::make_unique<AtPattern>(TextPattern(kByteLevelWords), SplitBehavior::kIsolated,
                                           false);
  }
  void apply(Passage& passage) const override {
    if (adds_prefix_)
      passage.rewrite([](std::string_view text, const Piece&, Rewriter& writer) {
        writer.keep(text.starts_with(' ') ? text : writer.prepend(" ", text));
      });
    if (words_) words_->apply(passage);
    std::string spelled;
    passage.rewrite([&](std::string_view text, const Piece&, Rewriter& writer) {
      if (!writer.tracks()) {
        spell(text, spelled);
        return writer.insert(spelled);
      }
      const auto& characters = byte_characters();
      for (const char byte : text) {
        const std::string& character = characters[static_cast<unsigned char>(byte)];
        if ((byte & 0xC0) == 0x80)
          writer.insert(character);
        else
          writer.replace(character);
      }
    });
  }

 private:
  static void spell(std::string_view text, std::string& result) {
    const auto& characters = byte_characters();
    result.resize(text.size() * 2);
    std::size_t size = 0;
    for (const char byte : text) {
      const std::string& character = characters[static_cast<unsigned char>(byte)];
      result[size++] = character[0];
      if (character.size() > 1) result[size++] = character[1];
    }
    result.resize(size);
  }

  bool adds_prefix_;
  std::unique_ptr<const PreTokenizer> words_;
};

class MetaspaceCut : public PreTokenizer {
 public:
  explicit MetaspaceCut(Metaspace metaspace) : metaspace_(std::move(metaspace)) {}
  bool needs_origins() const override { return metaspace_.prefix == Metaspace::Prefix::kFirst; }
  void apply(Passage& passage) const override {
    const std::string& blank = metaspace_.blank;
    passage.rewrite([&](std::string_view text, const Piece& piece, Rewriter& writer) {
      const bool wants = metaspace_.prefix == Metaspace::Prefix::kAlways ||
                         (metaspace_.prefix == Metaspace::Prefix::kFirst && piece.origin == 0);
      if (wants && !text.starts_with(' ') && !text.starts_with(blank))
        text = writer.prepend(blank, text);
      while (!text.empty()) {
        const std::string_view plain = text.substr(0, text.find(' '));
        writer.keep(plain);
        text.remove_prefix(plain.size());
        if (text.empty()) break;
        writer.drop();
        writer.insert(blank);
        text.remove_prefix(1);
      }
    });
    if (!metaspace_.splits) return;
    passage.split([&](std::string_view text, const auto& cut) {
      std::size_t begin = 0;
      for (std::size_t at = text.find(blank); at != std::string_view::npos;
           at = text.find(blank, at + blank.size())) {
        cut(begin, at);
        begin = at;
      }
      cut(begin, text.size());
    });
  }

 private:
  Metaspace metaspace_;
};

/// Splits into words and runs of other characters; drops white space.
class Whitespace : public PreTokenizer {
 public:
  void apply(Passage& passage) const override {
    enum class Kind : char { kSpace, kWord, kOther };
    passage.split([](std::string_view text, const auto& cut) {
      std::size_t begin = 0;
      Kind last = Kind::kSpace;
      for (std::size_t at = 0; at < text.size();) {
        const std::size_t here = at;
        const char32_t code = unicode::next_character(text, at);
        const Kind kind = unicode::is_word(code)          ? Kind::kWord
                          : unicode::is_white_space(code) ? Kind::kSpace
                                                          : Kind::kOther;
        if (kind == last) continue;
        if (last != Kind::kSpace) cut(begin, here);
        begin = here;
        last = kind;
      }
      if (last != Kind::kSpace) cut(begin, text.size());
    });
  }
};

class UnicodeScripts : public PreTokenizer {
 public:
  void apply(Passage& passage) const override {
    passage.split([](std::string_view text, const auto& cut) {
      constexpr std::size_t kNowhere = static_cast<std::size_t>(-1);
      std::size_t begin = kNowhere;  // the library drops leading characters without a script
      int last = kAny;
      for (std::size_t at = 0; at < text.size();) {
        const std::size_t here = at;
        const int script = script_of(unicode::next_character(text, at));
        if (script == kAny || script == last) continue;
        if (begin != kNowhere) cut(begin, here);
        begin = here;
        last = script;
      }
      if (begin != kNowhere) cut(begin, text.size());
    });
  }

 private:
  static constexpr int kAny = -1;

  static int number_of(std::string_view name) {
    const auto all = unicode::scripts();
    return static_cast<int>(std::ranges::find(all, name, &unicode::ScriptNames::name) -
                            all.begin());
  }
  /// SentencePiece's scripts: Japanese is one script, a space has none; as of Unicode 9.
  static int script_of(char32_t code) {
    static const int han = number_of("Han"), hiragana = number_of("Hiragana"),
                     katakana = number_of("Katakana"), unknown = number_of("Unknown");
    constexpr char32_t kProlongedSound = 0x30FC;
    if (code == kProlongedSound) return han;
    const auto& record = unicode::record_of(code);
    if (code == ' ' || record.script == unknown || record.age > unicode::Age::k9) return kAny;
    return record.script == hiragana || record.script == katakana ? han : record.script;
  }
};

class FixedLength : public PreTokenizer {
 public:
  explicit FixedLength(std::size_t length) : length_(length) {}
  void apply(Passage& passage) const override {
    passage.split([&](std::string_view text, const auto& cut) {
      std::size_t begin = 0, characters = 0;
      for (std::size_t at = 0; at < text.size();) {
        unicode::next_character(text, at);
        if (++characters % length_ != 0) continue;
        cut(begin, at);
        begin = at;
      }
      cut(begin, text.size());
    });
  }

 private:
  std::size_t length_;
};

std::unique_ptr<const PreTokenizer> at_spaces() {
  return std::make_unique<AtCharacters<unicode::is_white_space>>(SplitBehavior::kRemoved);
}

}  // namespace

Metaspace Metaspace::read(Fields& fields) {
  Metaspace result;
  result.blank = fields.character("replacement", "\u2581");
  const bool adds = fields.get("add_prefix_space", true);
  const auto scheme = fields.get<std::string>("prepend_scheme", adds ? "always" : "never");
  if (scheme == "always")
    result.prefix = Prefix::kAlways;
  else if (scheme == "first")
    result.prefix = Prefix::kFirst;
  else if (scheme == "never")
    result.prefix = Prefix::kNever;
  else
    unsupported_part(fmt::format("the prepend_scheme '{}' of {}", scheme, fields.what()));
  result.splits = fields.get("split", true);
  fields.skip({"str_rep"});
  return result;
}

void PreTokenizers::read(const Fields::Json* part) {
  for (const Fields::Json* each : parts_of(part, "pre-tokenizer", "pretokenizers")) {
    const std::string type = type_of(*each);
    Fields fields(*each, fmt::format("the pre-tokenizer '{}'", type));
    if (type == "BertPreTokenizer") {
      parts_.push_back(at_spaces());
      parts_.push_back(std::make_unique<AtCharacters<is_punctuation>>(SplitBehavior::kIsolated));
    } else if (type == "ByteLevel") {
      const bool adds = fields.get("add_prefix_space", true);
      parts_.push_back(std::make_unique<ByteLevel>(adds, fields.get("use_regex", true)));
      fields.skip({"trim_offsets"});
    } else if (type == "CharDelimiterSplit") {
      parts_.push_back(std::make_unique<AtPattern>(
          TextPattern::of_literal(fields.character("delimiter")), SplitBehavior::kRemoved, false));
    } else if (type == "Digits") {
      const bool each_alone = fields.get("individual_digits", false);
      parts_.push_back(std::make_unique<AtCharacters<is_number>>(
          each_alone ? SplitBehavior::kIsolated : SplitBehavior::kContiguous));
    } else if (type == "FixedLength") {
      constexpr std::size_t kDefault = 5;
      const auto length = fields.get<std::int64_t>("length", kDefault);
      if (length < 1) throw usage_error("tokenizer: {} has the length {}", fields.what(), length);
      parts_.push_back(std::make_unique<FixedLength>(static_cast<std::size_t>(length)));
    } else if (type == "Metaspace") {
      parts_.push_back(std::make_unique<MetaspaceCut>(Metaspace::read(fields)));
    } else if (type == "Punctuation") {
      parts_.push_back(
          std::make_unique<AtCharacters<is_punctuation>>(behavior_of(fields, "Isolated")));
    } else if (type == "Split") {
      TextPattern pattern = pattern_of(fields);
      const SplitBehavior behavior = behavior_of(fields, nullptr);
      parts_.push_back(
          std::make_unique<AtPattern>(std::move(pattern), behavior, fields.get("invert", false)));
    } else if (type == "UnicodeScripts") {
      parts_.push_back(std::make_unique<UnicodeScripts>());
    } else if (type == "Whitespace") {
      parts_.push_back(std::make_unique<Whitespace>());
    } else if (type == "WhitespaceSplit") {
      parts_.push_back(at_spaces());
    } else {
      unsupported_part(fields.what());
    }
    fields.finish();
  }
}

bool PreTokenizers::needs_origins() const {
  return std::ranges::any_of(parts_, [](const auto& part) { return part->needs_origins(); });
}

}  // namespace sinter::tools
