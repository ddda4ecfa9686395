// SPDX-License-Identifier: Apache-2.0
#include "frontend/custom/expression.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <map>
#include <string>
#include <vector>

#include "runtime/format_error.h"

namespace sinter::frontend {
namespace {

using ir::ValueId;

std::string lower(std::string_view name) {
  std::string result(name);
  std::ranges::transform(result, result.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

/// Element-wise operators without attributes, by lower-case name.
const std::map<std::string, const ir::OpDef*, std::less<>>& functions() {
  static const auto all = [] {
    std::map<std::string, const ir::OpDef*, std::less<>> found;
    for (const ir::OpDef* op : ir::all_ops())
      if (op->kind == ir::OpKind::kPointwise && op->attrs.empty())
        found.emplace(lower(op->name), op);
    found.emplace("select", &ir::get_op("Where"));
    return found;
  }();
  return all;
}

/// Recursive descent over: comparison := sum [cmp sum]; sum := product {+- product};
/// product := unary {*/ unary}; unary := [-] primary; primary := number | name | function(args) |
/// (comparison).
class ExpressionBuilder {
 public:
  ExpressionBuilder(ir::GraphBuilder& builder, std::string_view text, const TermNamed& named)
      : builder_(builder), text_(text), named_(named) {}

  ValueId build() {
    const Term result = comparison();
    skip();
    if (at_ != text_.size()) fail("unexpected text");
    if (!std::holds_alternative<ValueId>(result)) fail("it reads no input");
    return std::get<ValueId>(result);
  }

 private:
  [[noreturn]] void fail(std::string_view what) const {
    throw usage_error("expression \"{}\": {} at column {}", text_, what, at_ + 1);
  }
  void skip() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
  }
  bool take(std::string_view token) {
    skip();
    if (!text_.substr(at_).starts_with(token)) return false;
    at_ += token.size();
    return true;
  }
  void expect(std::string_view token) {
    if (!take(token)) fail(fmt::format("expected '{}'", token));
  }

  /// Numbers become constants of the other operands' type.
  Term add(const ir::OpDef& op, std::vector<Term> terms) {
    std::optional<DType> type;
    // The condition's type does not determine the numbers' type.
    const std::size_t first = op.name == "Where" ? 1 : 0;
    for (std::size_t i = first; i < terms.size(); ++i)
      if (const auto* value = std::get_if<ValueId>(&terms[i]); value != nullptr && !type)
        type = builder_.type(*value).dtype;
    if (!type)
      fail(fmt::format("'{}' of numbers alone: give one a type, as in f32(1)", lower(op.name)));
    std::vector<ValueId> inputs;
    for (const Term& term : terms)
      inputs.push_back(std::holds_alternative<ValueId>(term)
                           ? std::get<ValueId>(term)
                           : builder_.scalar(*type, std::get<double>(term)));
    try {
      return builder_.add(op.name, std::move(inputs));
    } catch (const Error& error) {
      fail(error.what());
    }
  }
  Term binary(const char* op, const Term& a, const Term& b) {
    const auto *x = std::get_if<double>(&a), *y = std::get_if<double>(&b);
    if (x == nullptr || y == nullptr) return add(ir::get_op(op), {a, b});
    const std::string_view name = op;
    if (name == "Add") return *x + *y;
    if (name == "Sub") return *x - *y;
    if (name == "Mul") return *x * *y;
    if (name == "Div") return *x / *y;
    fail("a comparison of numbers alone");
  }

  Term comparison() {
    const Term left = sum();
    // Two-character tokens first: "<" is a prefix of "<=".
    static constexpr std::pair<std::string_view, const char*> kComparisons[] = {
        {"<=", "LessOrEqual"}, {">=", "GreaterOrEqual"}, {"==", "Equal"}, {"!=", "NotEqual"},
        {"<", "Less"},         {">", "Greater"}};
    for (const auto& [token, op] : kComparisons)
      if (take(token)) return binary(op, left, sum());
    return left;
  }
  Term sum() {
    Term left = product();
    for (;;) {
      if (take("+"))
        left = binary("Add", left, product());
      else if (take("-"))
        left = binary("Sub", left, product());
      else
        return left;
    }
  }
  Term product() {
    Term left = unary();
    for (;;) {
      if (take("*"))
        left = binary("Mul", left, unary());
      else if (take("/"))
        left = binary("Div", left, unary());
      else
        return left;
    }
  }
  Term unary() {
    if (++depth_ > kMostDepth) fail("too many parentheses");
    Term result = primary_or_negative();
    --depth_;
    return result;
  }
  Term primary_or_negative() {
    if (!take("-")) return primary();
    const Term term = unary();
    if (const auto* number = std::get_if<double>(&term)) return -*number;
    return add(ir::get_op("Neg"), {term});
  }
  Term primary() {
    if (take("(")) {
      Term inner = comparison();
      expect(")");
      return inner;
    }
    skip();
    const auto is = [&](int (*kind)(int)) {
      return at_ < text_.size() && kind(static_cast<unsigned char>(text_[at_])) != 0;
    };
    if (is(std::isdigit) || (at_ < text_.size() && text_[at_] == '.')) {
      double number = 0;
      const auto [end, error] =
          std::from_chars(text_.data() + at_, text_.data() + text_.size(), number);
      if (error != std::errc()) fail("expected a number");
      at_ = static_cast<std::size_t>(end - text_.data());
      return number;
    }
    const std::size_t begin = at_;
    while (is(std::isalnum) || (at_ < text_.size() && text_[at_] == '_')) ++at_;
    const std::string_view name = text_.substr(begin, at_ - begin);
    if (name.empty()) fail("expected a value");
    if (!take("(")) {
      if (const auto term = named_(name)) return *term;
      fail(fmt::format("there is nothing called '{}' here", name));
    }
    std::vector<Term> terms;
    do terms.push_back(comparison());
    while (take(","));
    expect(")");
    return call(name, std::move(terms));
  }
  Term call(std::string_view name, std::vector<Term> terms) {
    if (const auto type = dtype_from_string(name)) {
      if (terms.size() != 1) fail(fmt::format("'{}' converts one value", name));
      if (const auto* number = std::get_if<double>(&terms[0]))
        return builder_.scalar(*type, *number);
      const ValueId value = std::get<ValueId>(terms[0]);
      if (builder_.type(value).dtype == *type) return value;
      return builder_.add("Cast", {value}, {{"to", *type}});
    }
    const auto found = functions().find(name);
    if (found == functions().end())
      fail(fmt::format(
          "there is no element-wise function '{}'; `sinter ops --functions` lists them", name));
    const ir::OpDef& op = *found->second;
    if (static_cast<int>(terms.size()) != op.max_inputs)
      fail(fmt::format("'{}' takes {} operands, not {}", name, op.max_inputs, terms.size()));
    return add(op, std::move(terms));
  }

  static constexpr int kMostDepth = 100;
  ir::GraphBuilder& builder_;
  std::string_view text_;
  const TermNamed& named_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

ValueId build_expression(ir::GraphBuilder& builder, std::string_view text, const TermNamed& named) {
  return ExpressionBuilder(builder, text, named).build();
}

std::vector<std::string> expression_functions() {
  std::vector<std::string> names;
  for (const auto& [name, op] : functions()) names.push_back(name);
  return names;
}

}  // namespace sinter::frontend
