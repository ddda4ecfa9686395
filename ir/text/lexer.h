// SPDX-License-Identifier: Apache-2.0
// Tokenizes graph text, with positions for messages; private to ir/text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/dim/dim.h"
#include "ir/tensor.h"

namespace sinter::ir::text {

/// True if `name` needs no quotes after '%' or '@' and is not a number.
bool is_plain_name(std::string_view name);
/// `name` as printed after '%' or '@'.
std::string name_text(std::string_view name);

/// Element `i` of a constant as text from which parse_element() restores the same bits.
std::string element_text(DType dtype, const std::byte* p);
/// Parses an element from `text`; false if it is none.
bool parse_element(DType dtype, std::string_view text, std::byte* p);

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  std::size_t position() const { return position_; }
  /// Throws Error(kInvalidModel) with the line and column of `position` (default: here).
  [[noreturn]] void fail(std::string message) const { fail_at(position_, std::move(message)); }
  [[noreturn]] void fail_at(std::size_t position, std::string message) const;

  /// Skips white space and comments.
  void skip();
  bool at_end();
  /// Consumes `token` if it comes next; a word only as a whole word.
  bool accept(std::string_view token);
  void expect(std::string_view token);
  bool peek(std::string_view token);

  /// A word of letters, digits and '_'.
  std::string word(std::string_view what);
  /// A plain or quoted name; `quoted` tells which.
  std::string name(std::string_view what, bool* quoted = nullptr);
  std::string string();
  std::int64_t integer();
  /// The characters up to the next space, comma or bracket.
  std::string_view literal(std::string_view what);
  DType dtype();
  Dim dim();
  Shape shape();
  TensorType type();
  /// "#0123456789abcdef" if it comes next (a comment starts with '#' and a space).
  std::optional<std::uint64_t> hash();
  /// The names in the comment "# from a, b" after the text read since the last call; ignores
  /// comments on their own line.
  std::vector<std::string> origins();

 private:
  void skip_blanks();
  std::vector<std::string> parse_origins();

  std::string_view text_;
  std::size_t position_ = 0;
  std::optional<std::size_t> origins_at_;  // after the last skipped "# from "
};

}  // namespace sinter::ir::text
