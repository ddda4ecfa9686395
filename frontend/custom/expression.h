// SPDX-License-Identifier: Apache-2.0
// Expressions of elements, as nodes of a graph.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ir/graph.h"

namespace sinter::frontend {

/// A value of the graph, or a number that takes the type of what it meets.
using Term = std::variant<ir::ValueId, double>;
using TermNamed = std::function<std::optional<Term>(std::string_view name)>;

/// Adds what `text` says of the values that `named` knows: + - * / < <= > >= == != and unary minus,
/// parentheses, numbers, `select(condition, a, b)`, element types as conversions (`f32(x)`), and
/// every element-wise operator of ir/ops by its name in small letters (`exp(x)`, `max(x, y)`,
/// `gelu(x)`). Operands broadcast as ONNX's do. Throws Error(kUsage) saying what is wrong with
/// `text`, or what the operator says of its operands.
ir::ValueId build_expression(ir::GraphBuilder& builder, std::string_view text,
                             const TermNamed& named);

/// The names of the functions, sorted.
std::vector<std::string> expression_functions();

}  // namespace sinter::frontend
