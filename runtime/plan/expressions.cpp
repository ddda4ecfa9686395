// SPDX-License-Identifier: Apache-2.0
// Evaluates a plan's shape expressions.
#include "runtime/plan/expressions.h"

#include <algorithm>
#include <set>

#include "runtime/format_error.h"

namespace sinter::plan {
namespace {

std::int64_t floor_div(std::int64_t a, std::int64_t b) {
  const std::int64_t quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

std::string describe_symbols(const fb::PlanT& plan, std::span<const std::int64_t> symbols) {
  const std::string text = describe_dimensions(plan, symbols);
  return text.empty() ? "constants alone" : text;
}

/// The error of an expression without a value: wrong dimensions, or a wrong plan if it is constant.
ErrorCode code_of(std::span<const std::int64_t> symbols) {
  return symbols.empty() ? ErrorCode::kInvalidPlan : ErrorCode::kUsage;
}

/// Evaluates expression `i`; `values` already has its operands.
std::int64_t value_of(const fb::PlanT& plan, std::size_t i, std::span<const std::int64_t> values,
                      std::span<const std::int64_t> symbols) {
  const fb::ExprNode& node = plan.expressions[i];
  bool overflow = false;
  std::int64_t value = 0;
  switch (node.op()) {
    case fb::ExprOp::Constant: value = node.value(); break;
    case fb::ExprOp::Symbol: value = symbols[node.a()]; break;
    case fb::ExprOp::Add:
      overflow = __builtin_add_overflow(values[node.a()], values[node.b()], &value);
      break;
    case fb::ExprOp::Sub:
      overflow = __builtin_sub_overflow(values[node.a()], values[node.b()], &value);
      break;
    case fb::ExprOp::Mul:
      overflow = __builtin_mul_overflow(values[node.a()], values[node.b()], &value);
      break;
    case fb::ExprOp::FloorDiv:
      if (values[node.b()] == 0)
        throw Error(code_of(symbols), fmt::format("expression {} of the plan divides by zero for "
                                                  "{}: use other dimensions or recompile the model",
                                                  i, describe_symbols(plan, symbols)));
      overflow = values[node.a()] == INT64_MIN && values[node.b()] == -1;
      if (!overflow) value = floor_div(values[node.a()], values[node.b()]);
      break;
    case fb::ExprOp::Min: value = std::min(values[node.a()], values[node.b()]); break;
    case fb::ExprOp::Max: value = std::max(values[node.a()], values[node.b()]); break;
  }
  if (overflow)
    throw Error(code_of(symbols),
                fmt::format("expression {} of the plan overflows 64 bits for {}: use smaller "
                            "dimensions or recompile the model with narrower ranges",
                            i, describe_symbols(plan, symbols)));
  return value;
}

/// For each expression up to `index`, whether `index` depends on it.
std::vector<bool> needed_for(const fb::PlanT& plan, std::uint32_t index) {
  std::vector<bool> needed(index + std::size_t{1}, false);
  needed[index] = true;
  for (std::size_t i = index + std::size_t{1}; i-- > 0;) {
    const fb::ExprNode& node = plan.expressions[i];
    if (!needed[i] || node.op() == fb::ExprOp::Constant || node.op() == fb::ExprOp::Symbol)
      continue;
    needed[node.a()] = needed[node.b()] = true;
  }
  return needed;
}

}  // namespace

std::string describe_dimensions(const fb::PlanT& plan, std::span<const std::int64_t> symbols) {
  std::string text;
  for (std::size_t i = 0; i < symbols.size(); ++i)
    text += fmt::format("{}{}={}", i ? ", " : "", plan.symbols[i]->name, symbols[i]);
  return text;
}

std::vector<std::int64_t> evaluate_expressions(const fb::PlanT& plan,
                                               std::span<const std::int64_t> symbols) {
  if (symbols.size() != plan.symbols.size())
    throw internal_error("{} symbol values for the plan's {} symbols", symbols.size(),
                         plan.symbols.size());
  std::vector<std::int64_t> values(plan.expressions.size());
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = value_of(plan, i, values, symbols);
  return values;
}

std::int64_t evaluate_expression(const fb::PlanT& plan, std::uint32_t index,
                                 std::span<const std::int64_t> symbols) {
  const std::vector<bool> needed = needed_for(plan, index);
  std::vector<std::int64_t> values(needed.size());
  for (std::size_t i = 0; i < needed.size(); ++i)
    if (needed[i]) values[i] = value_of(plan, i, values, symbols);
  return values[index];
}

std::vector<std::uint32_t> symbols_of(const fb::PlanT& plan, std::uint32_t index) {
  std::set<std::uint32_t> symbols;
  const std::vector<bool> needed = needed_for(plan, index);
  for (std::size_t i = 0; i < needed.size(); ++i)
    if (needed[i] && plan.expressions[i].op() == fb::ExprOp::Symbol)
      symbols.insert(plan.expressions[i].a());
  return {symbols.begin(), symbols.end()};
}

}  // namespace sinter::plan
