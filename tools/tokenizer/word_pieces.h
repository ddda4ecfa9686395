// WordPiece, the model of BERT's tokenizers: a word is the longest pieces that the vocabulary has,
// from left to right.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tools/tokenizer/byte_pairs.h"

namespace sinter::tools {

class WordPieces {
 public:
  using Vocabulary = std::unordered_map<std::string, TokenId>;
  /// `prefix`: what names of pieces begin with that do not begin a word. Words of more characters
  /// than `most_characters`, and such as pieces do not cover, are `unknown`.
  WordPieces(std::string prefix, TokenId unknown, std::size_t most_characters)
      : prefix_(std::move(prefix)), unknown_(unknown), most_characters_(most_characters) {}

  /// Appends the pieces of `word`, which is UTF-8 and not empty.
  void encode(const Vocabulary& vocabulary, std::string_view word, std::vector<TokenId>& ids) const;
  const std::string& prefix() const { return prefix_; }

 private:
  std::string prefix_;
  TokenId unknown_;
  std::size_t most_characters_;
};

/// English punctuation without the blank in front that joining words puts there, as WordPiece's
/// decoder has it: " ." is ".", " n't" is "n't".
std::string without_blanks_of_punctuation(std::string text);

}  // namespace sinter::tools
