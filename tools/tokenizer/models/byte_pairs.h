// SPDX-License-Identifier: Apache-2.0
// Byte-pair encoding: splits a word into characters and merges adjacent tokens, lowest rank first.
#pragma once

#include <array>

#include "tools/tokenizer/models/model.h"

namespace sinter::tools {

class BytePairs : public Model {
 public:
  explicit BytePairs(Fields& fields);
  void encode(std::string_view piece, std::vector<TokenId>& ids) const override;

 private:
  struct Merge {
    std::uint32_t rank;
    std::int32_t merged;
  };
  /// Hash table from pairs of tokens to merged tokens; open addressing, since lookups dominate the
  /// time.
  class Merges {
   public:
    void reserve(std::size_t count);
    void add(TokenId left, TokenId right, Merge merge);
    const Merge* find(std::int32_t left, std::int32_t right) const {
      if (slots_.empty()) return nullptr;
      const std::uint64_t key = key_of(left, right);
      for (std::size_t at = place_of(key);; at = (at + 1) & mask_) {
        if (slots_[at].key == key) return &slots_[at].merge;
        if (slots_[at].key == kFree) return nullptr;
      }
    }

   private:
    static constexpr std::uint64_t kFree = ~std::uint64_t{0};
    struct Slot {
      std::uint64_t key = kFree;
      Merge merge = {};
    };
    static std::uint64_t key_of(TokenId left, TokenId right) {
      return static_cast<std::uint64_t>(left) << 32 | static_cast<std::uint32_t>(right);
    }
    std::size_t place_of(std::uint64_t key) const {
      return (key * 0x9E3779B97F4A7C15ULL >> 32) & mask_;
    }
    std::vector<Slot> slots_;
    std::size_t mask_ = 0;
  };

  void read_merges(const Fields::Json& merges);
  void merge(std::vector<std::int32_t>& tokens) const;
  void merge_many(std::vector<std::int32_t>& tokens) const;
  /// Splits `piece` into the tokens of its characters.
  void spell(std::string_view piece, std::vector<std::int32_t>& tokens) const;
  std::optional<TokenId> find_character(std::string_view piece, std::size_t begin,
                                        std::size_t end) const;
  bool spell_bytes(std::string_view text, std::vector<std::int32_t>& tokens) const;

  Merges merges_;
  std::string prefix_, suffix_;  // for characters within a word, and at its end
  std::optional<std::string> unknown_;
  bool fuses_unknown_, falls_back_to_bytes_, ignores_merges_;
  bool merges_none_ = false;                             // a dropout of 1
  std::vector<std::int32_t> characters_;                 // by code point; -1: none
  std::array<std::optional<TokenId>, 256> byte_tokens_;  // <0x00>, ..
};

}  // namespace sinter::tools
