// SPDX-License-Identifier: Apache-2.0
#include "ir/text/lexer.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <utility>

#include <fmt/format.h>
#include <sinter/error.h>

#include "ir/dim/dim_internal.h"

namespace sinter::ir::text {
namespace {

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }
bool is_name_part(char c) { return is_word(c) || c == '.' || c == '/' || c == '-' || c == '$'; }

constexpr std::string_view kOrigins = "# from ";

/// True if only blanks precede `position` on its line.
bool stands_alone(std::string_view text, std::size_t position) {
  const std::size_t last = text.substr(0, position).find_last_not_of(" \t");
  return last == std::string_view::npos || text[last] == '\n';
}

}  // namespace

bool is_plain_name(std::string_view name) {
  return !name.empty() && !std::isdigit(static_cast<unsigned char>(name.front())) &&
         std::ranges::all_of(name, is_name_part);
}

std::string name_text(std::string_view name) {
  return is_plain_name(name) ? std::string(name) : quote(name);
}

void Lexer::fail_at(std::size_t position, std::string message) const {
  position = std::min(position, text_.size());
  const std::string_view before = text_.substr(0, position);
  const auto line = std::ranges::count(before, '\n') + 1;
  const std::size_t newline = before.rfind('\n');
  const std::size_t column = newline == std::string_view::npos ? position + 1 : position - newline;
  throw Error(ErrorCode::kInvalidModel,
              fmt::format("graph text, line {}, column {}: {}", line, column, message));
}

void Lexer::skip_blanks() {
  while (position_ < text_.size() && (text_[position_] == ' ' || text_[position_] == '\t'))
    ++position_;
}

void Lexer::skip() {
  while (position_ < text_.size()) {
    const char c = text_[position_];
    if (c == '#') {
      // Lookahead for the next token passes a node's comment before its origins are requested.
      if (!origins_at_ && text_.substr(position_).starts_with(kOrigins) &&
          !stands_alone(text_, position_))
        origins_at_ = position_ + kOrigins.size();
      position_ = std::min(text_.find('\n', position_), text_.size());
    } else if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
      ++position_;
    } else {
      return;
    }
  }
}

bool Lexer::at_end() {
  skip();
  return position_ == text_.size();
}

bool Lexer::peek(std::string_view token) {
  skip();
  if (!text_.substr(position_).starts_with(token)) return false;
  const std::size_t behind = position_ + token.size();
  return !is_word(token.back()) || behind == text_.size() || !is_word(text_[behind]);
}

bool Lexer::accept(std::string_view token) {
  if (!peek(token)) return false;
  position_ += token.size();
  return true;
}

void Lexer::expect(std::string_view token) {
  if (!accept(token)) fail(fmt::format("expected '{}'", token));
}

std::string Lexer::word(std::string_view what) {
  skip();
  const std::size_t start = position_;
  while (position_ < text_.size() && is_word(text_[position_])) ++position_;
  if (start == position_) fail(fmt::format("expected {}", what));
  return std::string(text_.substr(start, position_ - start));
}

std::string Lexer::name(std::string_view what, bool* quoted) {
  const bool is_quoted = position_ < text_.size() && text_[position_] == '"';
  if (quoted) *quoted = is_quoted;
  if (is_quoted) return string();
  const std::size_t start = position_;
  while (position_ < text_.size() && is_name_part(text_[position_])) ++position_;
  if (start == position_) fail(fmt::format("expected {}", what));
  return std::string(text_.substr(start, position_ - start));
}

std::string Lexer::string() {
  skip();
  if (position_ >= text_.size() || text_[position_] != '"') fail("expected a string in quotes");
  try {
    return unquote_prefix(text_, position_);
  } catch (const DimSyntaxError& error) {
    fail_at(error.position, error.message);
  }
}

std::int64_t Lexer::integer() {
  skip();
  std::int64_t value = 0;
  const auto [end, error] =
      std::from_chars(text_.data() + position_, text_.data() + text_.size(), value);
  if (error == std::errc::result_out_of_range) fail("the integer does not fit in 64 bits");
  if (error != std::errc()) fail("expected an integer");
  position_ = static_cast<std::size_t>(end - text_.data());
  return value;
}

std::string_view Lexer::literal(std::string_view what) {
  skip();
  const std::size_t start = position_;
  constexpr std::string_view kEnd = " \t\r\n,[]{}=#";
  position_ = std::min(text_.find_first_of(kEnd, position_), text_.size());
  if (start == position_) fail(fmt::format("expected {}", what));
  // nan(0x..) has its own parentheses; other closing ones belong to the context.
  std::string_view found = text_.substr(start, position_ - start);
  const std::size_t open = found.find('('), close = found.find(')');
  if (open != std::string_view::npos && close != std::string_view::npos && open < close)
    found = found.substr(0, close + 1);
  else
    found = found.substr(0, close);
  position_ = start + found.size();
  return found;
}

DType Lexer::dtype() {
  skip();
  const std::size_t start = position_;
  const std::string name = word("a type");
  if (const auto type = dtype_from_string(name)) return *type;
  fail_at(start, fmt::format("unknown type '{}'", name));
}

Dim Lexer::dim() {
  skip();
  try {
    return parse_dim_prefix(text_, position_);
  } catch (const DimSyntaxError& error) {
    fail_at(error.position, error.message);
  }
}

Shape Lexer::shape() {
  expect("[");
  Shape dims;
  if (accept("]")) return dims;
  do {
    dims.push_back(dim());
  } while (accept(","));
  expect("]");
  return dims;
}

TensorType Lexer::type() {
  const DType elements = dtype();
  return {elements, shape()};
}

std::optional<std::uint64_t> Lexer::hash() {
  skip_blanks();
  constexpr std::size_t kDigits = 16;
  if (text_.size() - position_ < kDigits + 1 || text_[position_] != '#') return std::nullopt;
  std::uint64_t value = 0;
  const char* begin = text_.data() + position_ + 1;
  const auto [end, error] = std::from_chars(begin, begin + kDigits, value, 16);
  if (error != std::errc() || end != begin + kDigits) return std::nullopt;
  position_ += kDigits + 1;
  return value;
}

std::vector<std::string> Lexer::origins() {
  skip();
  if (!origins_at_) return {};
  const std::size_t behind = position_;
  position_ = *std::exchange(origins_at_, std::nullopt);
  auto names = parse_origins();
  position_ = behind;
  return names;
}

std::vector<std::string> Lexer::parse_origins() {
  const std::size_t line_end = std::min(text_.find('\n', position_), text_.size());
  std::vector<std::string> names;
  while (true) {
    if (position_ < line_end && text_[position_] == '"') {
      names.push_back(string());
    } else {
      const std::size_t end = std::min(text_.find(", ", position_), line_end);
      names.emplace_back(text_.substr(position_, end - position_));
      position_ = end;
    }
    if (!text_.substr(position_, line_end - position_).starts_with(", ")) return names;
    position_ += 2;
  }
}

}  // namespace sinter::ir::text
