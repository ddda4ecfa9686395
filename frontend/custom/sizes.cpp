// SPDX-License-Identifier: Apache-2.0
#include "frontend/custom/sizes.h"

#include <cctype>
#include <charconv>

#include "runtime/format_error.h"

namespace sinter::frontend {
namespace {

using ir::Dim;

/// Recursive descent over: sum := product {+- product}; product := primary {* primary};
/// primary := [-] integer | name | name[integer] | name.size | function(sum, sum) | (sum).
class SizeParser {
 public:
  SizeParser(std::string_view text, const SizeNamed& named, const ir::Ranges& ranges)
      : text_(text), named_(named), ranges_(ranges) {}

  Dim parse() {
    Dim result = sum();
    skip();
    if (at_ != text_.size()) fail("unexpected text");
    return result;
  }

 private:
  [[noreturn]] void fail(std::string_view what) const {
    throw usage_error("size \"{}\": {} at column {}", text_, what, at_ + 1);
  }
  void skip() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
  }
  bool take(char c) {
    skip();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!take(c)) fail(fmt::format("expected '{}'", c));
  }

  Dim sum() {
    Dim result = product();
    for (;;) {
      if (take('+'))
        result = result + product();
      else if (take('-'))
        result = result - product();
      else
        return result;
    }
  }
  Dim product() {
    Dim result = primary();
    while (take('*')) result = result * primary();
    return result;
  }
  std::int64_t integer() {
    skip();
    std::int64_t value = 0;
    const auto [end, error] =
        std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error != std::errc()) fail("expected an integer");
    at_ = static_cast<std::size_t>(end - text_.data());
    return value;
  }
  Dim primary() {
    if (++depth_ > kMostDepth) fail("too many parentheses");
    const Dim result = atom();
    --depth_;
    return result;
  }
  Dim atom() {
    if (take('-')) return Dim(0) - primary();
    if (take('(')) {
      Dim inner = sum();
      expect(')');
      return inner;
    }
    skip();
    const std::size_t begin = at_;
    if (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])) != 0)
      return integer();
    const auto is_word = [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
    };
    while (at_ < text_.size() && is_word(text_[at_])) ++at_;
    const std::string_view name = text_.substr(begin, at_ - begin);
    if (name.empty()) fail("expected a size");
    if (take('(')) {
      const Dim a = sum();
      expect(',');
      const Dim b = sum();
      expect(')');
      if (name == "min") return ir::min(a, b, ranges_);
      if (name == "max") return ir::max(a, b, ranges_);
      if (name != "floordiv" && name != "ceildiv")
        fail(fmt::format("there is no function '{}'; there are floordiv, ceildiv, min and max",
                         name));
      if (const auto least = ir::lower_bound(b, ranges_); !least || *least < 1)
        fail("the divisor may be zero");
      return name == "floordiv" ? ir::floor_div(a, b, ranges_) : ir::ceil_div(a, b, ranges_);
    }
    int place = -2;
    if (take('[')) {
      const std::int64_t index = integer();
      if (index < 0 || index > 63) fail("no tensor has that dimension");
      place = static_cast<int>(index);
      expect(']');
    } else if (take('.')) {
      if (text_.substr(at_, 4) != "size") fail("expected 'size'");
      at_ += 4;
      place = -1;
    }
    const auto found = named_(name, place);
    if (!found)
      fail(fmt::format("there is nothing called '{}' here", text_.substr(begin, at_ - begin)));
    return *found;
  }

  static constexpr int kMostDepth = 100;
  std::string_view text_;
  const SizeNamed& named_;
  const ir::Ranges& ranges_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

Dim parse_size(std::string_view text, const SizeNamed& named, const ir::Ranges& ranges) {
  return SizeParser(text, named, ranges).parse();
}

}  // namespace sinter::frontend
