// SPDX-License-Identifier: Apache-2.0
// WordPiece, the model of BERT's tokenizers: splits a word greedily into the longest known pieces,
// from left to right. WordLevel: each word is a token.
#pragma once

#include "tools/tokenizer/models/byte_trie.h"
#include "tools/tokenizer/models/model.h"

namespace sinter::tools {

class WordPieces : public Model {
 public:
  explicit WordPieces(Fields& fields);
  void encode(std::string_view piece, std::vector<TokenId>& ids) const override;

 private:
  std::string unknown_;
  std::size_t most_characters_;  // longer words are unknown
  ByteTrie trie_;
  ByteTrie::Node continues_ = ByteTrie::kNowhere;  // after the prefix of pieces within a word
};

class WordLevel : public Model {
 public:
  explicit WordLevel(Fields& fields);
  void encode(std::string_view piece, std::vector<TokenId>& ids) const override;

 private:
  std::string unknown_;
};

}  // namespace sinter::tools
