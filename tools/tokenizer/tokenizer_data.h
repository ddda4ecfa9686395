// What a tokenizer.json says, as encoding and decoding need it.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "tools/tokenizer/byte_pairs.h"
#include "tools/tokenizer/text_normalizer.h"
#include "tools/tokenizer/text_split.h"
#include "tools/tokenizer/unigram.h"
#include "tools/tokenizer/word_pieces.h"

namespace sinter::tools {

/// One step of the pre-tokenizer: cuts each piece of text.
struct TextCut {
  std::optional<TextPattern> pattern;
  SplitBehavior behavior = SplitBehavior::kIsolated;
  bool invert = false;
  bool add_prefix_space = false;
  std::string blank;  // of Metaspace: what stands for a blank, also in front of a text
  enum class Prefix : char { kNever, kFirst, kAlways } prefix = Prefix::kNever;
};

/// A token that becomes one wherever its name is in a text.
struct AddedToken {
  std::string text;
  TokenId id = 0;
  bool takes_left = false, takes_right = false;  // white space beside it
};

struct TokenizerData {
  std::unordered_map<std::string, TokenId> vocabulary;  // by name: in the byte alphabet
  std::vector<std::string> bytes;                       // by id
  std::vector<bool> special;                            // by id
  std::vector<AddedToken> added;                        // the longest first
  std::vector<TextCut> cuts;
  BytePairs pairs;
  std::array<std::optional<TokenId>, 256> byte_tokens;  // none: the byte is left out
  bool is_byte_level = false;  // words are bytes; else characters, as SentencePiece has them
  std::optional<TokenId> unknown;
  bool fuses_unknown = false, falls_back_to_bytes = false;  // of characters
  std::size_t stripped = 0;  // blanks in front of a decoded text of characters
  bool ignore_merges = false;
  TextNormalizer normalizer;
  std::optional<WordPieces> word_pieces;  // instead of pairs, byte tokens and cuts
  std::optional<Unigram> unigram;         // instead of pairs
  bool cleans_up = false;                 // the text of word pieces
  std::vector<TokenId> before, behind;    // special tokens around every text
};

}  // namespace sinter::tools
