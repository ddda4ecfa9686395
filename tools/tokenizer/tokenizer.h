// Tokenizers of Hugging Face's tokenizer.json: byte-pair encoding of bytes, as GPT-2, Llama 3, Qwen
// and SmolLM have it, and of characters, as Llama 2, Mistral and Gemma; WordPiece, as BERT and what
// was made of it; Unigram, as T5, XLM-R and Marian.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sinter::tools {

struct TokenizerData;

class Tokenizer {
 public:
  /// Throws Error(kUsage) if the file cannot be read or is not such a file, Error(kUnsupported) for
  /// kinds of models, normalizers and other parts that it does not know, by their names.
  static Tokenizer load(const std::string& path);
  /// `json`: the contents of the file.
  static Tokenizer parse(std::string_view json);
  ~Tokenizer();
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;

  /// Ids of `text`, with the tokens that the file puts around every text if `add_special`. Names of
  /// added tokens in `text` become these tokens. Throws Error(kUsage) if `text` is not UTF-8.
  std::vector<std::int64_t> encode(std::string_view text, bool add_special = true) const;

  /// The bytes of a token, which need not be whole characters (its name in WordPiece). Nothing for
  /// ids that do not exist.
  std::string_view bytes_of(std::int64_t id) const;
  /// Whether `id` is an added token that marks something and is no text.
  bool is_special(std::int64_t id) const;
  /// The text of `ids`, where bytes that are no UTF-8 become U+FFFD.
  std::string decode(std::span<const std::int64_t> ids, bool skip_special) const;
  /// The id of a token by its name in the file.
  std::optional<std::int64_t> id_of(std::string_view token) const;

 private:
  explicit Tokenizer(std::unique_ptr<const TokenizerData> data);
  std::unique_ptr<const TokenizerData> data_;
};

}  // namespace sinter::tools
