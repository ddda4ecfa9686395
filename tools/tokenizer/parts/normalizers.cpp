// SPDX-License-Identifier: Apache-2.0
#include "tools/tokenizer/parts/normalizers.h"

#include <optional>

#include "tools/tokenizer/parts/byte_alphabet.h"
#include "tools/tokenizer/parts/character_map.h"
#include "tools/tokenizer/unicode/normal_forms.h"
#include "tools/tokenizer/unicode/text_pattern.h"
#include "tools/tokenizer/unicode/unicode.h"

namespace sinter::tools {
namespace {

using unicode::Age;
using unicode::Category;
using unicode::NormalForm;

template <typename Use>
void for_each_character(std::string_view text, const Use& use) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    const char32_t code = unicode::next_character(text, at);
    use(code, text.substr(begin, at - begin));
  }
}

/// A part that maps characters independently: `Map(code, bytes, writer)`.
template <auto Map>
class EachCharacter : public Normalizer {
 public:
  void apply(std::string_view text, Rewriter& writer) const override {
    for_each_character(text,
                       [&](char32_t code, std::string_view bytes) { Map(code, bytes, writer); });
  }
};

void lower(char32_t code, std::string_view bytes, Rewriter& writer) {
  constexpr char32_t kDottedI = 0x130, kDot = 0x307;  // the only lower-case mapping to two
                                                      // characters
  if (code == kDottedI) {
    writer.replace("i");
    writer.insert(kDot);
    return;
  }
  const char32_t small = unicode::lowercase(code);
  if (small == code)
    writer.replace(bytes);
  else
    writer.replace(small);
}

void keep_unless(bool drops, std::string_view bytes, Rewriter& writer) {
  if (drops)
    writer.drop();
  else
    writer.replace(bytes);
}

void strip_accent(char32_t code, std::string_view bytes, Rewriter& writer) {
  const auto& record = unicode::record_of(code);
  keep_unless(record.is_mark() && record.age <= Age::k9, bytes, writer);
}

void strip_nonspacing(char32_t code, std::string_view bytes, Rewriter& writer) {
  const auto& record = unicode::record_of(code);
  keep_unless(record.category == Category::kMn && record.age <= Age::k8, bytes, writer);
}

/// BertNormalizer: drops control characters; white space becomes a space.
void clean(char32_t code, std::string_view bytes, Rewriter& writer) {
  constexpr char32_t kReplacement = 0xFFFD;
  if (code == '\t' || code == '\n' || code == '\r') return writer.replace(" ");
  const auto& record = unicode::record_of(code);
  const bool is_control = record.is_in(Category::kCc, Category::kCo) && record.age <= Age::k8;
  if (is_control || code == kReplacement) return writer.drop();
  writer.replace(unicode::is_white_space(code) ? " " : bytes);
}

/// Chinese characters in BERT's definition: without Hiragana, Katakana and Hangul.
bool is_ideograph(char32_t code) {
  constexpr char32_t kRanges[][2] = {{0x3400, 0x4DBF},   {0x4E00, 0x9FFF},   {0xF900, 0xFAFF},
                                     {0x20000, 0x2A6DF}, {0x2A700, 0x2B81F}, {0x2B920, 0x2CEAF},
                                     {0x2F800, 0x2FA1F}};
  for (const auto& [first, last] : kRanges)
    if (code >= first && code <= last) return true;
  return false;
}

void space_ideograph(char32_t code, std::string_view bytes, Rewriter& writer) {
  if (!is_ideograph(code)) return writer.replace(bytes);
  writer.replace(" ");
  writer.insert(bytes);
  writer.insert(" ");
}

/// SentencePiece's rules for machine translation.
void clean_for_translation(char32_t code, std::string_view bytes, Rewriter& writer) {
  const bool is_blank = code == 0x9 || code == 0xA || code == 0xC || code == 0xD ||
                        code == 0x1680 || (code >= 0x200B && code <= 0x200F) || code == 0x2028 ||
                        code == 0x2029 || code == 0x2581 || code == 0xFEFF || code == 0xFFFD;
  const bool is_control = (code >= 0x1 && code <= 0x8) || code == 0xB ||
                          (code >= 0xE && code <= 0x1F) || code == 0x7F || code == 0x8F ||
                          code == 0x9F;
  keep_unless(is_control, is_blank ? " " : bytes, writer);
}

void spell_bytes(char32_t /*code*/, std::string_view bytes, Rewriter& writer) {
  const auto& characters = byte_characters();
  writer.replace(characters[static_cast<unsigned char>(bytes[0])]);
  for (const char byte : bytes.substr(1))
    writer.insert(characters[static_cast<unsigned char>(byte)]);
}

class InNormalForm : public Normalizer {
 public:
  explicit InNormalForm(NormalForm form) : form_(form) {}
  void apply(std::string_view text, Rewriter& writer) const override {
    if (unicode::is_ascii(text)) return writer.keep(text);
    unicode::normalize(text, form_, [&](char32_t code, int sources) {
      if (sources == 0) return writer.insert(code);
      writer.replace(code);
      for (int i = 1; i < sources; ++i) writer.drop();
    });
  }

 private:
  NormalForm form_;
};

