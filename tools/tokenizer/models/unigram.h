// SPDX-License-Identifier: Apache-2.0
// Unigram, the model of SentencePiece's tokenizers (T5, XLM-R, ALBERT, Marian): the most probable
// segmentation into pieces of the vocabulary (Kudo 2018, arXiv:1804.10959).
#pragma once

#include <array>

#include "tools/tokenizer/models/byte_trie.h"
#include "tools/tokenizer/models/model.h"

namespace sinter::tools {

class Unigram : public Model {
 public:
  explicit Unigram(Fields& fields);
  void encode(std::string_view piece, std::vector<TokenId>& ids) const override;
  TokenId size() const override { return vocabulary_.limit(); }

 private:
  void encode_part(std::string_view part, std::vector<TokenId>& ids) const;
  [[noreturn]] static void fail(std::string_view part);

  std::vector<double> scores_;  // log probabilities, by id
  double least_ = 0;
  std::optional<TokenId> unknown_;
  std::optional<std::array<std::optional<TokenId>, 256>> byte_tokens_;  // for byte_fallback
  ByteTrie trie_;
};

}  // namespace sinter::tools
