// What a tokenizer does to text before it cuts it: the "normalizer" of tokenizer.json.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/tokenizer/character_map.h"
#include "tools/tokenizer/text_split.h"

namespace sinter::tools {

/// The steps of a normalizer, in order. Unicode as libutf8proc has it (version 15).
class TextNormalizer {
 public:
  enum class Step : char {
    kNfc,
    kNfd,
    kNfkc,
    kNfkd,
    kLowercase,     // each character by itself
    kStripAccents,  // without all combining marks
    // Of BertNormalizer:
    kCleanText,             // without control characters; any white space is a blank
    kSpaceIdeographs,       // blanks around each
    kStripNonspacingMarks,  // normal form D without nonspacing marks
    kReplace,               // `from` by `to`, everywhere
    kPrepend,               // `to` in front of text that is not empty
    kStripLeft,             // without white space at the beginning
    kStripRight,            // or the end
    kNmt                    // without control characters; blanks for white space without width
  };
  void add(Step step, std::string from = "", std::string to = "") {
    steps_.push_back({step, std::move(from), std::move(to), nullptr, nullptr});
  }
  void add(CharacterMap map) {
    steps_.push_back({{}, {}, {}, std::make_shared<const CharacterMap>(std::move(map)), nullptr});
  }
  /// What matches `pattern` by `to`.
  void add(TextPattern pattern, std::string to) {
    steps_.push_back(
        {{}, {}, std::move(to), nullptr, std::make_shared<const TextPattern>(std::move(pattern))});
  }
  bool is_empty() const { return steps_.empty(); }

  /// `text` is UTF-8.
  std::string apply(std::string_view text) const;

 private:
  struct Action {
    Step step;
    std::string from, to;
    std::shared_ptr<const CharacterMap> map;  // instead of a step
    std::shared_ptr<const TextPattern> pattern;
  };
  std::vector<Action> steps_;
};

/// `text` (UTF-8) in words, as BertPreTokenizer cuts it: at white space, which is dropped, and
/// around each punctuation character, which is a word.
std::vector<std::string_view> bert_words(std::string_view text);

/// `text` (UTF-8) without white space at its beginning (`left`) or its end.
std::string_view without_space_at(bool left, std::string_view text);

/// Every `from`, which is not empty, by `to`.
std::string replaced(std::string text, std::string_view from, std::string_view to);

}  // namespace sinter::tools
