// What a tokenizer does to text before it cuts it: the "normalizer" of tokenizer.json.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

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
    kPrepend                // `to` in front of text that is not empty
  };
  void add(Step step, std::string from = "", std::string to = "") {
    steps_.push_back({step, std::move(from), std::move(to)});
  }
  bool is_empty() const { return steps_.empty(); }

  /// `text` is UTF-8.
  std::string apply(std::string_view text) const;

 private:
  struct Action {
    Step step;
    std::string from, to;
  };
  std::vector<Action> steps_;
};

/// `text` (UTF-8) in words, as BertPreTokenizer cuts it: at white space, which is dropped, and
/// around each punctuation character, which is a word.
std::vector<std::string_view> bert_words(std::string_view text);

/// Every `from`, which is not empty, by `to`.
std::string replaced(std::string text, std::string_view from, std::string_view to);

}  // namespace sinter::tools
