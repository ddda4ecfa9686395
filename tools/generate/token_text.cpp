#include "tools/generate/token_text.h"

#include <memory>

namespace sinter::tools {
namespace {

class StreamedText : public TokenText {
 public:
  explicit StreamedText(Tokenizer::Stream stream) : stream_(std::move(stream)) {}
  std::string add(TokenId token) override { return stream_.add(token); }
  std::string finish() override { return stream_.finish(); }

 private:
  Tokenizer::Stream stream_;
};

}  // namespace

void give_texts(const Tokenizer& tokenizer, EngineOptions& options) {
  options.token_bytes = [&tokenizer](TokenId id) {
    return tokenizer.is_special(id) ? std::string_view() : tokenizer.bytes_of(id);
  };
  options.token_text = [&tokenizer] {
    return std::make_unique<StreamedText>(tokenizer.stream(true));
  };
}

}  // namespace sinter::tools
