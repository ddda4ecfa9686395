// Unigram, the model of SentencePiece's tokenizers (T5, XLM-R, ALBERT, Marian): of all ways to cut
// a text into pieces of the vocabulary the most likely one (Kudo 2018, arXiv:1804.10959).
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace sinter::tools {

class Unigram {
 public:
  /// A piece and the logarithm of its probability. The piece must not be empty.
  void add(const std::string& piece, double score);

  /// Appends the pieces of `text`, which is UTF-8, in order. Neighbouring characters that no piece
  /// has are one part.
  void cut(std::string_view text, std::vector<std::string_view>& parts) const;

 private:
  std::unordered_map<std::string, double> scores_;
  std::size_t longest_ = 0;  // bytes of a piece
  double least_ = 0;         // score
};

}  // namespace sinter::tools
