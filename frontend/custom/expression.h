// SPDX-License-Identifier: Apache-2.0
// Parses element-wise expressions into nodes of a graph.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ir/graph.h"

namespace sinter::frontend {

/// A value of the graph, or a number that takes the other operand's type.
using Term = std::variant<ir::ValueId, double>;
using TermNamed = std::function<std::optional<Term>(std::string_view name)>;

/// Builds the expression `text` over the values that `named` returns: + - * / < <= > >= == != and
/// unary minus, parentheses, numbers, `select(condition, a, b)`, element types as conversions
/// (`f32(x)`), and every element-wise operator of ir/ops by its lower-case name (`exp(x)`, `max(x,
/// y)`, `gelu(x)`). Operands broadcast as ONNX's do. Throws Error(kUsage) for an error in `text`,
/// and the operator's error for invalid operands.
ir::ValueId build_expression(ir::GraphBuilder& builder, std::string_view text,
                             const TermNamed& named);

/// The names of the functions, sorted.
std::vector<std::string> expression_functions();

}  // namespace sinter::frontend
