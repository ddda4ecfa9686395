// Pointwise operators: one row each, from which everything else follows.
#include <cmath>

#include <fmt/format.h>
#include <sinter/error.h>

#include "ir/ops/ops.h"
#include "ir/scalar_math.h"

namespace sinter::ir::ops {
namespace {

struct Row {
  const char* name;
  const char* expression;  // of x, y, z: the inputs in order
  TypeRule rule = TypeRule::kSame;
  bool commutative = false;
};

constexpr TypeRule kSame = TypeRule::kSame, kCompare = TypeRule::kCompare,
                   kLogical = TypeRule::kLogical, kSelect = TypeRule::kSelect,
                   kCast = TypeRule::kCast;
constexpr bool kCommutes = true;

// clang-format off
constexpr Row kRows[] = {
    {"Add", "x + y", kSame, kCommutes},
    {"Sub", "x - y"},
    {"Mul", "x * y", kSame, kCommutes},
    {"Div", "x / y"},
    {"Mod", "mod(x, y)"},
    {"Fmod", "fmod(x, y)"},
    {"Pow", "pow(x, y)"},
    {"Min", "min(x, y)", kSame, kCommutes},
    {"Max", "max(x, y)", kSame, kCommutes},

    {"Neg", "-x"},
    {"Abs", "abs(x)"},
    {"Sign", "sign(x)"},
    {"Floor", "floor(x)"},
    {"Ceil", "ceil(x)"},
    {"Round", "round(x)"},
    {"Sqrt", "sqrt(x)"},
    {"Rsqrt", "rsqrt(x)"},
    {"Reciprocal", "recip(x)"},
    {"Square", "x * x"},
    {"Exp", "exp(x)"},
    {"Log", "log(x)"},
    {"Erf", "erf(x)"},
    {"Tanh", "tanh(x)"},
    {"Sin", "sin(x)"},
    {"Cos", "cos(x)"},

    {"Sigmoid", "1 / (1 + exp(-x))"},
    {"Relu", "max(x, 0)"},
    {"Silu", "x / (1 + exp(-x))"},
    // Hendrycks and Gimpel, "Gaussian error linear units": exact (1 / sqrt(2) inside) and with
    // tanh (sqrt(2 / pi) outside).
    {"Gelu", "0.5 * x * (1 + erf(x * 0.7071067811865476))"},
    {"GeluTanh", "0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))"},

    {"Equal", "x == y", kCompare, kCommutes},
    {"NotEqual", "x != y", kCompare, kCommutes},
    {"Less", "x < y", kCompare},
    {"LessOrEqual", "x <= y", kCompare},
    {"Greater", "x > y", kCompare},
    {"GreaterOrEqual", "x >= y", kCompare},
    {"IsNan", "isnan(x)", kCompare},
    {"IsInf", "isinf(x)", kCompare},

    {"And", "and(x, y)", kLogical, kCommutes},
    {"Or", "or(x, y)", kLogical, kCommutes},
    {"Xor", "xor(x, y)", kLogical, kCommutes},
    {"Not", "not(x)", kLogical},

    {"Where", "select(x, y, z)", kSelect},
    {"Cast", "cast(x)", kCast},
};
// clang-format on

int count_operands(const ScalarExpr& expr) {
  int count = 0;
  for (const ScalarNode& node : expr.nodes)
    if (node.kind == ScalarNode::Kind::kOperand) count = std::max(count, node.operand + 1);
  return count;
}

/// True if the expression has a meaning on floats alone: it uses a primitive of floats or a
/// constant that is not an integer.
bool is_float_only(const ScalarExpr& expr) {
  for (const ScalarNode& node : expr.nodes) {
    if (node.kind == ScalarNode::Kind::kOp && needs_float(node.op)) return true;
    if (node.kind == ScalarNode::Kind::kConstant && node.constant != std::floor(node.constant))
      return true;
  }
  return false;
}

/// True if bool operands make sense: selection and equality, but no arithmetic and no order.
bool takes_bool(const ScalarExpr& expr) {
  for (const ScalarNode& node : expr.nodes)
    if (node.kind == ScalarNode::Kind::kOp && node.op != ScalarOp::kEqual &&
        node.op != ScalarOp::kNotEqual)
      return false;
  return true;
}

void require_bool(std::span<const TensorType> inputs, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i)
    if (inputs[i].dtype != DType::kBool)
      invalid(fmt::format("input {} must be bool, found {}", i, list_types(inputs)));
}

Infer infer_pointwise(TypeRule rule, const ScalarExpr& expr) {
  return [rule, float_only = is_float_only(expr), bools = takes_bool(expr)](
             const Attrs& attrs, std::span<const TensorType> inputs) -> std::vector<TensorType> {
    TensorType result = inputs.back();
    switch (rule) {
      case TypeRule::kSame:
      case TypeRule::kCompare:
        require_same_dtype(inputs);
        if (float_only) require_float(inputs);
        if (!bools && inputs[0].dtype == DType::kBool)
          invalid("needs numbers, found " + list_types(inputs));
        if (rule == TypeRule::kCompare) result.dtype = DType::kBool;
        break;
      case TypeRule::kLogical: require_bool(inputs, inputs.size()); break;
      case TypeRule::kSelect:
        require_bool(inputs, 1);
        require_same_dtype(inputs.subspan(1));
        break;
      case TypeRule::kCast: result.dtype = attrs.get_dtype("to"); break;
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
    OpDef op;
    op.name = row.name;
    op.kind = OpKind::kPointwise;
    op.min_inputs = op.max_inputs = count_operands(def.expr);
    if (row.rule == TypeRule::kCast) op.attrs = {{"to", AttrKind::kDType, std::nullopt}};
    op.infer = infer_pointwise(row.rule, def.expr);
    op.detail = std::move(def);
    op.commutative = row.commutative;
    ops.push_back(std::move(op));
  }
  return ops;
}

}  // namespace sinter::ir::ops
