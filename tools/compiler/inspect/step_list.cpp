// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/inspect/step_list.h"

#include <algorithm>
#include <optional>

#include <fmt/ranges.h>

#include "runtime/format_error.h"
#include "runtime/plan/bodies.h"
#include "runtime/plan/entries.h"
#include "runtime/plan/expressions.h"
#include "runtime/plan/input_shapes.h"
#include "runtime/plan/matmul_problem.h"
#include "runtime/plan/ranks/state_parts.h"

namespace sinter::tools {
namespace {

using plan::fb::PlanT;
using plan::fb::StepT;
using plan::fb::WorkUnion;

/// "KernelStep", or the operator's name. Uncompiled kernels have no work yet.
std::string kind_of(const WorkUnion& work) {
  using plan::fb::Work;
  if (const auto* call = work.AsOperatorStep()) return call->operator_name;
  return plan::fb::EnumNameWork(work.type == Work::NONE ? Work::KernelStep : work.type);
}

/// "KernelStep", or the tactics of a choice: "product where m <= 64, or library".
std::string ways(const WorkUnion& work, const std::vector<std::string>& texts) {
  const plan::fb::TacticStepT* choice = work.AsTacticStep();
  if (choice == nullptr) return kind_of(work);
  std::vector<std::string> all;
  for (const auto& tactic : choice->tactics) {
    const auto conditions = conditions_text(tactic->conditions, texts);
    all.push_back(conditions.empty()
                      ? tactic->name
                      : fmt::format("{} where {}", tactic->name, fmt::join(conditions, " and ")));
  }
  return fmt::format("{}", fmt::join(all, ", or "));
}

bool hold(const std::vector<plan::fb::Condition>& conditions,
          const std::vector<std::int64_t>& values) {
  return values.empty() || std::ranges::all_of(conditions, [&](const auto& c) {
           const std::int64_t value = values[c.expression()];
           return value <= c.max() && value % static_cast<std::int64_t>(c.divisor()) == 0;
         });
}

/// A loop's number of iterations and, on a GPU, its mechanism; or a branch's description.
std::string control_text(const PlanT& plan, const WorkUnion& work,
                         const std::vector<std::string>& texts, std::optional<bool> is_captured) {
  const bool is_cuda = plan.target == "cuda";
  const char* node = is_cuda ? "; a conditional node, or the host before CUDA 12.3" : "";
  if (work.AsIfStep()) return fmt::format("if its condition holds{}", node);
  const plan::fb::WhileStepT& loop = *work.AsWhileStep();
  std::string text;
  if (loop.trips >= 0) text = fmt::format("{} times", texts[static_cast<std::size_t>(loop.trips)]);
  if (loop.condition >= 0)
    return text + fmt::format("{}until its condition fails{}", text.empty() ? "" : ", or ", node);
  if (is_cuda && is_captured) text += *is_captured ? "; captured as often" : node;
  return text;
}

std::size_t calls_of(const PlanT& plan, const WorkUnion& work,
                     const std::vector<std::int64_t>& values) {
  // On a GPU, a matmul whose batches have no common stride needs several library calls.
  if (const auto* product = work.AsMatmulStep();
      product != nullptr && plan.target == "cuda" && !values.empty())
    return plan::make_matmul_problem(plan, *product, values).calls.size();
  return 1;
}

}  // namespace

std::vector<std::string> expression_texts(const plan::fb::PlanT& plan) {
  using plan::fb::ExprOp;
  std::vector<std::string> texts;
  // Parenthesizes sums as factors.
  const auto factor = [&](std::uint32_t i) {
    const auto op = plan.expressions[i].op();
    return op == ExprOp::Add || op == ExprOp::Sub ? "(" + texts[i] + ")" : texts[i];
  };
  for (const auto& node : plan.expressions) {
    const auto a = node.a(), b = node.b();
    switch (node.op()) {
      case ExprOp::Constant: texts.push_back(std::to_string(node.value())); break;
      case ExprOp::Symbol: texts.push_back(plan.symbols[a]->name); break;
      case ExprOp::Add: texts.push_back(texts[a] + " + " + texts[b]); break;
      case ExprOp::Sub: texts.push_back(texts[a] + " - " + factor(b)); break;
      case ExprOp::Mul: texts.push_back(factor(a) + "*" + factor(b)); break;
      case ExprOp::FloorDiv:
        texts.push_back(fmt::format("floordiv({}, {})", texts[a], texts[b]));
        break;
      case ExprOp::Min: texts.push_back(fmt::format("min({}, {})", texts[a], texts[b])); break;
      case ExprOp::Max: texts.push_back(fmt::format("max({}, {})", texts[a], texts[b])); break;
    }
  }
  return texts;
}

std::vector<std::int64_t> bind_shapes(const PlanT& plan, const Shapes& shapes) {
  plan::InputShapes given(plan.inputs.size());
  for (const auto& [name, shape] : shapes) {
    const auto input = std::ranges::find_if(
        plan.inputs, [&name = name](const auto& each) { return each->name == name; });
    if (input == plan.inputs.end()) throw usage_error("the plan has no input '{}'", name);
    const auto index = static_cast<std::size_t>(input - plan.inputs.begin());
    given[index] = plan::shape_of_part(plan, index, shape);
    plan::check_input_shape(plan, index, *given[index]);
  }
  plan::InputValues values(plan.inputs.size());
  for (const auto& symbol : plan.symbols)
    if (symbol->tokens_of >= 0) {
      const auto input = static_cast<std::size_t>(symbol->tokens_of);
      values[input] = plan::most_tokens(given[input]);
    } else if (symbol->value_of >= 0)
      values[static_cast<std::size_t>(symbol->value_of)] = symbol->min;
  return plan::evaluate_expressions(plan, plan::bind_symbols(plan, given, values));
}

std::vector<std::string> conditions_text(const std::vector<plan::fb::Condition>& conditions,
                                         const std::vector<std::string>& texts) {
  std::vector<std::string> all;
  for (const auto& condition : conditions) {
    const std::string& size = texts[condition.expression()];
    if (condition.divisor() > 1)
      all.push_back(fmt::format("{} % {} == 0", size, condition.divisor()));
    if (condition.max() != INT64_MAX) all.push_back(fmt::format("{} <= {}", size, condition.max()));
  }
  return all;
}

std::size_t launches_of(const PlanT& plan, const StepT& step,
                        const std::vector<std::int64_t>& values) {
  const plan::fb::TacticStepT* choice = step.work.AsTacticStep();
  if (choice == nullptr) return calls_of(plan, step.work, values);
  for (const auto& tactic : choice->tactics) {
    if (!hold(tactic->conditions, values)) continue;
    std::size_t count = 0;
    for (const auto& part : tactic->parts) count += calls_of(plan, part->work, values);
    return count;
  }
  return 0;
}

plan::StepRange steps_for(const PlanT& plan, const std::vector<std::int64_t>& values) {
  if (values.empty()) return {};
  std::vector<std::int64_t> symbols(plan.symbols.size());
  for (std::size_t i = 0; i < plan.expressions.size(); ++i)
    if (const auto& node = plan.expressions[i]; node.op() == plan::fb::ExprOp::Symbol)
      symbols[node.a()] = values[i];
  return plan::steps_of(plan::find_entry(plan, symbols));
}

void list_steps(const PlanT& plan, const std::vector<std::int64_t>& values,
                nlohmann::ordered_json& report) {
  const auto texts = expression_texts(plan);
  const auto text = [&](std::uint32_t expression) {
    return values.empty() ? texts[expression] : std::to_string(values[expression]);
  };
  const plan::StepRange range = steps_for(plan, values);
  const auto entry_of = [&](std::size_t step) {
    for (const auto& entry : plan.entries)
      if (plan::steps_of(entry.get()).contains(step)) return entry->name;
    return std::string();
  };
  std::vector<bool> captured;
  if (!values.empty())
    captured =
        plan::captured_loops(plan, {range.first, std::min(range.count, plan.steps.size())}, values);
  struct Body {
    std::size_t end;
    std::string runs;  // "" for once, or if data-dependent
    double count;      // 1 if data-dependent
  };
  std::vector<Body> bodies;  // enclosing bodies of the step
  std::size_t steps = 0, launches = 0;
  double read = 0, written = 0, flops = 0;
  report["step_list"] = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    if (!range.contains(i)) continue;
    while (!bodies.empty() && i >= bodies.back().end) bodies.pop_back();
    const auto& step = plan.steps[i];
    const bool has_body = step->work.AsWhileStep() || step->work.AsIfStep();
    const std::size_t count = has_body ? 0 : launches_of(plan, *step, values);
    const std::string runs = bodies.empty() ? "" : bodies.back().runs;
    const double times = bodies.empty() ? 1 : bodies.back().count;
    launches += count * static_cast<std::size_t>(times);
    if (!values.empty()) {
      read += times * static_cast<double>(values[step->bytes_read]);
      written += times * static_cast<double>(values[step->bytes_written]);
      flops += times * static_cast<double>(values[step->flops]);
    }
    ++steps;
    report["step_list"].push_back({{"name", step->name},
                                   {"kind", kind_of(step->work)},
                                   {"ways", ways(step->work, texts)},
                                   {"launches", count},
                                   {"bytes_read", text(step->bytes_read)},
                                   {"bytes_written", text(step->bytes_written)},
                                   {"flops", text(step->flops)},
                                   {"origins", step->origins},
                                   {"depth", bodies.size()},
                                   {"runs", runs}});
    if (has_body) {
      report["step_list"].back()["ways"] = control_text(
          plan, step->work, texts,
          captured.empty() ? std::nullopt : std::optional<bool>(captured[i - range.first]));
      Body body{i + 1 + plan::body_steps(step->work), runs, times};
      if (const auto* loop = step->work.AsWhileStep(); loop && loop->condition < 0) {
        const auto trips = static_cast<std::uint32_t>(loop->trips);
        body.runs += " x " + text(trips);
        if (!values.empty()) body.count *= static_cast<double>(values[trips]);
      } else {
        body.runs += loop ? " until" : " if";
      }
      bodies.push_back(std::move(body));
    }
    if (!plan.entries.empty()) report["step_list"].back()["entry"] = entry_of(i);
  }
  if (values.empty()) return;
  report["totals"] = {{"steps", steps},
                      {"launches", launches},
                      {"bytes_read", static_cast<std::uint64_t>(read)},
                      {"bytes_written", static_cast<std::uint64_t>(written)},
                      {"flops", static_cast<std::uint64_t>(flops)}};
}

}  // namespace sinter::tools
