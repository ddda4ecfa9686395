// SPDX-License-Identifier: Apache-2.0
// The map of characters that SentencePiece compiles for its normalizer ("Precompiled" in
// tokenizer.json): what each becomes, mostly normal form KC and single blanks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/tokenizer/parts/passage.h"

namespace sinter::tools {

class CharacterMap {
 public:
  /// `base64`: the size in bytes of a double array (Darts, little-endian), the array, and
  /// zero-terminated UTF-8 texts to which the array holds offsets. Throws Error(kUsage) for other
  /// contents.
  explicit CharacterMap(std::string_view base64);

  /// Maps each grapheme of up to 5 bytes of `text` (UTF-8), or else each of its characters, as
  /// Hugging Face's tokenizers do.
  void apply(std::string_view text, Rewriter& writer) const;

 private:
  /// The replacement of the shortest prefix of `chunk` in the map.
  std::optional<std::string_view> find(std::string_view chunk) const;
  std::vector<std::uint32_t> units_;
  std::string texts_;
};

}  // namespace sinter::tools
