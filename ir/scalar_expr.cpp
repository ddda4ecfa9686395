// SPDX-License-Identifier: Apache-2.0
#include "ir/scalar_expr.h"

#include <charconv>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <sinter/error.h>

#include "ir/scalar_math.h"

namespace sinter::ir {
namespace {

bool is_value(const ScalarNode& node) {
  return node.kind == ScalarNode::Kind::kConstant || node.kind == ScalarNode::Kind::kAttr;
}

/// Recursive descent over: comparison := sum [cmp sum]; sum := product {+- product};
/// product := unary {*/ unary}; unary := [-] primary; primary := number | x | y | z | @name |
/// function(args) | (comparison).
class ScalarParser {
 public:
  explicit ScalarParser(std::string_view text) : text_(text) {}

  ScalarExpr parse() {
    comparison();
    skip_space();
    if (at_ != text_.size()) fail("unexpected text");
    return std::move(expr_);
  }

 private:
  [[noreturn]] void fail(std::string_view what) const {
    throw Error(ErrorCode::kInternal,
                fmt::format("scalar expression \"{}\": {} at column {}", text_, what, at_ + 1));
  }

  void skip_space() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }

  bool take(std::string_view token) {
    skip_space();
    if (!text_.substr(at_).starts_with(token)) return false;
    at_ += token.size();
    return true;
  }

  void expect(std::string_view token) {
    if (!take(token)) fail(fmt::format("expected '{}'", token));
  }

  std::string_view word() {
    skip_space();
    const std::size_t begin = at_;
    const auto is_word = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    };
    while (at_ < text_.size() && is_word(text_[at_])) ++at_;
    return text_.substr(begin, at_ - begin);
  }

  /// Adds `node` or finds an equal one. Constants are not shared: each takes the type of its own
  /// siblings.
  int add(ScalarNode node) {
    for (std::size_t i = 0; i < expr_.nodes.size() && !is_value(node); ++i) {
      const ScalarNode& other = expr_.nodes[i];
      if (other.kind == node.kind && other.operand == node.operand && other.op == node.op &&
          std::equal(node.args, node.args + 3, other.args))
        return static_cast<int>(i);
    }
    expr_.nodes.push_back(std::move(node));
    return static_cast<int>(expr_.nodes.size()) - 1;
  }

  int add_op(ScalarOp op, int a, int b = -1, int c = -1) {
    ScalarNode node;
    node.kind = ScalarNode::Kind::kOp;
    node.op = op;
    node.args[0] = a, node.args[1] = b, node.args[2] = c;
    return add(std::move(node));
  }

  int comparison() {
    const int left = sum();
    // Longer tokens first: "<" is a prefix of "<=".
    static constexpr std::pair<std::string_view, ScalarOp> kComparisons[] = {
        {"<=", ScalarOp::kLessEqual}, {">=", ScalarOp::kGreaterEqual}, {"==", ScalarOp::kEqual},
        {"!=", ScalarOp::kNotEqual},  {"<", ScalarOp::kLess},          {">", ScalarOp::kGreater}};
    for (const auto& [token, op] : kComparisons)
      if (take(token)) return add_op(op, left, sum());
    return left;
  }

  int sum() {
    int left = product();
    for (;;) {
      if (take("+"))
        left = add_op(ScalarOp::kAdd, left, product());
      else if (take("-"))
        left = add_op(ScalarOp::kSub, left, product());
      else
        return left;
    }
  }

  int product() {
    int left = unary();
    for (;;) {
      if (take("*"))
        left = add_op(ScalarOp::kMul, left, unary());
      else if (take("/"))
        left = add_op(ScalarOp::kDiv, left, unary());
      else
        return left;
    }
  }

  int unary() {
    if (!take("-")) return primary();
    const int operand = unary();
    ScalarNode& node = expr_.nodes[static_cast<std::size_t>(operand)];
    if (node.kind != ScalarNode::Kind::kConstant) return add_op(ScalarOp::kNeg, operand);
    node.constant = -node.constant;
    return operand;
  }

  int primary() {
    if (take("(")) {
      const int inner = comparison();
      expect(")");
      return inner;
    }
    ScalarNode node;
    if (take("@")) {
      node.kind = ScalarNode::Kind::kAttr;
      node.attr = word();
      if (node.attr.empty()) fail("expected an attribute name");
      return add(std::move(node));
    }
    skip_space();
    if (at_ < text_.size() && ((text_[at_] >= '0' && text_[at_] <= '9') || text_[at_] == '.')) {
      node.kind = ScalarNode::Kind::kConstant;
      const auto [end, error] =
          std::from_chars(text_.data() + at_, text_.data() + text_.size(), node.constant);
      if (error != std::errc()) fail("expected a number");
      at_ = static_cast<std::size_t>(end - text_.data());
      return add(std::move(node));
    }
    const std::string_view name = word();
    if (name == "x" || name == "y" || name == "z") {
      node.operand = name[0] - 'x';
      return add(std::move(node));
    }
    const auto op = scalar_op_from_string(name);
    if (!op) fail(fmt::format("unknown name '{}'", name));
    int args[3] = {-1, -1, -1};
    expect("(");
    for (int i = 0; i < arity_of(*op); ++i) {
      if (i > 0) expect(",");
      args[i] = comparison();
    }
    expect(")");
    return add_op(*op, args[0], args[1], args[2]);
  }

  std::string_view text_;
  std::size_t at_ = 0;
  ScalarExpr expr_;
};

