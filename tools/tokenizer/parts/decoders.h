// SPDX-License-Identifier: Apache-2.0
// Tokens back to text: the "decoder" of tokenizer.json.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tools/tokenizer/parts/fields.h"

namespace sinter::tools {

/// Receives tokens in order. A token may arrive in parts, each valid UTF-8.
class TokenSink {
 public:
  virtual ~TokenSink() = default;
  virtual void add(std::string_view part) = 0;
  virtual void end_token() = 0;
  /// Called after the last token.
  virtual void finish() = 0;
};

/// One part, equivalent to the part of its name in Hugging Face's library; streams its output as
/// soon as it is certain.
class TokenDecoder {
 public:
  virtual ~TokenDecoder() = default;
  /// Creates a sink for the tokens of one text; the output goes to `next`, which outlives it.
  virtual std::unique_ptr<TokenSink> start(TokenSink& next) const = 0;
  /// The decoded bytes of a token within a text, not necessarily whole characters.
  virtual std::string middle(std::string token) const = 0;
  /// Whether it fuses all tokens into one.
  virtual bool fuses() const { return false; }
};

class TokenDecoders {
 public:
  /// `part` = null: joins tokens with spaces. Throws Error(kUnsupported), naming it, for an unknown
  /// part.
  void read(const Fields::Json* part);
  std::string middle(std::string token) const;
  const std::vector<std::unique_ptr<const TokenDecoder>>& parts() const { return parts_; }

 private:
  std::vector<std::unique_ptr<const TokenDecoder>> parts_;
};

/// The text of streamed tokens.
class TextOfTokens {
 public:
  explicit TextOfTokens(const TokenDecoders& decoders);
  /// The text that has become certain since the last call.
  std::string add(std::string_view token);
  std::string finish();

 private:
  struct Text : TokenSink {
    std::string text;
    void add(std::string_view part) override { text += part; }
    void end_token() override {}
    void finish() override {}
  };
  std::unique_ptr<Text> text_ = std::make_unique<Text>();
  std::vector<std::unique_ptr<TokenSink>> stages_;  // in reverse order
};

}  // namespace sinter::tools
