// SPDX-License-Identifier: Apache-2.0
// sinter::Plan: a plan's description of itself.
#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/ranges.h>
#include <sinter/sinter.h>

#include "runtime/format_error.h"
#include "runtime/log.h"
#include "runtime/plan/input_shapes.h"
#include "runtime/plan_access.h"
#include "runtime/signature/signature.h"

namespace sinter {
namespace {

using plan::fb::ExprOp;

/// An expression in readable form: "batch*seq + 2".
std::string print(const plan::fb::PlanT& meta, std::uint32_t index, bool nested, int depth = 0) {
  const plan::fb::ExprNode& node = meta.expressions[index];
  // Expressions share operands, so a malicious one could print exponentially many characters.
  if (depth > 12) return "...";
  const auto operand = [&](std::uint32_t i, bool in) { return print(meta, i, in, depth + 1); };
  std::string text;
  switch (node.op()) {
    case ExprOp::Constant: return fmt::format("{}", node.value());
    case ExprOp::Symbol: return meta.symbols[node.a()]->name;
    case ExprOp::Mul: return operand(node.a(), true) + "*" + operand(node.b(), true);
    case ExprOp::Add: text = operand(node.a(), false) + " + " + operand(node.b(), false); break;
    case ExprOp::Sub: text = operand(node.a(), false) + " - " + operand(node.b(), true); break;
    case ExprOp::FloorDiv:
      return fmt::format("floordiv({}, {})", operand(node.a(), false), operand(node.b(), false));
    case ExprOp::Min:
      return fmt::format("min({}, {})", operand(node.a(), false), operand(node.b(), false));
    case ExprOp::Max:
      return fmt::format("max({}, {})", operand(node.a(), false), operand(node.b(), false));
  }
  return nested ? "(" + text + ")" : text;
}

struct Interval {
  double low, high;
};

/// Bounds by interval arithmetic, in double so that nothing overflows.
std::vector<Interval> bounds(const plan::fb::PlanT& meta) {
  std::vector<Interval> result;
  for (const plan::fb::ExprNode& node : meta.expressions) {
    const auto a = [&] { return result[node.a()]; };
    const auto b = [&] { return result[node.b()]; };
    const auto hull = [&](auto&& combine) {
      const double values[4] = {combine(a().low, b().low), combine(a().low, b().high),
                                combine(a().high, b().low), combine(a().high, b().high)};
      return Interval{*std::min_element(values, values + 4), *std::max_element(values, values + 4)};
    };
    switch (node.op()) {
      case ExprOp::Constant:
        result.push_back({static_cast<double>(node.value()), static_cast<double>(node.value())});
        break;
      case ExprOp::Symbol:
        result.push_back({static_cast<double>(meta.symbols[node.a()]->min),
                          static_cast<double>(meta.symbols[node.a()]->max)});
        break;
      case ExprOp::Add: result.push_back({a().low + b().low, a().high + b().high}); break;
      case ExprOp::Sub: result.push_back({a().low - b().high, a().high - b().low}); break;
      case ExprOp::Mul: result.push_back(hull([](double x, double y) { return x * y; })); break;
      case ExprOp::FloorDiv:
        // A divisor that may be zero gives no bounds; evaluation refuses zero.
        if (b().low <= 0 && b().high >= 0)
          result.push_back({-9.3e18, 9.3e18});
        else
          result.push_back(hull([](double x, double y) { return std::floor(x / y); }));
        break;
      case ExprOp::Min:
        result.push_back({std::min(a().low, b().low), std::min(a().high, b().high)});
        break;
      case ExprOp::Max:
        result.push_back({std::max(a().low, b().low), std::max(a().high, b().high)});
        break;
    }
  }
  return result;
}

std::int64_t saturate(double value) {
  if (!(value < 9.2e18)) return std::numeric_limits<std::int64_t>::max();
  if (value < -9.2e18) return std::numeric_limits<std::int64_t>::min();
  return static_cast<std::int64_t>(value);
}

DimInfo dim_info(const plan::fb::PlanT& meta, const std::vector<Interval>& intervals,
                 std::uint32_t expression) {
  DimInfo info{print(meta, expression, false), 0, 0};
  const plan::fb::ExprNode& node = meta.expressions[expression];
  if (node.op() == ExprOp::Constant) {
    info.min = info.max = node.value();
  } else if (node.op() == ExprOp::Symbol) {
    info.min = meta.symbols[node.a()]->min;
    info.max = meta.symbols[node.a()]->max;
  } else {
    info.min = saturate(intervals[expression].low);
    info.max = saturate(intervals[expression].high);
  }
  return info;
}

std::vector<BindingInfo> describe(
    const plan::fb::PlanT& meta, const std::vector<std::unique_ptr<plan::fb::BindingT>>& bindings) {
  const std::vector<Interval> intervals = bounds(meta);
  std::vector<BindingInfo> result;
  for (const auto& binding : bindings) {
    BindingInfo info{binding->name, static_cast<DType>(binding->dtype), {}, std::nullopt};
    for (const std::uint32_t dim : binding->shape)
      info.shape.push_back(dim_info(meta, intervals, dim));
    result.push_back(std::move(info));
  }
  return result;
}

std::vector<StateInfo> describe_states(const plan::fb::PlanT& meta) {
  std::vector<StateInfo> result;
  for (const auto& state : meta.states) result.push_back({state->input, state->output});
  return result;
}

std::vector<EntryInfo> describe_entries(const plan::fb::PlanT& meta) {
  std::vector<EntryInfo> result;
  for (const auto& entry : meta.entries) {
    EntryInfo info{entry->name, {}};
    for (const plan::fb::Limit& limit : entry->limits)
      info.limits.push_back({meta.symbols[limit.symbol()]->name, limit.min(), limit.max()});
    result.push_back(std::move(info));
  }
  return result;
}

std::size_t index_of(const std::vector<BindingInfo>& bindings, std::string_view name,
                     const char* what) {
  for (std::size_t i = 0; i < bindings.size(); ++i)
    if (bindings[i].name == name) return i;
  std::string names;
  for (const BindingInfo& binding : bindings)
    names += fmt::format("{}'{}'", names.empty() ? "" : ", ", binding.name);
  throw usage_error("there is no {} '{}'; the plan has {}", what, name,
                    names.empty() ? "none" : names);
}

/// Names the kind of code that a plan contains; empty: all of it is data.
std::string code_of(const Plan& plan) {
  if (!plan.custom_code().empty())
    return fmt::format("code that is not Sinter's, of '{}'", fmt::join(plan.custom_code(), "', '"));
  const plan::fb::PlanT& meta = PlanAccess::data(plan)->meta;
  if (!meta.modules.empty()) return fmt::format("{} modules of kernels", meta.modules.size());
  if (std::ranges::any_of(meta.steps,
                          [](const auto& step) { return step->work.AsHostStep() != nullptr; }))
    return "host operators";
  return "";
}

/// Checks allow_custom_code and adds the operator libraries.
Plan allowed(Plan plan, const LoadOptions& options) {
  if (!options.allow_custom_code && options.require_signature.empty())
    if (const std::string code = code_of(plan); !code.empty())
      throw invalid_plan_error(
          "{} has {}, and custom code is not allowed: what it says of its code itself is no proof. "
          "Require its maker's signature (LoadOptions::require_signature), or allow code "
          "(LoadOptions::allow_custom_code) if its maker is trusted",
          plan.path().empty() ? "the plan" : fmt::format("'{}'", plan.path()), code);
  if (options.operator_libraries.empty()) return plan;
  return plan.with_operators(options.operator_libraries);
}

plan::FileCheck check_of(const LoadOptions& options) {
  if (options.require_signature.empty()) return {};
  const signature::Key key = signature::public_key(options.require_signature);
  return [key](std::span<const std::byte> file) { signature::require(file, key); };
}

}  // namespace

std::size_t checked_index(std::size_t index, std::size_t count, const char* what) {
  if (index >= count)
    throw usage_error("there is no {} {}; the plan has {} of them", what, index, count);
  return index;
}

Plan PlanAccess::make(std::shared_ptr<const plan::PlanData> data) {
  const plan::fb::PlanT& meta = data->meta;
  auto impl = std::make_shared<Plan::Impl>();
  impl->inputs = describe(meta, meta.inputs);
  impl->outputs = describe(meta, meta.outputs);
  impl->states = describe_states(meta);
  for (std::size_t s = 0; s < impl->states.size(); ++s) {
    impl->inputs[impl->states[s].input].state = s;
    impl->outputs[impl->states[s].output].state = s;
    const plan::fb::StateT& state = *meta.states[s];
    if (state.axis < 0) continue;
    // Callers see the whole of which each rank has a part.
    for (BindingInfo* binding : {&impl->inputs[state.input], &impl->outputs[state.output]}) {
      DimInfo& dim = binding->shape[static_cast<std::size_t>(state.axis)];
      dim.min *= state.parts;
      dim.max = dim.max > INT64_MAX / state.parts ? INT64_MAX : dim.max * state.parts;
      dim.text = dim.min == dim.max ? fmt::format("{}", dim.min)
                                    : fmt::format("{}*({})", state.parts, dim.text);
    }
  }
  for (std::size_t i = 0; i < impl->inputs.size(); ++i) {
    const auto symbol = plan::symbol_of_value(meta, i);
    impl->inputs[i].is_read_by_host = symbol.has_value();
    impl->inputs[i].counts_tokens = symbol && meta.symbols[*symbol]->tokens_of >= 0;
  }
  impl->entries = describe_entries(meta);
  if (meta.manifest) {
    for (const auto& option : meta.manifest->options)
      impl->options.emplace_back(option->key, option->value);
    for (const auto& measured : meta.manifest->measured)
      impl->measured.push_back({measured->output, measured->relative_error});
  }
  for (const auto& code : meta.custom_code)
    if (std::ranges::find(impl->custom_code, code->name) == impl->custom_code.end())
      impl->custom_code.push_back(code->name);
  impl->data = std::move(data);
  runtime::log(LogLevel::kInfo, [&] {
    return fmt::format("plan {}: {}, {} steps, {} bytes of weights",
                       impl->data->path.empty() ? "from memory" : "'" + impl->data->path + "'",
                       impl->data->meta.target, impl->data->meta.steps.size(),
                       impl->data->weights.size());
  });
  return Plan(std::move(impl));
}

Plan Plan::load(const std::string& path) { return PlanAccess::make(plan::read_plan(path)); }
Plan Plan::load(const std::string& path, const LoadOptions& options) {
  const plan::FileCheck check = check_of(options);
  return allowed(PlanAccess::make(options.copy ? plan::read_plan_copy(path, check)
                                               : plan::read_plan(path, check)),
                 options);
}
Plan Plan::with_operators(std::vector<OperatorLibrary> libraries) const {
  auto copy = std::make_shared<Impl>(impl());
  copy->operators = std::make_shared<const runtime::HostOperators>(std::move(libraries));
  copy->operators->check(copy->data->meta);
  return Plan(std::move(copy));
}
Plan Plan::from_memory(std::span<const std::byte> bytes, const LoadOptions& options) {
  return allowed(PlanAccess::make(plan::parse_plan(bytes, check_of(options))), options);
}
Plan Plan::borrow(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                  const LoadOptions& options) {
  return allowed(PlanAccess::make(plan::borrow_plan(bytes, std::move(owner), check_of(options))),
                 options);
}

const Plan::Impl& Plan::impl() const {
  if (!impl_) throw usage_error("the plan was moved from");
  return *impl_;
}

const std::vector<BindingInfo>& Plan::inputs() const { return impl().inputs; }
const std::vector<BindingInfo>& Plan::outputs() const { return impl().outputs; }
std::size_t Plan::input_index(std::string_view name) const {
  return index_of(impl().inputs, name, "input");
}
std::size_t Plan::output_index(std::string_view name) const {
  return index_of(impl().outputs, name, "output");
}
const std::vector<StateInfo>& Plan::states() const { return impl().states; }
const std::vector<EntryInfo>& Plan::entries() const { return impl().entries; }

std::string_view Plan::target() const { return impl().data->meta.target; }
const std::vector<std::string>& Plan::architectures() const {
  return impl().data->meta.architectures;
}
std::size_t Plan::ranks() const { return impl().data->meta.ranks; }
std::size_t Plan::step_count() const { return impl().data->meta.steps.size(); }
std::uint64_t Plan::weight_bytes() const { return impl().data->weights.size(); }
std::string_view Plan::path() const { return impl().data->path; }

std::string_view Plan::compiler_version() const { return impl().data->meta.compiler_version; }
std::uint32_t Plan::format_version() const { return impl().data->format_version; }
std::uint32_t Plan::cuda_version() const { return impl().data->meta.cuda_version; }
std::string_view Plan::model_name() const {
  const auto& manifest = impl().data->meta.manifest;
  return manifest ? std::string_view(manifest->model_name) : std::string_view();
}
std::uint64_t Plan::model_hash() const {
  const auto& manifest = impl().data->meta.manifest;
  return manifest ? manifest->model_hash : 0;
}
const std::vector<std::pair<std::string, std::string>>& Plan::options() const {
  return impl().options;
}
const std::vector<MeasuredError>& Plan::measured_errors() const { return impl().measured; }
const std::vector<std::string>& Plan::precision_notes() const {
  static const std::vector<std::string> none;
  const auto& manifest = impl().data->meta.manifest;
  return manifest ? manifest->precision_notes : none;
}
const std::vector<std::string>& Plan::custom_code() const { return impl().custom_code; }
std::vector<std::string> Plan::host_operators() const {
  std::vector<std::string> names;
  for (const auto& code : impl().data->meta.custom_code)
    if (code->kind == plan::fb::CodeKind::Host) names.push_back(code->name);
  return names;
}
std::string_view Plan::graph_text() const { return impl().data->meta.graph_text; }

std::string_view version() { return SINTER_VERSION; }

}  // namespace sinter
