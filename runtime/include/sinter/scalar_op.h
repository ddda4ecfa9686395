// SPDX-License-Identifier: Apache-2.0
// Scalar primitives, from which the computation of one element is built. The scalar expressions of
// pointwise operators (ir), loop programs (runtime/plan) and all emitters share this table.
// Standard library only: every folder may include this header.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include <sinter/dtype.h>

namespace sinter {

/// Allowed types of a primitive's operands. The condition of a select is always bool.
enum class Operands : std::uint8_t { kAny, kNumbers, kFloats, kIntegers, kBools };

// The table: SINTER_SCALAR_OPS(X) expands X(enumerator, name in expressions, arity, number in the
// plan format, operands, work) for each primitive. `work` is its cost in additions, roughly.
// Numbers are part of the plan format: only append.
//
// Comparisons and kIsNan/kIsInf yield bool; the logical operators take and yield bool; kSelect(c,
// a, b) is c ? a : b; kCast converts to the result's type; kBitCast reinterprets the bits of its
// operand as the result's type, which has the same size. kMod takes the divisor's sign (ONNX Mod),
// kFmod the dividend's (C fmod). kRound is to nearest even. Integer division truncates; division by
// zero yields 0 for integers on every target. kDiv of floats may be off by two units in the last
// place where that is faster; kQuotient is rounded to nearest on every target. kMin and kMax
// propagate NaN. kShiftRight is arithmetic: it shifts in copies of the sign. A shift by less than
// 0, or by the type's width or more, leaves only shifted-in bits. kToE4M3FN and the like round to
// that 8-bit float (sinter/float8.h) and keep the operand's type. clang-format off
#define SINTER_SCALAR_OPS(X)                    \
  X(kAdd, "add", 2, 0, kNumbers, 1)             \
  X(kSub, "sub", 2, 1, kNumbers, 1)             \
  X(kMul, "mul", 2, 2, kNumbers, 1)             \
  X(kDiv, "div", 2, 3, kNumbers, 4)             \
  X(kMod, "mod", 2, 4, kNumbers, 4)             \
  X(kFmod, "fmod", 2, 5, kNumbers, 4)           \
  X(kPow, "pow", 2, 6, kNumbers, 20)            \
  X(kMin, "min", 2, 7, kNumbers, 1)             \
  X(kMax, "max", 2, 8, kNumbers, 1)             \
  X(kNeg, "neg", 1, 9, kNumbers, 1)             \
  X(kAbs, "abs", 1, 10, kNumbers, 1)            \
  X(kSign, "sign", 1, 11, kNumbers, 1)          \
  X(kFloor, "floor", 1, 12, kNumbers, 1)        \
  X(kCeil, "ceil", 1, 13, kNumbers, 1)          \
  X(kRound, "round", 1, 14, kNumbers, 1)        \
  X(kSqrt, "sqrt", 1, 15, kFloats, 4)           \
  X(kRsqrt, "rsqrt", 1, 16, kFloats, 4)         \
  X(kReciprocal, "recip", 1, 17, kFloats, 4)    \
  X(kExp, "exp", 1, 18, kFloats, 10)            \
  X(kLog, "log", 1, 19, kFloats, 10)            \
  X(kErf, "erf", 1, 20, kFloats, 10)            \
  X(kTanh, "tanh", 1, 21, kFloats, 10)          \
  X(kSin, "sin", 1, 22, kFloats, 10)            \
  X(kCos, "cos", 1, 23, kFloats, 10)            \
  X(kEqual, "eq", 2, 24, kAny, 1)               \
  X(kNotEqual, "ne", 2, 25, kAny, 1)            \
  X(kLess, "lt", 2, 26, kNumbers, 1)            \
  X(kLessEqual, "le", 2, 27, kNumbers, 1)       \
  X(kGreater, "gt", 2, 28, kNumbers, 1)         \
  X(kGreaterEqual, "ge", 2, 29, kNumbers, 1)    \
  X(kAnd, "and", 2, 30, kBools, 1)              \
  X(kOr, "or", 2, 31, kBools, 1)                \
  X(kXor, "xor", 2, 32, kBools, 1)              \
  X(kNot, "not", 1, 33, kBools, 1)              \
  X(kSelect, "select", 3, 34, kAny, 1)          \
  X(kCast, "cast", 1, 35, kAny, 1)              \
  X(kIsNan, "isnan", 1, 36, kFloats, 1)         \
  X(kIsInf, "isinf", 1, 37, kFloats, 1)         \
  X(kAtan, "atan", 1, 38, kFloats, 10)          \
  X(kExpm1, "expm1", 1, 39, kFloats, 10)        \
  X(kLog1p, "log1p", 1, 40, kFloats, 10)        \
  X(kBitAnd, "bitand", 2, 41, kIntegers, 1)     \
  X(kBitOr, "bitor", 2, 42, kIntegers, 1)       \
  X(kBitXor, "bitxor", 2, 43, kIntegers, 1)     \
  X(kBitNot, "bitnot", 1, 44, kIntegers, 1)     \
  X(kShiftLeft, "shl", 2, 45, kIntegers, 1)     \
  X(kShiftRight, "shr", 2, 46, kIntegers, 1)    \
  X(kBitCast, "bitcast", 1, 47, kAny, 1)        \
  X(kQuotient, "quot", 2, 48, kFloats, 8)       \
  X(kToE4M3FN, "e4m3fn", 1, 49, kFloats, 2)     \
  X(kToE5M2, "e5m2", 1, 50, kFloats, 2)         \
  X(kToE4M3FNUZ, "e4m3fnuz", 1, 51, kFloats, 8) \
  X(kToE5M2FNUZ, "e5m2fnuz", 1, 52, kFloats, 8)
// clang-format on

enum class ScalarOp : std::uint8_t {
#define X(enumerator, name, arity, number, operands, work) enumerator = number,
  SINTER_SCALAR_OPS(X)
#undef X
};

inline constexpr int kScalarOpCount = 53;

constexpr std::string_view to_string(ScalarOp op) {
  switch (op) {
#define X(enumerator, name, arity, number, operands, work) \
  case ScalarOp::enumerator: return name;
    SINTER_SCALAR_OPS(X)
#undef X
  }
  return "?";
}

/// Number of operands.
constexpr int arity_of(ScalarOp op) {
  switch (op) {
#define X(enumerator, name, arity, number, operands, work) \
  case ScalarOp::enumerator: return arity;
    SINTER_SCALAR_OPS(X)
#undef X
  }
  return 0;
}

constexpr std::optional<ScalarOp> scalar_op_from_string(std::string_view text) {
#define X(enumerator, name, arity, number, operands, work) \
  if (text == name) return ScalarOp::enumerator;
  SINTER_SCALAR_OPS(X)
#undef X
  return std::nullopt;
}

/// Approximate cost of one element, in additions.
constexpr int work_of(ScalarOp op) {
  switch (op) {
#define X(enumerator, name, arity, number, operands, work) \
  case ScalarOp::enumerator: return work;
    SINTER_SCALAR_OPS(X)
#undef X
  }
  return 1;
}

constexpr Operands operands_of(ScalarOp op) {
  switch (op) {
#define X(enumerator, name, arity, number, operands, work) \
  case ScalarOp::enumerator: return Operands::operands;
    SINTER_SCALAR_OPS(X)
#undef X
  }
  return Operands::kAny;
}

/// True if `op` is defined on operands of `type` (of a select: on its branches).
constexpr bool is_defined_on(ScalarOp op, DType type) {
  switch (operands_of(op)) {
    case Operands::kAny: return true;
    case Operands::kNumbers: return type != DType::kBool;
    case Operands::kFloats: return is_float(type);
    case Operands::kIntegers: return is_integer(type);
    case Operands::kBools: return type == DType::kBool;
  }
  return false;
}

/// True if the instruction itself names the result's type, independent of the operands' type.
constexpr bool converts(ScalarOp op) { return op == ScalarOp::kCast || op == ScalarOp::kBitCast; }

/// True if the result is bool whatever the operands' type.
constexpr bool yields_bool(ScalarOp op) {
  return (op >= ScalarOp::kEqual && op <= ScalarOp::kNot) || op == ScalarOp::kIsNan ||
         op == ScalarOp::kIsInf;
}

/// The 8-bit float to which `op` rounds; nullopt for other operators.
constexpr std::optional<DType> float8_rounded_to(ScalarOp op) {
  if (op < ScalarOp::kToE4M3FN || op > ScalarOp::kToE5M2FNUZ) return std::nullopt;
  return static_cast<DType>(static_cast<int>(kFirstFloat8) + static_cast<int>(op) -
                            static_cast<int>(ScalarOp::kToE4M3FN));
}

/// The operator that rounds to `type`, an 8-bit float.
constexpr ScalarOp float8_rounding(DType type) {
  return static_cast<ScalarOp>(static_cast<int>(ScalarOp::kToE4M3FN) + static_cast<int>(type) -
                               static_cast<int>(kFirstFloat8));
}

/// How a reduction combines two partial results. Numbers are part of the plan format.
enum class Combine : std::uint8_t { kSum = 0, kProd = 1, kMax = 2, kMin = 3 };
inline constexpr int kCombineCount = 4;

constexpr std::string_view to_string(Combine combine) {
  constexpr std::string_view names[kCombineCount] = {"sum", "prod", "max", "min"};
  return names[static_cast<std::uint8_t>(combine)];
}

}  // namespace sinter
