// SPDX-License-Identifier: Apache-2.0
// Pointwise operators: one row each defines everything.
#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>
#include <sinter/error.h>
#include <sinter/float8.h>

#include "ir/dim/dim_mismatch.h"
#include "ir/ops/ops.h"

namespace sinter::ir::ops {
namespace {

struct Row {
  std::string_view name;
  const char* expression;  // of x, y, z: the inputs in order
  TypeRule rule = TypeRule::kSame;
  bool commutative = false;
  // For `--precision`: the effect of errors in the first operand and in the others, and the growth
  // of results.
  std::array<Rounding, 2> rounding = {Rounding::kRelative, Rounding::kRelative};
  Growth growth = Growth::kNone;
};

constexpr TypeRule kSame = TypeRule::kSame, kCompare = TypeRule::kCompare,
                   kLogical = TypeRule::kLogical, kSelect = TypeRule::kSelect,
                   kCast = TypeRule::kCast, kBitCast = TypeRule::kBitCast;
constexpr bool kCommutes = true, kOrdered = false;
constexpr std::array<Rounding, 2> kRelative = {Rounding::kRelative, Rounding::kRelative},
                                  kExponent = {Rounding::kExponent, Rounding::kExponent},
                                  kAbsolute = {Rounding::kAbsolute, Rounding::kAbsolute},
                                  kOfExponent = {Rounding::kRelative, Rounding::kAbsolute};
constexpr Growth kPower = Growth::kPower, kExponential = Growth::kExponential;
constexpr std::string_view kUnsaturated = "CastUnsaturated";

// clang-format off
constexpr Row kRows[] = {
    {"Add", "x + y", kSame, kCommutes},
    {"Sub", "x - y"},
    {"Mul", "x * y", kSame, kCommutes},
    {"Div", "x / y"},
    {"Quotient", "quot(x, y)", kSame, kOrdered, kAbsolute},  // rounded to nearest on every target
    {"Mod", "mod(x, y)", kSame, kOrdered, kAbsolute},
    {"Fmod", "fmod(x, y)", kSame, kOrdered, kAbsolute},
    {"Pow", "pow(x, y)", kSame, kOrdered, kOfExponent, kPower},
    {"Min", "min(x, y)", kSame, kCommutes},
    {"Max", "max(x, y)", kSame, kCommutes},

    {"Neg", "-x"},
    {"Abs", "abs(x)"},
    {"Sign", "sign(x)", kSame, kOrdered, kAbsolute},
    {"Floor", "floor(x)", kSame, kOrdered, kAbsolute},
    {"Ceil", "ceil(x)", kSame, kOrdered, kAbsolute},
    {"Round", "round(x)", kSame, kOrdered, kAbsolute},
    {"Sqrt", "sqrt(x)"},
    {"Rsqrt", "rsqrt(x)"},
    {"Reciprocal", "recip(x)"},
    {"Square", "x * x", kSame, kOrdered, kRelative, kPower},
    {"Exp", "exp(x)", kSame, kOrdered, kExponent, kExponential},
    {"Log", "log(x)"},
    {"Erf", "erf(x)"},
    {"Tanh", "tanh(x)"},
    {"Sin", "sin(x)", kSame, kOrdered, kAbsolute},
    {"Cos", "cos(x)", kSame, kOrdered, kAbsolute},
    {"Expm1", "expm1(x)", kSame, kOrdered, kExponent, kExponential},
    {"Log1p", "log1p(x)"},
    {"Atan", "atan(x)"},
    // Half-angle forms, exact at both ends of [-1, 1].
    {"Asin", "2 * atan(x / (1 + sqrt((1 - x) * (1 + x))))", kSame, kOrdered, kAbsolute},
    {"Acos", "2 * atan(sqrt((1 - x) / (1 + x)))", kSame, kOrdered, kAbsolute},
    // e^x overflows before sinh and cosh do: there cosh is (e / 2) e^(|x| - 1). In sinh the
    // difference is exact and the factor close to a float32; below 2 it is its series, up to a
    // float64's last bit.
    {"Sinh",
     "select(abs(x) < 2, x + x * (x * x * (0.16666666666666666 + x * x * "
     "(0.008333333333333333 + x * x * (0.0001984126984126984 + x * x * "
     "(2.7557319223985893e-06 + x * x * (2.505210838544172e-08 + x * x * "
     "(1.6059043836821613e-10 + x * x * (7.647163731819816e-13 + x * x * "
     "(2.8114572543455206e-15 + x * x * (8.22063524662433e-18 + x * x * "
     "(1.9572941063391263e-20 + x * x * 3.868170170630684e-23))))))))))), sign(x) * "
     "(1.1303319930985731 * exp(abs(x) - 0.8156585693359375) - 0.25 / (1.1303319930985731 * "
     "exp(abs(x) - 0.8156585693359375))))",
     kSame, kOrdered, kExponent, kExponential},
    {"Cosh",
     "select(isinf(exp(x) + exp(-x)), 1.3591409142295225 * exp(abs(x) - 1), "
     "0.5 * (exp(x) + exp(-x)))",
     kSame, kOrdered, kExponent, kExponential},
    // log(x + sqrt(x^2 + 1)) without cancellation. For large x, whose square may overflow, it is
    // log(2 |x|) as a sum, since 2 |x| may overflow.
    {"Asinh",
     "sign(x) * (log1p(select(abs(x) > 1e15, abs(x), "
     "abs(x) + x * x / (1 + sqrt(1 + x * x)))) + "
     "select(abs(x) > 1e15, 0.6931471805599453, 0))"},
    {"Acosh",
     "log1p(select(x > 1e30, x, (x - 1) + sqrt(x - 1) * sqrt(x + 1))) + "
     "select(x > 1e30, 0.6931471805599453, 0)"},
    // In terms of |x|: near -1 the rounding of 2 x / (1 - x) would be too coarse for the logarithm.
    {"Atanh", "sign(x) * (0.5 * log1p(2 * abs(x) / (1 - abs(x))))", kSame, kOrdered, kAbsolute},

    {"Sigmoid", "1 / (1 + exp(-x))"},
    {"Relu", "max(x, 0)"},
    {"Silu", "x / (1 + exp(-x))"},
    {"Softplus", "max(x, 0) + log1p(exp(-abs(x)))"},  // log(1 + exp(x)) without overflow
    {"Softsign", "x / (1 + abs(x))"},
    // Hendrycks and Gimpel, "Gaussian error linear units": exact (1 / sqrt(2) inside) and with
    // tanh (sqrt(2 / pi) outside).
    {"Gelu", "0.5 * x * (1 + erf(x * 0.7071067811865476))"},
    {"GeluTanh", "0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))"},

    // With parameters as operands: slope and offset, slope, bounds.
    {"HardSigmoid", "max(min(x * y + z, 1), 0)"},
    {"HardSwish", "x * max(min(x * y + z, 1), 0)"},
    {"LeakyRelu", "x * select(x < 0, y, 1)"},
    {"Clip", "min(max(x, y), z)"},  // the upper bound wins if the bounds are reversed

    {"Equal", "x == y", kCompare, kCommutes, kAbsolute},
    {"NotEqual", "x != y", kCompare, kCommutes, kAbsolute},
    {"Less", "x < y", kCompare, kOrdered, kAbsolute},
    {"LessOrEqual", "x <= y", kCompare, kOrdered, kAbsolute},
    {"Greater", "x > y", kCompare, kOrdered, kAbsolute},
    {"GreaterOrEqual", "x >= y", kCompare, kOrdered, kAbsolute},
    {"IsNan", "isnan(x)", kCompare},
    {"IsInf", "isinf(x)", kCompare},

    {"And", "and(x, y)", kLogical, kCommutes},
    {"Or", "or(x, y)", kLogical, kCommutes},
    {"Xor", "xor(x, y)", kLogical, kCommutes},
    {"Not", "not(x)", kLogical},

    {"BitwiseAnd", "bitand(x, y)", kSame, kCommutes},
    {"BitwiseOr", "bitor(x, y)", kSame, kCommutes},
    {"BitwiseXor", "bitxor(x, y)", kSame, kCommutes},
    {"BitwiseNot", "bitnot(x)"},
    {"ShiftLeft", "shl(x, y)"},
    {"ShiftRight", "shr(x, y)"},

    {"Where", "select(x, y, z)", kSelect},
    // Casts to integers and 8-bit floats saturate; casts to wider floats do not.
    {"Cast", "cast(x)", kCast},
    // Values out of range of an 8-bit float become infinity, or NaN if it has none.
    {kUnsaturated, "cast(x)", kCast},
    {"BitCast", "bitcast(x)", kBitCast},
};
// clang-format on

int count_operands(const ScalarExpr& expr) {
  int count = 0;
  for (const ScalarNode& node : expr.nodes)
    if (node.kind == ScalarNode::Kind::kOperand) count = std::max(count, node.operand + 1);
  return count;
}

bool uses(const ScalarExpr& expr, Operands operands) {
  return std::ranges::any_of(expr.nodes, [&](const ScalarNode& node) {
    return node.kind == ScalarNode::Kind::kOp && operands_of(node.op) == operands;
  });
}

/// True if the expression is meaningful only for floats: it has a float primitive or a non-integer
/// constant.
bool is_float_only(const ScalarExpr& expr) {
  return uses(expr, Operands::kFloats) ||
         std::ranges::any_of(expr.nodes, [](const ScalarNode& node) {
           return node.kind == ScalarNode::Kind::kConstant &&
                  node.constant != std::floor(node.constant);
         });
}

/// True if bool operands are meaningful: selection and equality, but no arithmetic and no order.
bool takes_bool(const ScalarExpr& expr) {
  return !uses(expr, Operands::kNumbers) && !uses(expr, Operands::kFloats) &&
         !uses(expr, Operands::kIntegers);
}

/// The casts to each float of 8 bits.
std::vector<ScalarExpr> casts_to_float8(bool saturated) {
  std::vector<ScalarExpr> result;
  for (int i = static_cast<int>(kFirstFloat8); i < kDTypeCount; ++i) {
    const auto type = static_cast<DType>(i);
    const double largest = largest_float8(type);
    const std::string_view round = sinter::to_string(float8_rounding(type));
    result.push_back(parse_scalar_expr(
        saturated ? fmt::format("{}(min(max(cast(x), -{}), {}))", round, largest, largest)
                  : fmt::format("{}(cast(x))", round)));
  }
  return result;
}

void require_bool(Types inputs, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i)
    if (inputs[i].dtype != DType::kBool)
      invalid(fmt::format("input {} must be bool, found {}", i, list_types(inputs)));
}

/// Kernels do not hold narrow floats in their own format, as they compute in wider types.
void require_same_bits(DType from, DType to) {
  if (compute_type(from) != from || compute_type(to) != to)
    throw Error(ErrorCode::kUnsupported,
                fmt::format("the bits of {} as {} are not supported", sinter::to_string(from),
                            sinter::to_string(to)));
  if (size_of(from) != size_of(to))
    invalid(fmt::format("{} and {} have different sizes", sinter::to_string(from),
                        sinter::to_string(to)));
}

Infer infer_pointwise(const Row& row, const ScalarExpr& expr) {
  return [rule = row.rule, float8_only = row.name == kUnsaturated, float_only = is_float_only(expr),
          bools = takes_bool(expr), ints_only = uses(expr, Operands::kIntegers)](
             const Attrs& attrs, Types inputs) -> std::vector<TensorType> {
    TensorType result = inputs.back();
    switch (rule) {
      case TypeRule::kSame:
      case TypeRule::kCompare:
        require_same_dtype(inputs);
        if (float_only) require_float(inputs);
        if (ints_only && !is_integer(inputs[0].dtype))
          invalid("needs integers, found " + list_types(inputs));
        if (!bools) require_numbers(inputs);
        if (rule == TypeRule::kCompare) result.dtype = DType::kBool;
        break;
      case TypeRule::kLogical: require_bool(inputs, inputs.size()); break;
      case TypeRule::kSelect:
        require_bool(inputs, 1);
        require_same_dtype(inputs.subspan(1));
        break;
      case TypeRule::kCast:
        result.dtype = attrs.get_dtype("to");
        if (float8_only && !is_float8(result.dtype))
          invalid(fmt::format("is a cast to floats of 8 bits, not to {}",
                              sinter::to_string(result.dtype)));
        break;
      case TypeRule::kBitCast:
        result.dtype = attrs.get_dtype("to");
        require_same_bits(inputs[0].dtype, result.dtype);
        break;
    }
    for (const TensorType& input : inputs) result.shape = broadcast(result.shape, input.shape);
    return {result};
  };
}

}  // namespace

std::vector<OpDef> pointwise_ops() {
  std::vector<OpDef> ops;
  for (const Row& row : kRows) {
    PointwiseDef def{parse_scalar_expr(row.expression), row.rule};
    if (row.rule == TypeRule::kCast) def.to_float8 = casts_to_float8(row.name != kUnsaturated);
    OpDef op;
    op.name = row.name;
    op.kind = OpKind::kPointwise;
    op.min_inputs = op.max_inputs = count_operands(def.expr);
    if (row.rule == TypeRule::kCast || row.rule == TypeRule::kBitCast)
      op.attrs = {{"to", AttrKind::kDType, std::nullopt}};
    op.infer = infer_pointwise(row, def.expr);
    op.detail = std::move(def);
    op.commutative = row.commutative;
    op.numerics = {{row.rounding.begin(), row.rounding.end()}, row.growth};
    ops.push_back(std::move(op));
  }
  return ops;
}

}  // namespace sinter::ir::ops
