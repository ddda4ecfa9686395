// SPDX-License-Identifier: Apache-2.0
#include "tools/tokenizer/parts/passage.h"

#include "runtime/format_error.h"
#include "tools/tokenizer/unicode/unicode.h"

namespace sinter::tools {

void require_text_size(std::size_t bytes) {
  if (bytes > kMostText)
    throw usage_error("the text becomes more than {} bytes in the tokenizer", kMostText);
}

void Rewriter::skip() {
  if (at_ < old_.size()) unicode::next_character(old_, at_);
}

void Rewriter::replace(char32_t code) {
  std::string character;
  unicode::append(character, code);
  replace(character);
}

void Rewriter::insert(char32_t code) {
  std::string character;
  unicode::append(character, code);
  insert(character);
}

std::string_view Rewriter::prepend(std::string_view prefix, std::string_view text) {
  std::size_t first = 0, behind = 0;
  unicode::next_character(text, first);
  if (!prefix.empty()) unicode::next_character(prefix, behind);
  // As in the library: the prefix replaces the first character, which is then inserted again.
  if (behind > 0) replace(prefix.substr(0, behind));
  insert(prefix.substr(behind));
  insert(text.substr(0, first));
  if (behind == 0) drop();
  return text.substr(first);
}

void Rewriter::keep(std::string_view characters) {
  text_ += characters;
  if (old_origins_ == nullptr) return;
  for (std::size_t at = 0; at < characters.size();) {
    const std::size_t begin = at;
    unicode::next_character(characters, at);
    origins_.insert(origins_.end(), at - begin, origin_at(at_));
    skip();
  }
}

void Passage::add_text(const Fragment& fragment, std::size_t begin, std::size_t end) {
  if (begin >= end) return;
  require_text_size(text_.size() + end - begin);
  const auto from = static_cast<std::uint32_t>(text_.size());
  text_.append(fragment.text, begin, end - begin);
  if (tracks_)
    origins_.insert(origins_.end(), fragment.origins.begin() + static_cast<std::ptrdiff_t>(begin),
                    fragment.origins.begin() + static_cast<std::ptrdiff_t>(end));
  pieces_.push_back({from, static_cast<std::uint32_t>(text_.size()),
                     tracks_ ? fragment.origins[begin] : 0, Piece::kText});
}

}  // namespace sinter::tools
