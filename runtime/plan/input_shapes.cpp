// SPDX-License-Identifier: Apache-2.0
#include "runtime/plan/input_shapes.h"

#include <algorithm>

#include <fmt/ranges.h>

#include "runtime/format_error.h"
#include "runtime/plan/expressions.h"
#include "runtime/plan/extents.h"

namespace sinter::plan {
namespace {

using fb::ExprOp;

/// The symbols in a dimension's expression: "'past', 'seq'".
std::string symbol_names(const fb::PlanT& plan, std::uint32_t expression) {
  std::string text;
  for (const std::uint32_t symbol : symbols_of(plan, expression))
    text += (text.empty() ? "'" : ", '") + plan.symbols[symbol]->name + "'";
  return text;
}

std::string print_shape(const fb::PlanT& plan, const fb::BindingT& binding) {
  std::string text = "[";
  for (std::size_t d = 0; d < binding.shape.size(); ++d) {
    const fb::ExprNode& node = plan.expressions[binding.shape[d]];
    text += d ? ", " : "";
    text += node.op() == ExprOp::Symbol     ? plan.symbols[node.a()]->name
            : node.op() == ExprOp::Constant ? fmt::format("{}", node.value())
                                            : "(" + symbol_names(plan, binding.shape[d]) + ")";
  }
  return text + "]";
}

struct Origin {
  std::size_t input, dim;
};

/// The value of `symbol`, the only unknown of a dimension, for which the dimension is `size`. The
/// dimension must be linear in it.
std::int64_t solve(const fb::PlanT& plan, const Origin& at, std::uint32_t symbol, std::int64_t size,
                   std::vector<std::int64_t> values) {
  const std::uint32_t expression = plan.inputs[at.input]->shape[at.dim];
  const fb::SymbolT& info = *plan.symbols[symbol];
  const auto dimension_for = [&](std::int64_t value) {
    values[symbol] = value;
    return evaluate_expression(plan, expression, values);
  };
  const std::int64_t first = dimension_for(info.min);
  const std::int64_t step = info.min < info.max ? dimension_for(info.min + 1) - first : 0;
  std::int64_t distance = 0;
  const bool overflow = __builtin_sub_overflow(size, first, &distance);
  const bool is_hit = !overflow && (step == 0 ? distance == 0 : distance % step == 0);
  const std::int64_t turns = is_hit && step != 0 ? distance / step : 0;
  if (!is_hit || turns < 0 || turns > info.max - info.min ||
      dimension_for(info.min + turns) != size)
    throw usage_error(
        "dimension {} of input '{}' is {}; the plan was compiled for {} to {} in steps of {} there",
        at.dim, plan.inputs[at.input]->name, size, first, dimension_for(info.max), step);
  return info.min + turns;
}

/// Solves for symbols that occur only in expressions, and checks all dimensions that are
/// expressions.
template <typename IsKnown, typename SetKnown>
void bind_expressions(const fb::PlanT& plan, const InputShapes& shapes,
                      std::vector<std::int64_t>& values, const IsKnown& is_known,
                      const SetKnown& set_known) {
  std::vector<Origin> open;
  for (std::size_t i = 0; i < shapes.size(); ++i)
    for (std::size_t d = 0; shapes[i] && d < shapes[i]->size(); ++d) {
      const ExprOp op = plan.expressions[plan.inputs[i]->shape[d]].op();
      if (op != ExprOp::Symbol && op != ExprOp::Constant) open.push_back({i, d});
    }
  for (bool progress = true; progress && !open.empty();) {
    progress = false;
    std::vector<Origin> left;
    for (const Origin& at : open) {
      const std::uint32_t expression = plan.inputs[at.input]->shape[at.dim];
      const std::int64_t size = (*shapes[at.input])[at.dim];
      std::vector<std::uint32_t> unknown = symbols_of(plan, expression);
      std::erase_if(unknown, is_known);
      if (unknown.size() > 1) {
        left.push_back(at);
        continue;
      }
      progress = true;
      if (unknown.size() == 1) {
        values[unknown[0]] = solve(plan, at, unknown[0], size, values);
        set_known(unknown[0], at);
      } else if (const std::int64_t wanted = evaluate_expression(plan, expression, values);
                 wanted != size) {
        throw usage_error("dimension {} of input '{}' is {}, but must be {}, as it follows from {}",
                          at.dim, plan.inputs[at.input]->name, size, wanted,
                          symbol_names(plan, expression));
      }
    }
    open = std::move(left);
  }
}

}  // namespace

void check_input_shape(const fb::PlanT& plan, std::size_t index,
                       const std::vector<std::int64_t>& shape) {
  const fb::BindingT& binding = *plan.inputs[index];
  if (shape.size() != binding.shape.size())
    throw usage_error("input '{}' has {} dimensions, [{}]; the plan takes {}, {}", binding.name,
                      shape.size(), fmt::join(shape, ", "), binding.shape.size(),
                      print_shape(plan, binding));
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const fb::ExprNode& node = plan.expressions[binding.shape[d]];
    if (node.op() == ExprOp::Constant) {
      if (shape[d] != node.value())
        throw usage_error(
            "dimension {} of input '{}' is {}; the plan takes {}: its shape is {}, the given one "
            "[{}]",
            d, binding.name, shape[d], node.value(), print_shape(plan, binding),
            fmt::join(shape, ", "));
      continue;
    }
    if (node.op() != ExprOp::Symbol) {
      // bind_expressions solves for its symbols once all shapes are known.
      if (shape[d] < 0)
        throw usage_error("dimension {} of input '{}' is {}", d, binding.name, shape[d]);
      continue;
    }
    const fb::SymbolT& symbol = *plan.symbols[node.a()];
    if (shape[d] < symbol.min || shape[d] > symbol.max)
      throw usage_error(
          "dimension {} ('{}') of input '{}' is {}; the plan was compiled for {} to {}: stay in "
          "this range or recompile with another",
          d, symbol.name, binding.name, shape[d], symbol.min, symbol.max);
  }
}

