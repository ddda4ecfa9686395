#include "runtime/binding.h"

#include <algorithm>

#include <fmt/format.h>
#include <sinter/error.h>

#include "runtime/plan/verify_plan.h"

namespace sinter::runtime {
namespace {

using plan::fb::ExprOp;

std::string print_shape(const plan::fb::PlanT& plan, const plan::fb::BindingT& binding) {
  std::string text = "[";
  for (std::size_t d = 0; d < binding.shape.size(); ++d) {
    const plan::fb::ExprNode& node = plan.expressions[binding.shape[d]];
    text += d ? ", " : "";
    text += node.op() == ExprOp::Symbol ? plan.symbols[node.a()]->name
                                        : fmt::format("{}", node.value());
  }
  return text + "]";
}

std::vector<std::int64_t> evaluate_shape(const std::vector<std::uint32_t>& shape,
                                         const std::vector<std::int64_t>& expressions) {
  std::vector<std::int64_t> result;
  for (const std::uint32_t dim : shape) result.push_back(expressions[dim]);
  return result;
}

}  // namespace

void check_input_shape(const plan::fb::PlanT& plan, std::size_t index,
                       const std::vector<std::int64_t>& shape) {
  const plan::fb::BindingT& binding = *plan.inputs[index];
  if (shape.size() != binding.shape.size())
    throw Error(ErrorCode::kUsage,
                fmt::format("input '{}' has {} dimensions, [{}]; the plan takes {}, {}",
                            binding.name, shape.size(), fmt::join(shape, ", "),
                            binding.shape.size(), print_shape(plan, binding)));
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const plan::fb::ExprNode& node = plan.expressions[binding.shape[d]];
    if (node.op() == ExprOp::Constant) {
      if (shape[d] != node.value())
        throw Error(ErrorCode::kUsage,
                    fmt::format("dimension {} of input '{}' is {}; the plan takes {}: its shape is "
                                "{}, the given one [{}]",
                                d, binding.name, shape[d], node.value(), print_shape(plan, binding),
                                fmt::join(shape, ", ")));
      continue;
    }
    const plan::fb::SymbolT& symbol = *plan.symbols[node.a()];
    if (shape[d] < symbol.min || shape[d] > symbol.max)
      throw Error(
          ErrorCode::kUsage,
          fmt::format("dimension {} ('{}') of input '{}' is {}; the plan was compiled for {} "
                      "to {}: stay in this range or recompile with another",
                      d, symbol.name, binding.name, shape[d], symbol.min, symbol.max));
  }
}

std::vector<std::int64_t> bind_symbols(const plan::fb::PlanT& plan, const InputShapes& shapes) {
  struct Origin {
    std::size_t input, dim;
  };
  std::vector<std::optional<Origin>> origins(plan.symbols.size());
  std::vector<std::int64_t> values(plan.symbols.size());
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    if (!shapes[i]) continue;
    for (std::size_t d = 0; d < shapes[i]->size(); ++d) {
      const plan::fb::ExprNode& node = plan.expressions[plan.inputs[i]->shape[d]];
      if (node.op() != ExprOp::Symbol) continue;
      const std::int64_t value = (*shapes[i])[d];
      std::optional<Origin>& origin = origins[node.a()];
      if (origin && values[node.a()] != value)
        throw Error(
            ErrorCode::kUsage,
            fmt::format("'{}' is {} in dimension {} of input '{}', but {} in dimension {} of "
                        "input '{}': both must be equal",
                        plan.symbols[node.a()]->name, values[node.a()], origin->dim,
                        plan.inputs[origin->input]->name, value, d, plan.inputs[i]->name));
      if (!origin) origin = Origin{i, d};
      values[node.a()] = value;
    }
  }
  for (std::size_t s = 0; s < origins.size(); ++s) {
    if (origins[s]) continue;
    std::vector<std::string> names;
    for (const auto& input : plan.inputs)
      for (const std::uint32_t dim : input->shape)
        if (plan.expressions[dim].op() == ExprOp::Symbol && plan.expressions[dim].a() == s &&
            (names.empty() || names.back() != "'" + input->name + "'"))
          names.push_back("'" + input->name + "'");
    throw Error(ErrorCode::kUsage, fmt::format("'{}' is not known: give the shape of input {}",
                                               plan.symbols[s]->name, fmt::join(names, " or ")));
  }
  return values;
}

std::shared_ptr<const BoundShape> BoundShapeCache::get(const std::vector<std::int64_t>& symbols) {
  const auto found = entries_.find(symbols);
  if (found != entries_.end()) {
    found->second.last_use = ++clock_;
    return found->second.shape;
  }
  const plan::fb::PlanT& meta = plan_->meta;
  auto bound = std::make_shared<BoundShape>();
  bound->symbols = symbols;
  bound->expressions = plan::evaluate_expressions(meta, symbols);
  plan::verify_bound(meta, bound->expressions);
  bound->layout = plan::plan_memory(meta, bound->expressions);
  for (const auto& input : meta.inputs)
    bound->input_shapes.push_back(evaluate_shape(input->shape, bound->expressions));
  for (const auto& output : meta.outputs)
    bound->output_shapes.push_back(evaluate_shape(output->shape, bound->expressions));
  if (entries_.size() >= limit_)
    entries_.erase(std::min_element(
        entries_.begin(), entries_.end(),
        [](const auto& a, const auto& b) { return a.second.last_use < b.second.last_use; }));
  entries_[symbols] = {bound, ++clock_};
  return bound;
}

}  // namespace sinter::runtime
