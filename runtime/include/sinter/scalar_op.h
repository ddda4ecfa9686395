// Scalar primitives: what one element's computation is made of. The scalar expressions of pointwise
// operators (ir), loop programs (runtime/plan) and all emitters share this one table.
// Standard library only: every folder may include this header.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace sinter {

// SINTER_SCALAR_OPS(X): X(enumerator, name in expressions, arity, number in the plan format).
// Numbers are part of the plan format: only append. Comparisons and kIsNan/kIsInf yield bool; the
// logical operators take and give bool; kSelect(c, a, b) is c ? a : b; kCast converts to the
// result's type. kMod has the divisor's sign (ONNX Mod), kFmod the dividend's (C fmod). kRound is to
// nearest even. Integer division truncates; division by zero yields 0 for integers on every target.
// kMin and kMax propagate NaN.
#define SINTER_SCALAR_OPS(X)      \
  X(kAdd, "add", 2, 0)            \
  X(kSub, "sub", 2, 1)            \
  X(kMul, "mul", 2, 2)            \
  X(kDiv, "div", 2, 3)            \
  X(kMod, "mod", 2, 4)            \
  X(kFmod, "fmod", 2, 5)          \
  X(kPow, "pow", 2, 6)            \
  X(kMin, "min", 2, 7)            \
  X(kMax, "max", 2, 8)            \
  X(kNeg, "neg", 1, 9)            \
  X(kAbs, "abs", 1, 10)           \
  X(kSign, "sign", 1, 11)         \
  X(kFloor, "floor", 1, 12)       \
  X(kCeil, "ceil", 1, 13)         \
  X(kRound, "round", 1, 14)       \
  X(kSqrt, "sqrt", 1, 15)         \
  X(kRsqrt, "rsqrt", 1, 16)       \
  X(kReciprocal, "recip", 1, 17)  \
  X(kExp, "exp", 1, 18)           \
  X(kLog, "log", 1, 19)           \
  X(kErf, "erf", 1, 20)           \
  X(kTanh, "tanh", 1, 21)         \
  X(kSin, "sin", 1, 22)           \
  X(kCos, "cos", 1, 23)           \
  X(kEqual, "eq", 2, 24)          \
  X(kNotEqual, "ne", 2, 25)       \
  X(kLess, "lt", 2, 26)           \
  X(kLessEqual, "le", 2, 27)      \
  X(kGreater, "gt", 2, 28)        \
  X(kGreaterEqual, "ge", 2, 29)   \
  X(kAnd, "and", 2, 30)           \
  X(kOr, "or", 2, 31)             \
  X(kXor, "xor", 2, 32)           \
  X(kNot, "not", 1, 33)           \
  X(kSelect, "select", 3, 34)     \
  X(kCast, "cast", 1, 35)         \
  X(kIsNan, "isnan", 1, 36)       \
  X(kIsInf, "isinf", 1, 37)

enum class ScalarOp : std::uint8_t {
#define X(enumerator, name, arity, number) enumerator = number,
  SINTER_SCALAR_OPS(X)
#undef X
};

inline constexpr int kScalarOpCount = 38;

constexpr std::string_view to_string(ScalarOp op) {
  switch (op) {
#define X(enumerator, name, arity, number) \
  case ScalarOp::enumerator: return name;
    SINTER_SCALAR_OPS(X)
#undef X
  }
  return "?";
}

/// Number of operands.
constexpr int arity_of(ScalarOp op) {
  switch (op) {
#define X(enumerator, name, arity, number) \
  case ScalarOp::enumerator: return arity;
    SINTER_SCALAR_OPS(X)
#undef X
  }
  return 0;
}

constexpr std::optional<ScalarOp> scalar_op_from_string(std::string_view text) {
#define X(enumerator, name, arity, number) \
  if (text == name) return ScalarOp::enumerator;
  SINTER_SCALAR_OPS(X)
#undef X
  return std::nullopt;
}

/// True if the result is bool whatever the operands' type.
constexpr bool yields_bool(ScalarOp op) {
  return (op >= ScalarOp::kEqual && op <= ScalarOp::kNot) || op == ScalarOp::kIsNan ||
         op == ScalarOp::kIsInf;
}

/// How a reduction combines two partial results. Numbers are part of the plan format.
enum class Combine : std::uint8_t { kSum = 0, kProd = 1, kMax = 2, kMin = 3 };
inline constexpr int kCombineCount = 4;

constexpr std::string_view to_string(Combine combine) {
  constexpr std::string_view names[kCombineCount] = {"sum", "prod", "max", "min"};
  return names[static_cast<std::uint8_t>(combine)];
}

}  // namespace sinter
