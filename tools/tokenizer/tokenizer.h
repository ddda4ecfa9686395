// SPDX-License-Identifier: Apache-2.0
// Tokenizers of Hugging Face's tokenizer.json: text to ids and back, as the `tokenizers` library
// does it.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tools/tokenizer/lengths.h"

namespace sinter::tools {

struct TokenizerData;

class Tokenizer {
 public:
  /// Throws Error(kUsage) if the file cannot be read or is not such a file, Error(kUnsupported) for
  /// parts and fields that it does not know, by their names.
  static Tokenizer load(const std::string& path);
  /// `json`: the contents of the file.
  static Tokenizer parse(std::string_view json);
  ~Tokenizer();
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;

  static constexpr std::size_t kAnyNumber = std::numeric_limits<std::size_t>::max();

  /// Ids of `text`, with the tokens that the file puts around every text if `add_special`. Names of
  /// added tokens in `text` become these tokens. Throws Error(kUsage) if `text` is not UTF-8, has
  /// no tokens in this vocabulary, or more than `most`, which is found out before all are made.
  std::vector<std::int64_t> encode(std::string_view text, bool add_special = true,
                                   std::size_t most = kAnyNumber) const;
  /// Of two texts that belong together.
  std::vector<std::int64_t> encode_pair(std::string_view first, std::string_view second,
                                        bool add_special = true) const;

  struct Cut {
    std::vector<std::int64_t> ids;
    bool is_cut = false;
  };
  /// As encode(), but cut as the file says (truncation()).
  Cut encode_cut(std::string_view text, bool add_special = true,
                 std::size_t most = kAnyNumber) const;
  struct Pair {
    std::vector<std::int64_t> ids;
    std::size_t second = 0;  // the first id behind the first text and what stands around it
    bool is_cut = false;
  };
  /// As encode_pair(), but cut as the file says.
  Pair encode_pair_cut(std::string_view first, std::string_view second) const;
  /// Makes the ids of a text as long as the file wants a single one to be (padding()).
  void pad(std::vector<std::int64_t>& ids) const;
  /// What the file says of long texts and short ones, if it does.
  const std::optional<Truncation>& truncation() const;
  const std::optional<Padding>& padding() const;

  /// The text of ids as they come: joined it is what decode() gives.
  class Stream {
   public:
    ~Stream();
    Stream(Stream&&) noexcept;
    /// The text that is certain by now and was not given back before.
    std::string add(std::int64_t id);
    /// What is left, behind the last id.
    std::string finish();

   private:
    friend class Tokenizer;
    struct State;
    explicit Stream(std::unique_ptr<State> state);
    std::unique_ptr<State> state_;
  };
  /// The tokenizer must outlive the stream.
  Stream stream(bool skip_special) const;
  /// The text of `ids`, where bytes that are no UTF-8 become U+FFFD.
  std::string decode(std::span<const std::int64_t> ids, bool skip_special) const;

  /// What a token is within a text: bytes, which need not be whole characters. Nothing for ids that
  /// do not exist.
  std::string_view bytes_of(std::int64_t id) const;
  /// Whether `id` is an added token that marks something and is no text.
  bool is_special(std::int64_t id) const;
  /// The id of a token by its name in the file.
  std::optional<std::int64_t> id_of(std::string_view token) const;

 private:
  explicit Tokenizer(std::unique_ptr<const TokenizerData> data);
  std::unique_ptr<const TokenizerData> data_;
};

}  // namespace sinter::tools
