// The map of characters that SentencePiece compiles for its normalizer ("Precompiled" in
// tokenizer.json): what each becomes, mostly normal form KC and single blanks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sinter::tools {

class CharacterMap {
 public:
  /// `base64`: the size in bytes of a double array (Darts, little-endian), the array, and texts
  /// that end with a zero, of which the array has places. Throws Error(kUsage) for anything else.
  explicit CharacterMap(std::string_view base64);

  /// `text`, which is UTF-8, with what each grapheme of up to five bytes, or else each of its
  /// characters, becomes, as Hugging Face's tokenizers do it.
  std::string apply(std::string_view text) const;

 private:
  /// What the shortest prefix of `chunk` that the map has becomes.
  std::optional<std::string_view> find(std::string_view chunk) const;
  std::vector<std::uint32_t> units_;
  std::string texts_;
};

}  // namespace sinter::tools
