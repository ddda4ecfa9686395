// SPDX-License-Identifier: Apache-2.0
#include "tools/generate/token_text.h"

#include <memory>
#include <optional>
#include <utility>

namespace sinter::tools {
namespace {

using ShownTokens = std::shared_ptr<const std::map<TokenId, std::string>>;

class StreamedText : public TokenText {
 public:
  StreamedText(const Tokenizer& tokenizer, ShownTokens shown)
      : tokenizer_(tokenizer),
        shown_(std::move(shown)),
        stream_(std::in_place, tokenizer.stream(true)) {}
  std::string add(TokenId token) override {
    const auto found = shown_->find(token);
    if (found == shown_->end()) return stream_->add(token);
    std::string text = stream_->finish() + found->second;
    stream_.emplace(tokenizer_.stream(true));
    return text;
  }
  std::string finish() override { return stream_->finish(); }

 private:
  const Tokenizer& tokenizer_;
  ShownTokens shown_;
  std::optional<Tokenizer::Stream> stream_;
};

}  // namespace

void give_texts(const Tokenizer& tokenizer, EngineOptions& options,
                std::map<TokenId, std::string> shown) {
  const auto names = std::make_shared<const std::map<TokenId, std::string>>(std::move(shown));
  options.token_bytes = [&tokenizer, names](TokenId id) -> std::string_view {
    if (!tokenizer.is_special(id)) return tokenizer.bytes_of(id);
    const auto found = names->find(id);
    return found == names->end() ? std::string_view() : found->second;
  };
  options.token_text = [&tokenizer, names] {
    return std::make_unique<StreamedText>(tokenizer, names);
  };
}

}  // namespace sinter::tools