std::optional<std::size_t> symbol_of_value(const fb::PlanT& plan, std::size_t index) {
  for (std::size_t s = 0; s < plan.symbols.size(); ++s)
    if (const auto input = static_cast<std::int32_t>(index);
        plan.symbols[s]->value_of == input || plan.symbols[s]->tokens_of == input)
      return s;
  return std::nullopt;
}

std::optional<std::int64_t> most_tokens(const std::optional<std::vector<std::int64_t>>& shape) {
  if (!shape) return std::nullopt;
  std::int64_t count = 1;
  for (const std::int64_t dim : *shape) count *= dim;
  return count;
}

std::vector<std::int64_t> bind_symbols(const fb::PlanT& plan, const InputShapes& shapes,
                                       const InputValues& given) {
  std::vector<std::optional<Origin>> origins(plan.symbols.size());
  std::vector<std::int64_t> values(plan.symbols.size());
  for (std::size_t i = 0; i < given.size(); ++i) {
    const auto index = given[i] ? symbol_of_value(plan, i) : std::nullopt;
    if (!index) continue;
    const fb::SymbolT& symbol = *plan.symbols[*index];
    if (*given[i] < symbol.min || *given[i] > symbol.max)
      throw usage_error("input '{}' is {}; the plan was compiled for {} to {}",
                        plan.inputs[i]->name, *given[i], symbol.min, symbol.max);
    values[*index] = *given[i];
    origins[*index] = Origin{i, 0};
  }
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    if (!shapes[i]) continue;
    for (std::size_t d = 0; d < shapes[i]->size(); ++d) {
      const fb::ExprNode& node = plan.expressions[plan.inputs[i]->shape[d]];
      if (node.op() != ExprOp::Symbol) continue;
      const std::int64_t value = (*shapes[i])[d];
      std::optional<Origin>& origin = origins[node.a()];
      if (origin && values[node.a()] != value)
        throw usage_error(
            "'{}' is {} in dimension {} of input '{}', but {} in dimension {} of input '{}': both "
            "must be equal",
            plan.symbols[node.a()]->name, values[node.a()], origin->dim,
            plan.inputs[origin->input]->name, value, d, plan.inputs[i]->name);
      if (!origin) origin = Origin{i, d};
      values[node.a()] = value;
    }
  }
  bind_expressions(
      plan, shapes, values, [&](std::uint32_t symbol) { return origins[symbol].has_value(); },
      [&](std::uint32_t symbol, const Origin& at) { origins[symbol] = at; });
  for (std::size_t s = 0; s < origins.size(); ++s) {
    if (origins[s] || plan.symbols[s]->extent_of >= 0 || plan.symbols[s]->is_rank) continue;
    if (const std::int32_t input = plan.symbols[s]->tokens_of; input >= 0)
      throw usage_error("'{}' is not known: give input '{}', whose tokens it counts",
                        plan.symbols[s]->name, plan.inputs[static_cast<std::size_t>(input)]->name);
    if (const std::int32_t input = plan.symbols[s]->value_of; input >= 0)
      throw usage_error("'{}' is not known: give input '{}', whose value it is",
                        plan.symbols[s]->name, plan.inputs[static_cast<std::size_t>(input)]->name);
    std::vector<std::string> names;
    for (const auto& input : plan.inputs)
      for (const std::uint32_t dim : input->shape)
        if (const auto symbols = symbols_of(plan, dim);
            std::ranges::find(symbols, s) != symbols.end() &&
            (names.empty() || names.back() != "'" + input->name + "'"))
          names.push_back("'" + input->name + "'");
    throw usage_error("'{}' is not known: give the shape of input {}", plan.symbols[s]->name,
                      fmt::join(names, " or "));
  }
  bind_extents(plan, values);
  return values;
}

}  // namespace sinter::plan
