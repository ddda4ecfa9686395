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
  /// `base64`: the size in bytes of a double array (Darts, little-endian), the array, and texts
  /// that end with a zero, of which the array has places. Texts are UTF-8. Throws Error(kUsage) for
  /// anything else.
  explicit CharacterMap(std::string_view base64);

  /// Writes what each grapheme of up to five bytes of `text` (UTF-8), or else each of its
  /// characters, becomes, as Hugging Face's tokenizers do it.
  void apply(std::string_view text, Rewriter& writer) const;

 private:
  /// What the shortest prefix of `chunk` that the map has becomes.
  std::optional<std::string_view> find(std::string_view chunk) const;
  std::vector<std::uint32_t> units_;
  std::string texts_;
};

}  // namespace sinter::tools
