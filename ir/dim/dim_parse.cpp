// SPDX-License-Identifier: Apache-2.0
// Parses Dims: sums of products of integers, symbols, floordiv, min, max and parentheses.
#include <cctype>
#include <charconv>

#include <fmt/format.h>
#include <sinter/error.h>

#include "ir/dim/dim.h"
#include "ir/dim/dim_internal.h"

namespace sinter::ir {
namespace {

constexpr int kMaxNesting = 100;

bool is_name_start(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) || c == '_' || c == '$';
}
bool is_name_part(char c) {
  return is_name_start(c) || std::isdigit(static_cast<unsigned char>(c));
}

class DimParser {
 public:
  DimParser(std::string_view text, std::size_t position) : text_(text), position_(position) {}

  std::size_t position() const { return position_; }

  Dim sum() {
    if (++depth_ > kMaxNesting) fail("the expression is nested too deeply");
    Dim result = 0;
    bool negative = accept('-');
    if (!negative) accept('+');
    while (true) {
      const std::size_t start = position_;
      try {
        result += product(negative);
      } catch (const Error& error) {  // overflow, division by zero
        throw DimSyntaxError{start, error.what()};
      }
      const std::size_t behind = position_;
      if (accept('+')) {
        negative = false;
      } else if (accept('-')) {
        // "->" ends an expression.
        if (position_ < text_.size() && text_[position_] == '>') {
          position_ = behind;
          break;
        }
        negative = true;
      } else {
        position_ = behind;
        break;
      }
    }
    --depth_;
    return result;
  }

 private:
  [[noreturn]] void fail(std::string message) const {
    throw DimSyntaxError{position_, std::move(message)};
  }

  void skip_space() {
    while (position_ < text_.size() && (text_[position_] == ' ' || text_[position_] == '\t'))
      ++position_;
  }

  bool accept(char c) {
    skip_space();
    if (position_ >= text_.size() || text_[position_] != c) return false;
    ++position_;
    return true;
  }

  void expect(char c) {
    if (!accept(c)) fail(fmt::format("expected '{}'", c));
  }

  Dim product(bool negative) {
    skip_space();
    // The sign belongs to a leading number, so that -2^63 parses.
    const bool number_first =
        position_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[position_]));
    Dim result = number_first ? number(negative) : negative ? Dim(0) - factor() : factor();
    while (true) {
      const std::size_t behind = position_;
      if (!accept('*')) {
        position_ = behind;
        return result;
      }
      result *= factor();
    }
  }

  Dim factor() {
    skip_space();
    if (position_ >= text_.size()) fail("expected a dimension");
    const char c = text_[position_];
    if (c == '(') {
      ++position_;
      Dim inner = sum();
      expect(')');
      return inner;
    }
    if (c == '"') return Dim::symbol(checked_name(unquote_prefix(text_, position_)));
    if (std::isdigit(static_cast<unsigned char>(c))) return number(false);
    if (!is_name_start(c)) fail("expected a dimension");
    const std::size_t start = position_;
    while (position_ < text_.size() && is_name_part(text_[position_])) ++position_;
    const std::string_view name = text_.substr(start, position_ - start);
    if (is_plain_symbol(name)) return Dim::symbol(name);
    expect('(');
    const Dim a = sum();
    expect(',');
    const Dim b = sum();
    expect(')');
    // No assumptions about symbols, so that printed text parses to the same Dim.
    if (name == "floordiv") return floor_div(a, b, no_facts());
    return name == "min" ? min(a, b, no_facts()) : max(a, b, no_facts());
  }

  std::string checked_name(std::string name) const {
    if (name.empty()) fail("a symbol needs a name");
    return name;
  }

  Dim number(bool negative) {
    std::uint64_t magnitude = 0;
    const char* begin = text_.data() + position_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), magnitude);
    const std::uint64_t limit = static_cast<std::uint64_t>(INT64_MAX) + (negative ? 1 : 0);
    if (error != std::errc() || magnitude > limit) fail("the number is too large");
    position_ += static_cast<std::size_t>(end - begin);
    return static_cast<std::int64_t>(negative ? 0 - magnitude : magnitude);
  }

  std::string_view text_;
  std::size_t position_ = 0;
  int depth_ = 0;
};

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

}  // namespace

bool is_plain_symbol(std::string_view name) {
  if (name.empty() || !is_name_start(name.front())) return false;
  for (const char c : name)
    if (!is_name_part(c)) return false;
  return name != "floordiv" && name != "min" && name != "max";
}

std::string quote(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\')
      result += {'\\', c};
    else if (c == '\n')
      result += "\\n";
    else if (c == '\t')
      result += "\\t";
    else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      result += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    else
      result += c;
  }
  return result + "\"";
}

std::string unquote_prefix(std::string_view text, std::size_t& position) {
  std::string result;
  const std::size_t start = position++;
  while (position < text.size() && text[position] != '"' && text[position] != '\n') {
    char c = text[position++];
    if (c == '\\') {
      if (position >= text.size()) break;
      c = text[position++];
      if (c == 'n') {
        c = '\n';
      } else if (c == 't') {
        c = '\t';
      } else if (c == 'x') {
        const int high = position < text.size() ? hex_digit(text[position]) : -1;
        const int low = position + 1 < text.size() ? hex_digit(text[position + 1]) : -1;
        if (high < 0 || low < 0) throw DimSyntaxError{position, "expected two hexadecimal digits"};
        c = static_cast<char>(high * 16 + low);
        position += 2;
      } else if (c != '"' && c != '\\') {
        throw DimSyntaxError{position - 1, fmt::format("unknown escape '\\{}'", c)};
      }
    }
    result += c;
  }
  if (position >= text.size() || text[position] != '"')
    throw DimSyntaxError{start, "the string is not closed"};
  ++position;
  return result;
}

Dim parse_dim_prefix(std::string_view text, std::size_t& position) {
  DimParser parser(text, position);
  Dim result = parser.sum();
  position = parser.position();
  return result;
}

Dim parse_dim(std::string_view text) {
  std::size_t position = 0;
  std::string problem;
  try {
    Dim result = parse_dim_prefix(text, position);
    position = std::min(text.find_first_not_of(" \t", position), text.size());
    if (position == text.size()) return result;
    problem = fmt::format("unexpected '{}'", text[position]);
  } catch (const DimSyntaxError& error) {
    position = error.position;
    problem = error.message;
  }
  throw Error(ErrorCode::kInvalidModel,
              fmt::format("dimension '{}', position {}: {}", text, position + 1, problem));
}

}  // namespace sinter::ir
