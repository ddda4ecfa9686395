// What a tokenizer does to text before it cuts it: the "normalizer" of tokenizer.json.
#pragma once

#include <string>
#include <string_view>
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
    kCleanText,            // without control characters; any white space is a blank
    kSpaceIdeographs,      // blanks around each
    kStripNonspacingMarks  // normal form D without nonspacing marks
  };
  void add(Step step) { steps_.push_back(step); }
  bool is_empty() const { return steps_.empty(); }

  /// `text` is UTF-8.
  std::string apply(std::string_view text) const;

 private:
  std::vector<Step> steps_;
};

/// `text` (UTF-8) in words, as BertPreTokenizer cuts it: at white space, which is dropped, and
/// around each punctuation character, which is a word.
std::vector<std::string_view> bert_words(std::string_view text);

}  // namespace sinter::tools
