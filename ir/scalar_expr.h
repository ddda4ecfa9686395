// SPDX-License-Identifier: Apache-2.0
// The scalar expression of a pointwise operator: the single definition for the reference evaluator,
// the constant folder, and the CPU and CUDA emitters.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <sinter/dtype.h>
#include <sinter/scalar_op.h>

#include "ir/attributes.h"
#include "ir/scalar_math.h"

namespace sinter::ir {

/// One node of an expression; operands are indices of earlier nodes.
struct ScalarNode {
  enum class Kind : std::uint8_t { kOperand, kConstant, kAttr, kOp };
  Kind kind = Kind::kOperand;
  int operand = 0;      // kOperand: index of the operator's input
  double constant = 0;  // kConstant
  std::string attr;     // kAttr: a float or int attribute of the node
  ScalarOp op = ScalarOp::kAdd;
  int args[3] = {-1, -1, -1};
};

/// A parsed expression. nodes.back() is the result.
struct ScalarExpr {
  std::vector<ScalarNode> nodes;
};

/// Parses "0.5 * x * (1 + erf(x * 0.7071067811865476))". Operands are x, y, z (inputs 0, 1, 2);
/// @name is an attribute; functions have the names of ScalarOp; infix + - * / and unary minus;
/// comparisons < <= > >= == !=. cast(e) and bitcast(e) convert to the operator's result type. The
/// text is part of the code: an error in it throws Error(kInternal).
ScalarExpr parse_scalar_expr(std::string_view text);

/// The expression in prefix form: "mul(x, add(1, erf(x)))".
std::string to_string(const ScalarExpr& expr);

/// The type of every node of `expr`, for operands of types `operands` and result type `result`:
/// constants and attributes take the type of their sibling; comparisons yield bool. All are compute
/// types (no float16 or bfloat16).
std::vector<DType> infer_scalar_types(const ScalarExpr& expr, std::span<const DType> operands,
                                      DType result);

/// Evaluates one primitive on values of `type` (the operands' type; for kCast and kBitCast `from`
/// is the operand's and `type` the result's). Floats are computed in double; integers wrap at their
/// width.
Scalar apply_scalar_op(ScalarOp op, DType type, DType from, const Scalar* args);

/// The value of a kConstant or kAttr node of `type`.
Scalar scalar_of(const ScalarNode& node, DType type, const Attrs& attrs);

}  // namespace sinter::ir
