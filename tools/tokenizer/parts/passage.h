// SPDX-License-Identifier: Apache-2.0
// A text during tokenization: its pieces and their origins.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace sinter::tools {

using TokenId = std::int64_t;
using Origin = std::uint32_t;  // a byte offset in the original text

/// Maximum bytes of a text after normalization; offsets are Origin.
constexpr std::size_t kMostText = std::size_t{1} << 28;
/// Throws Error(kUsage) above that.
void require_text_size(std::size_t bytes);

/// A text with the origin of each byte, if origins are needed.
struct Fragment {
  std::string text;
  std::vector<Origin> origins;  // empty: not needed
  Origin begin = 0;             // offset in the whole text
};

/// Writes the new text. Origins follow Hugging Face's NormalizedString::transform, whose offsets in
/// the old text advance with what is written, not with what is read.
class Rewriter {
 public:
  /// Appends to `text` and, unless `old_origins` is null, to `origins`.
  Rewriter(std::string_view old, const Origin* old_origins, Origin begin, std::string& text,
           std::vector<Origin>& origins)
      : old_(old), old_origins_(old_origins), begin_(begin), text_(text), origins_(origins) {}

  /// Replaces the next character.
  void replace(std::string_view character) {
    text_ += character;
    if (old_origins_ != nullptr) {
      origins_.insert(origins_.end(), character.size(), origin_at(at_));
      skip();
    }
  }
  void replace(char32_t code);
  /// Inserts characters at the current position.
  void insert(std::string_view characters) {
    text_ += characters;
    if (old_origins_ != nullptr)
      origins_.insert(origins_.end(), characters.size(), at_ == 0 ? begin_ : origin_at(at_ - 1));
  }
  void insert(char32_t code);
  /// Inserts `prefix` before `text`, whose first character is the next one and is written, too.
  /// Returns the rest of `text`.
  std::string_view prepend(std::string_view prefix, std::string_view text);
  /// Copies characters of the old text.
  void keep(std::string_view characters);
  /// Drops the next character of the old text.
  void drop() {
    if (old_origins_ != nullptr) skip();
  }
  bool tracks() const { return old_origins_ != nullptr; }

 private:
  Origin origin_at(std::size_t at) const {
    return at < old_.size() ? old_origins_[at]
           : old_.empty()   ? begin_
                            : old_origins_[old_.size() - 1];
  }
  void skip();

  std::string_view old_;
  const Origin* old_origins_;
  Origin begin_;
  std::string& text_;
  std::vector<Origin>& origins_;
  std::size_t at_ = 0;
};

/// A part of a passage: text, or a token.
struct Piece {
  static constexpr TokenId kText = -1;
  std::uint32_t begin = 0, end = 0;  // offsets in Passage::text()
  Origin origin = 0;
  TokenId token = kText;
};

class Passage {
 public:
  using Cut = std::function<void(std::uint32_t, std::uint32_t)>;

  explicit Passage(bool tracks) : tracks_(tracks) {}

  bool tracks() const { return tracks_; }
  const std::string& text() const { return text_; }
  const std::vector<Piece>& pieces() const { return pieces_; }
  std::string_view text_of(const Piece& piece) const {
    return std::string_view(text_).substr(piece.begin, piece.end - piece.begin);
  }

  void add_token(TokenId token) { pieces_.push_back({0, 0, 0, token}); }
  /// Adds a piece of `fragment` from `begin` to `end`, unless it is empty.
  void add_text(const Fragment& fragment, std::size_t begin, std::size_t end);

  /// Splits each text: `split(text, cut)` calls `cut(begin, end)` for each remaining part, in
  /// order. Drops empty parts.
  template <typename Split>
  void split(const Split& split) {
    std::vector<Piece> pieces;
    pieces.reserve(pieces_.size());
    for (const Piece& piece : pieces_) {
      if (piece.token != Piece::kText) {
        pieces.push_back(piece);
        continue;
      }
      split(text_of(piece), [&](std::size_t begin, std::size_t end) {
        if (begin >= end) return;
        const auto from = static_cast<std::uint32_t>(piece.begin + begin);
        pieces.push_back({from, static_cast<std::uint32_t>(piece.begin + end),
                          tracks_ ? origins_[from] : 0, Piece::kText});
      });
    }
    pieces_ = std::move(pieces);
  }

  /// Rewrites each text: `rewrite(text, piece, writer)`.
  template <typename Rewrite>
  void rewrite(const Rewrite& rewrite) {
    std::string text;
    std::vector<Origin> origins;
    text.reserve(text_.size() + text_.size() / 4);
    for (Piece& piece : pieces_) {
      if (piece.token != Piece::kText) continue;
      const auto begin = static_cast<std::uint32_t>(text.size());
      Rewriter writer(text_of(piece), tracks_ ? origins_.data() + piece.begin : nullptr,
                      piece.origin, text, origins);
      rewrite(text_of(piece), piece, writer);
      require_text_size(text.size());
      piece.begin = begin;
      piece.end = static_cast<std::uint32_t>(text.size());
    }
    text_ = std::move(text);
    origins_ = std::move(origins);
  }

 private:
  bool tracks_;
  std::string text_;
  std::vector<Origin> origins_;
  std::vector<Piece> pieces_;
};

}  // namespace sinter::tools
