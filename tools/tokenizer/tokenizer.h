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
  /// Throws Error(kUsage) if the file is unreadable or no tokenizer.json, Error(kUnsupported),
  /// naming them, for unknown parts and fields.
  static Tokenizer load(const std::string& path);
  /// `json`: the contents of the file.
  static Tokenizer parse(std::string_view json);
  ~Tokenizer();
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;

  static constexpr std::size_t kAnyNumber = std::numeric_limits<std::size_t>::max();

  /// Ids of `text`, with the file's special tokens if `add_special`. Names of added tokens in
  /// `text` become these tokens. Throws Error(kUsage) if `text` is not UTF-8, has no tokens in this
  /// vocabulary, or has more than `most`, which is detected early.
  std::vector<std::int64_t> encode(std::string_view text, bool add_special = true,
                                   std::size_t most = kAnyNumber) const;
  /// Ids of a pair of texts.
  std::vector<std::int64_t> encode_pair(std::string_view first, std::string_view second,
                                        bool add_special = true) const;

  struct Cut {
    std::vector<std::int64_t> ids;
    bool is_cut = false;
  };
  /// As encode(), but cut by the file's rule (truncation()).
  Cut encode_cut(std::string_view text, bool add_special = true,
                 std::size_t most = kAnyNumber) const;
  struct Pair {
    std::vector<std::int64_t> ids;
    std::size_t second = 0;  // index of the first id after the first text and its special tokens
    bool is_cut = false;
  };
  /// As encode_pair(), but cut by the file's rule.
  Pair encode_pair_cut(std::string_view first, std::string_view second) const;
  /// Pads the ids of a single text by the file's rule (padding()).
  void pad(std::vector<std::int64_t>& ids) const;
  /// Cuts texts at `tokens`, in place of the file's rule. Not while another thread encodes.
  void truncate(std::size_t tokens);
  /// The file's rules for long and short texts, if any.
  const std::optional<Truncation>& truncation() const;
  const std::optional<Padding>& padding() const;

  /// Streaming decoder: its results concatenated equal decode().
  class Stream {
   public:
    ~Stream();
    Stream(Stream&&) noexcept;
    /// The text that has become certain since the last call.
    std::string add(std::int64_t id);
    /// The pending text after the last id.
    std::string finish();

   private:
    friend class Tokenizer;
    struct State;
    explicit Stream(std::unique_ptr<State> state);
    std::unique_ptr<State> state_;
  };
  /// The tokenizer must outlive the stream.
  Stream stream(bool skip_special) const;
  /// The text of `ids`; invalid UTF-8 becomes U+FFFD.
  std::string decode(std::span<const std::int64_t> ids, bool skip_special) const;

  /// The bytes of a token within a text, not necessarily whole characters; empty for unknown ids.
  std::string_view bytes_of(std::int64_t id) const;
  /// Whether `id` is an added token that is special, not text.
  bool is_special(std::int64_t id) const;
  /// The id of a token by its name in the file.
  std::optional<std::int64_t> id_of(std::string_view token) const;

 private:
  explicit Tokenizer(std::unique_ptr<TokenizerData> data);
  std::unique_ptr<TokenizerData> data_;
};

}  // namespace sinter::tools
