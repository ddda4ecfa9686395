// SPDX-License-Identifier: Apache-2.0
// Log probabilities of tokens, as OpenAI's two forms of answers have them.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include <sinter/engine.h>

#include "tools/serve/models/served_model.h"

namespace sinter::tools {

/// Of one text, whose outputs come one after the other.
class LogprobWriter {
 public:
  explicit LogprobWriter(const ServedModel& model);

  /// Of a message: a list of tokens with `bytes` and `top_logprobs`.
  nlohmann::ordered_json of_message(const GenerationOutput& output) const;
  /// Of a text: `tokens`, `token_logprobs`, `top_logprobs`, and `text_offset` in characters.
  nlohmann::ordered_json of_text(const GenerationOutput& output);

 private:
  nlohmann::ordered_json entry(TokenId id, float logprob) const;

  const ServedModel& model_;
  std::unique_ptr<TokenText> text_;  // what the tokens are in the text; null without a tokenizer
  std::size_t offset_ = 0;           // characters that are certain
};

/// The text of a token; "bytes:\xc3" of one that is no whole characters, as OpenAI's API names it,
/// and the number of one without a tokenizer.
std::string token_name(const ServedModel& model, TokenId id);

}  // namespace sinter::tools
