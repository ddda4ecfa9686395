// SPDX-License-Identifier: Apache-2.0
// What a tokenizer.json says: its parts, as encoding and decoding apply them.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "tools/tokenizer/added_tokens.h"
#include "tools/tokenizer/lengths.h"
#include "tools/tokenizer/models/model.h"
#include "tools/tokenizer/parts/decoders.h"
#include "tools/tokenizer/parts/normalizers.h"
#include "tools/tokenizer/parts/post_processors.h"
#include "tools/tokenizer/parts/pre_tokenizers.h"

namespace sinter::tools {

struct TokenizerData {
  Normalizers normalizers;
  PreTokenizers pre_tokenizers;
  std::unique_ptr<const Model> model;
  AddedTokens added;
  PostProcessors post_processors;
  TokenDecoders decoders;
  std::optional<Truncation> truncation;
  std::optional<Padding> padding;

  /// The decoders' input for a token; nullopt for unknown ids.
  std::optional<std::string_view> text_of(TokenId id) const;

  // Decoded tokens within a text, computed at first use.
  mutable std::once_flag middles_made;
  mutable std::vector<std::string> middles;
};

/// `json`: the contents of the file. Throws as Tokenizer::parse.
std::unique_ptr<TokenizerData> read_tokenizer(std::string_view json);

}  // namespace sinter::tools
