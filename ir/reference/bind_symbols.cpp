#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sinter/error.h>

#include "ir/reference/evaluate.h"

namespace sinter::ir {
namespace {

[[noreturn]] void mismatch(const Value& input, const Tensor& tensor, std::string_view what) {
  throw Error(ErrorCode::kUsage,
              fmt::format("input '{}' is {}, found {}: {}", input.name, to_string(input.type),
                          to_string(tensor.type()), what));
}

Dim with_known(const Dim& dim, const Bindings& bindings) {
  std::map<std::string, Dim, std::less<>> known;
  for (const auto& [name, value] : bindings) known.emplace(name, Dim(value));
  return dim.substitute(known);
}

/// Solves dim == size for the one symbol that `dim` still has; nothing if it is not linear in it or
/// the solution is no integer.
std::optional<std::int64_t> solve(const Dim& dim, const std::string& symbol, std::int64_t size) {
  const Dim rest = dim.substitute({{symbol, Dim(0)}});
  const auto slope = divide_exactly(dim - rest, Dim::symbol(symbol));
  if (!rest.is_constant() || !slope || !slope->is_constant()) return std::nullopt;
  const auto value = divide_exactly(Dim(size) - rest, *slope);
  return value ? std::optional(value->value()) : std::nullopt;
}

void check_range(const std::string& symbol, std::int64_t value, const Range& range,
                 const Value& input, const Tensor& tensor) {
  if (value >= range.min && value <= range.max) return;
  const std::string bound = range.max == INT64_MAX ? "" : fmt::format(" and at most {}", range.max);
  mismatch(input, tensor,
           fmt::format("{} is {}, but must be at least {}{}", symbol, value, range.min, bound));
}

}  // namespace

Bindings bind_symbols(const Graph& graph, std::span<const Tensor> inputs) {
  if (inputs.size() != graph.inputs().size())
    throw Error(ErrorCode::kUsage, fmt::format("graph '{}' takes {} inputs, found {}", graph.name(),
                                               graph.inputs().size(), inputs.size()));
  struct Equation {
    const Value* input;
    const Tensor* tensor;
    std::size_t dimension;
  };
  std::vector<Equation> open;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Value& input = graph.value(graph.inputs()[i]);
    if (inputs[i].dtype() != input.type.dtype)
      mismatch(input, inputs[i], "the element types differ");
    if (inputs[i].shape().size() != input.type.shape.size())
      mismatch(input, inputs[i], "the ranks differ");
    for (std::size_t d = 0; d < input.type.shape.size(); ++d)
      open.push_back({&input, &inputs[i], d});
  }
  // Each round checks the dimensions that are known and solves those with one unknown; the first
  // dimensions to fix a symbol are thus the simple ones.
  Bindings bindings;
  for (bool progress = true; progress && !open.empty();) {
    progress = false;
    std::vector<Equation> left;
    for (const Equation& equation : open) {
      const Dim dim = with_known(equation.input->type.shape[equation.dimension], bindings);
      const std::int64_t size = equation.tensor->shape()[equation.dimension];
      const std::vector<std::string> unknown = dim.symbols();
      if (unknown.empty()) {
        if (dim.evaluate({}) != size)
          mismatch(*equation.input, *equation.tensor,
                   fmt::format("dimension {} must be {}", equation.dimension, dim.to_string()));
        progress = true;
      } else if (const auto value =
                     unknown.size() == 1 ? solve(dim, unknown[0], size) : std::nullopt) {
        bindings[unknown[0]] = *value;
        const auto range = graph.ranges().find(unknown[0]);
        check_range(unknown[0], *value, range == graph.ranges().end() ? Range{} : range->second,
                    *equation.input, *equation.tensor);
        progress = true;
      } else {
        left.push_back(equation);
      }
    }
    open = std::move(left);
  }
  if (!open.empty())
    mismatch(*open[0].input, *open[0].tensor,
             fmt::format("no size of its symbols gives dimension {}", open[0].dimension));
  return bindings;
}

}  // namespace sinter::ir
