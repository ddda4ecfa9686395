// SPDX-License-Identifier: Apache-2.0
#include "fusion/patterns/pattern.h"

#include <cctype>
#include <cstdlib>

#include "sinter/error.h"

namespace sinter::fusion {
namespace {

Pattern call(std::string name, std::vector<Pattern> args) {
  return {Pattern::Kind::kCall, std::move(name), 0, std::move(args)};
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Pattern run() {
    Pattern result = sum();
    skip();
    if (at_ != text_.size()) fail("unexpected text");
    return result;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorCode::kInternal, "pattern '" + std::string(text_) + "', column " +
                                          std::to_string(at_ + 1) + ": " + what);
  }
  void skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool take(char c) {
    skip();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  Pattern sum() {
    Pattern left = product();
    while (true) {
      if (take('+')) {
        Pattern right = product();
        if (left.kind != Pattern::Kind::kSum) {
          Pattern first = std::move(left);
          left = {Pattern::Kind::kSum, "", 0, {}};
          add_term(left, std::move(first));
        }
        add_term(left, std::move(right));
      } else if (take('-')) {
        Pattern right = product();
        left = call("Sub", {std::move(left), std::move(right)});
      } else {
        return left;
      }
    }
  }
  static void add_term(Pattern& sum, Pattern term) {
    if (term.kind == Pattern::Kind::kNumber)
      sum.number += term.number;
    else
      sum.args.push_back(std::move(term));
  }

  Pattern product() {
    Pattern left = factor();
    while (true) {
      const bool divide = !take('*');
      if (divide && !take('/')) return left;
      Pattern right = factor();
      if (left.kind != Pattern::Kind::kProduct) {
        Pattern first = std::move(left);
        left = {Pattern::Kind::kProduct, "", 1, {}};
        add_factor(left, std::move(first), false);
      }
      add_factor(left, std::move(right), divide);
    }
  }
  static void add_factor(Pattern& product, Pattern factor, bool divide) {
    if (factor.kind == Pattern::Kind::kNumber)
      product.number *= divide ? 1 / factor.number : factor.number;
    else
      product.args.push_back(divide ? call("Inverse", {std::move(factor)}) : std::move(factor));
  }

  std::string word() {
    const std::size_t start = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0)) ++at_;
    if (at_ == start) fail("expected a name");
    return std::string(text_.substr(start, at_ - start));
  }

  Pattern factor() {
    skip();
    if (at_ >= text_.size()) fail("the expression ends early");
    if (take('(')) {
      Pattern inner = sum();
      if (!take(')')) fail("expected ')'");
      return inner;
    }
    if (take('$')) return {Pattern::Kind::kAnyConstant, word(), 0, {}};
    const char c = text_[at_];
    if (std::isdigit(static_cast<unsigned char>(c)) != 0) {
      const std::string rest(text_.substr(at_));
      char* end = nullptr;
      const double number = std::strtod(rest.c_str(), &end);
      at_ += static_cast<std::size_t>(end - rest.c_str());
      return {Pattern::Kind::kNumber, "", number, {}};
    }
    std::string name = word();
    if (std::isupper(static_cast<unsigned char>(c)) == 0)
      return {Pattern::Kind::kVariable, std::move(name), 0, {}};
    if (!take('(')) fail("expected '(' after " + name);
    std::vector<Pattern> args;
    do {
      args.push_back(sum());
    } while (take(','));
    if (!take(')')) fail("expected ')'");
    return call(std::move(name), std::move(args));
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

Pattern parse_pattern(std::string_view text) { return Parser(text).run(); }

}  // namespace sinter::fusion