class Strip : public Normalizer {
 public:
  Strip(bool left, bool right) : left_(left), right_(right) {}
  void apply(std::string_view text, Rewriter& writer) const override {
    std::string_view kept = left_ ? unicode::without_space_at(true, text) : text;
    const std::string_view dropped = text.substr(0, text.size() - kept.size());
    for_each_character(dropped, [&](char32_t, std::string_view) { writer.drop(); });
    writer.keep(right_ ? unicode::without_space_at(false, kept) : kept);
  }

 private:
  bool left_, right_;
};

class Prepend : public Normalizer {
 public:
  explicit Prepend(std::string text) : text_(std::move(text)) {}
  void apply(std::string_view text, Rewriter& writer) const override {
    if (!text.empty()) writer.keep(writer.prepend(text_, text));
  }

 private:
  std::string text_;
};

class Replace : public Normalizer {
 public:
  Replace(TextPattern pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}
  void apply(std::string_view text, Rewriter& writer) const override {
    std::size_t done = 0, size = 0;
    if (text.empty()) return;
    pattern_.for_each_match(text, [&](std::size_t begin, std::size_t end) {
      writer.keep(text.substr(done, begin - done));
      for_each_character(text.substr(begin, end - begin),
                         [&](char32_t, std::string_view) { writer.drop(); });
      writer.insert(content_);
      require_text_size(size += content_.size());
      done = end;
    });
    writer.keep(text.substr(done));
  }

 private:
  TextPattern pattern_;
  std::string content_;
};

class Precompiled : public Normalizer {
 public:
  explicit Precompiled(CharacterMap map) : map_(std::move(map)) {}
  void apply(std::string_view text, Rewriter& writer) const override { map_.apply(text, writer); }

 private:
  CharacterMap map_;
};

template <auto Map>
std::unique_ptr<const Normalizer> each() {
  return std::make_unique<EachCharacter<Map>>();
}
template <NormalForm form>
std::unique_ptr<const Normalizer> in_form() {
  return std::make_unique<InNormalForm>(form);
}

// Parts without fields.
constexpr std::pair<const char*, std::unique_ptr<const Normalizer> (*)()> kPlain[] = {
    {"NFC", in_form<NormalForm::kNfc>},   {"NFD", in_form<NormalForm::kNfd>},
    {"NFKC", in_form<NormalForm::kNfkc>}, {"NFKD", in_form<NormalForm::kNfkd>},
    {"Lowercase", each<lower>},           {"StripAccents", each<strip_accent>},
    {"Nmt", each<clean_for_translation>}, {"ByteLevel", each<spell_bytes>}};

}  // namespace

TextPattern pattern_of(Fields& fields) {
  Fields pattern(fields.at("pattern"), "the pattern of " + fields.what());
  std::optional<TextPattern> result;
  if (pattern.find("Regex") != nullptr)
    result.emplace(pattern.get<std::string>("Regex"));
  else
    result = TextPattern::of_literal(pattern.get<std::string>("String"));
  pattern.finish();
  return std::move(*result);
}

void Normalizers::read(const Fields::Json* part) {
  for (const Fields::Json* each_part : parts_of(part, "normalizer", "normalizers")) {
    const std::string type = type_of(*each_part);
    Fields fields(*each_part, fmt::format("the normalizer '{}'", type));
    bool is_known = false;
    for (const auto& [name, make] : kPlain)
      if (type == name) {
        parts_.push_back(make());
        is_known = true;
      }
    if (is_known) {
      fields.finish();
      continue;
    }
    if (type == "Prepend") {
      auto text = fields.get<std::string>("prepend");
      // The library then treats the first character as inserted, and splits repeat it.
      if (text.empty()) unsupported_part(fields.what() + " of an empty text");
      parts_.push_back(std::make_unique<Prepend>(std::move(text)));
    } else if (type == "Replace") {
      TextPattern pattern = pattern_of(fields);
      parts_.push_back(
          std::make_unique<Replace>(std::move(pattern), fields.get<std::string>("content")));
    } else if (type == "Precompiled") {
      const auto map = fields.get<std::string>("precompiled_charsmap", "");
      if (!map.empty()) parts_.push_back(std::make_unique<Precompiled>(CharacterMap(map)));
    } else if (type == "Strip") {
      const bool left = fields.get("strip_left", true), right = fields.get("strip_right", true);
      parts_.push_back(std::make_unique<Strip>(left, right));
    } else if (type == "BertNormalizer") {
      const bool lowers = fields.get("lowercase", true);
      if (fields.get("clean_text", true)) parts_.push_back(each<clean>());
      if (fields.get("handle_chinese_chars", true)) parts_.push_back(each<space_ideograph>());
      if (fields.get("strip_accents", lowers)) {  // null: the same as lowercase
        parts_.push_back(in_form<NormalForm::kNfd>());
        parts_.push_back(each<strip_nonspacing>());
      }
      if (lowers) parts_.push_back(each<lower>());
    } else {
      unsupported_part(fields.what());
    }
    fields.finish();
  }
}

void Normalizers::apply(Fragment& fragment) const {
  for (const auto& part : parts_) {
    Fragment next;
    next.begin = fragment.begin;
    next.text.reserve(fragment.text.size());
    Rewriter writer(fragment.text, fragment.origins.empty() ? nullptr : fragment.origins.data(),
                    fragment.begin, next.text, next.origins);
    part->apply(fragment.text, writer);
    require_text_size(next.text.size());
    fragment = std::move(next);
  }
}

}  // namespace sinter::tools
