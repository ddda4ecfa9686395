// SPDX-License-Identifier: Apache-2.0
// Tokens back to text: the "decoder" of tokenizer.json.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tools/tokenizer/parts/fields.h"

namespace sinter::tools {

/// What takes tokens one after the other. A token may come in parts, each of which is UTF-8.
class TokenSink {
 public:
  virtual ~TokenSink() = default;
  virtual void add(std::string_view part) = 0;
  virtual void end_token() = 0;
  /// No token comes any more.
  virtual void finish() = 0;
};

/// One part. Each does what the part of its name does in Hugging Face's library, and as soon as it
/// can say what that is.
class TokenDecoder {
 public:
  virtual ~TokenDecoder() = default;
  /// Takes the tokens of one text; what they become goes to `next`, which outlives it.
  virtual std::unique_ptr<TokenSink> start(TokenSink& next) const = 0;
  /// What a token within a text becomes: bytes, which need not be whole characters.
  virtual std::string middle(std::string token) const = 0;
  /// Whether it makes one token of all.
  virtual bool fuses() const { return false; }
};

class TokenDecoders {
 public:
  /// `part` of null: tokens are joined by blanks. Throws Error(kUnsupported) for a part that is not
  /// known, by its name.
  void read(const Fields::Json* part);
  std::string middle(std::string token) const;
  const std::vector<std::unique_ptr<const TokenDecoder>>& parts() const { return parts_; }

 private:
  std::vector<std::unique_ptr<const TokenDecoder>> parts_;
};

/// The text of tokens as they come.
class TextOfTokens {
 public:
  explicit TextOfTokens(const TokenDecoders& decoders);
  /// The text that is certain by now and was not given back before.
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
  std::vector<std::unique_ptr<TokenSink>> stages_;  // the first is the last one
};

}  // namespace sinter::tools