class TypeInference {
 public:
  TypeInference(const ScalarExpr& expr, std::span<const DType> operands, DType result)
      : expr_(expr), operands_(operands), result_(result), types_(expr.nodes.size()) {}

  std::vector<DType> run() {
    for (std::size_t i = 0; i < expr_.nodes.size(); ++i) types_[i] = infer(expr_.nodes[i]);
    const int root = static_cast<int>(types_.size()) - 1;
    settle(root, result_);
    std::vector<DType> out;
    for (const auto& type : types_) out.push_back(type.value());
    return out;
  }

 private:
  [[noreturn]] static void fail(const std::string& what) {
    throw Error(ErrorCode::kInternal, "scalar expression: " + what);
  }

  std::optional<DType> infer(const ScalarNode& node) {
    if (node.kind == ScalarNode::Kind::kOperand) {
      const auto operand = static_cast<std::size_t>(node.operand);
      if (operand >= operands_.size())
        fail(fmt::format("uses operand {} of {}", operand, operands_.size()));
      return operands_[operand];
    }
    if (is_value(node)) return std::nullopt;
    if (converts(node.op)) {
      settle_if_open(node.args[0], result_);
      return result_;
    }
    if (node.op == ScalarOp::kSelect) {
      settle(node.args[0], DType::kBool);
      return unify(node.args[1], node.args[2]);
    }
    const auto type =
        arity_of(node.op) == 1 ? type_of(node.args[0]) : unify(node.args[0], node.args[1]);
    if (!yields_bool(node.op)) return type;
    if (!type) fail(fmt::format("'{}' of constants only", to_string(node.op)));
    return DType::kBool;
  }

  std::optional<DType>& type_of(int index) { return types_[static_cast<std::size_t>(index)]; }

  std::optional<DType> unify(int a, int b) {
    if (const auto type = type_of(a)) {
      settle(b, *type);
    } else if (const auto other = type_of(b)) {
      settle(a, *other);
    }
    return type_of(a);
  }

  void settle_if_open(int index, DType type) {
    if (!type_of(index)) settle(index, type);
  }

  /// Sets the type of an untyped node and its untyped operands; a typed one must match.
  void settle(int index, DType type) {
    auto& known = type_of(index);
    if (known) {
      if (*known != type)
        fail(fmt::format("{} meets {}", sinter::to_string(*known), sinter::to_string(type)));
      return;
    }
    known = type;
    const ScalarNode& node = expr_.nodes[static_cast<std::size_t>(index)];
    if (node.kind != ScalarNode::Kind::kOp) return;
    const bool select = node.op == ScalarOp::kSelect;
    for (int i = select ? 1 : 0; i < arity_of(node.op); ++i) settle(node.args[i], type);
  }

  const ScalarExpr& expr_;
  std::span<const DType> operands_;
  DType result_;
  std::vector<std::optional<DType>> types_;
};

}  // namespace

ScalarExpr parse_scalar_expr(std::string_view text) { return ScalarParser(text).parse(); }

std::string to_string(const ScalarExpr& expr) {
  std::vector<std::string> texts;
  for (const ScalarNode& node : expr.nodes) {
    switch (node.kind) {
      case ScalarNode::Kind::kOperand:
        texts.emplace_back(1, static_cast<char>('x' + node.operand));
        break;
      case ScalarNode::Kind::kConstant: texts.push_back(fmt::format("{}", node.constant)); break;
      case ScalarNode::Kind::kAttr: texts.push_back("@" + node.attr); break;
      case ScalarNode::Kind::kOp: {
        std::string text = std::string(sinter::to_string(node.op)) + "(";
        for (int i = 0; i < arity_of(node.op); ++i)
          text += (i > 0 ? ", " : "") + texts[static_cast<std::size_t>(node.args[i])];
        texts.push_back(text + ")");
      }
    }
  }
  return texts.empty() ? std::string() : texts.back();
}

std::vector<DType> infer_scalar_types(const ScalarExpr& expr, std::span<const DType> operands,
                                      DType result) {
  return TypeInference(expr, operands, result).run();
}

Scalar apply_scalar_op(ScalarOp op, DType type, DType from, const Scalar* args) {
  if (op == ScalarOp::kSelect) return args[0].i != 0 ? args[1] : args[2];
  if (op == ScalarOp::kCast) return cast_value(type, from, args[0]);
  if (op == ScalarOp::kBitCast) return cast_bits(type, from, args[0].f, args[0].i);
  Scalar result;

  const Scalar none, &b = arity_of(op) > 1 ? args[1] : none;
  dispatch_scalar_op(op, [&]<ScalarOp Op>() {
    if (is_float(type)) {
      if constexpr (yields_bool(Op))
        result.i = float_test<Op>(args[0].f, b.f);
      else
        result.f = float_value<Op>(args[0].f, b.f);
    } else {
      if constexpr (yields_bool(Op))
        result.i = int_test<Op>(type, args[0].i, b.i);
      else
        result.i = int_value<Op>(type, args[0].i, b.i);
    }
  });
  return result;
}

Scalar scalar_of(const ScalarNode& node, DType type, const Attrs& attrs) {
  double value = node.constant;
  if (node.kind == ScalarNode::Kind::kAttr) {
    const Attr& attr = attrs.get(node.attr);
    if (const auto* i = std::get_if<std::int64_t>(&attr))
      return {static_cast<double>(*i), wrap_to(type, *i)};
    value = attrs.get_float(node.attr);
  }
  return {value, is_float(type) ? 0 : double_to_int(type, value)};
}

}  // namespace sinter::ir
