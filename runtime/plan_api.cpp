// sinter::Plan and the small parts of the public API.
#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <sinter/sinter.h>

#include "runtime/plan/plan_data.h"

namespace sinter {
namespace {

using plan::fb::ExprOp;

/// An expression as people write it: "batch*seq + 2".
std::string print(const plan::fb::PlanT& meta, std::uint32_t index, bool nested, int depth = 0) {
  const plan::fb::ExprNode& node = meta.expressions[index];
  // Expressions share operands; a crafted one would print exponentially many characters.
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
        // A divisor that may be zero makes no bound; evaluation refuses it.
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
    BindingInfo info{binding->name, static_cast<DType>(binding->dtype), {}};
    for (const std::uint32_t dim : binding->shape)
      info.shape.push_back(dim_info(meta, intervals, dim));
    result.push_back(std::move(info));
  }
  return result;
}

}  // namespace

Plan Plan::load(const std::string& path) { return Plan(plan::read_plan(path)); }
Plan Plan::from_memory(std::span<const std::byte> bytes) { return Plan(plan::parse_plan(bytes)); }

std::string_view Plan::target() const { return data_->meta.target; }
std::vector<BindingInfo> Plan::inputs() const { return describe(data_->meta, data_->meta.inputs); }
std::vector<BindingInfo> Plan::outputs() const {
  return describe(data_->meta, data_->meta.outputs);
}
std::vector<EntryInfo> Plan::entries() const {
  std::vector<EntryInfo> result;
  for (const auto& entry : data_->meta.entries) {
    EntryInfo info{entry->name, {}};
    for (const plan::fb::Limit& limit : entry->limits)
      info.limits.push_back({data_->meta.symbols[limit.symbol()]->name, limit.min(), limit.max()});
    result.push_back(std::move(info));
  }
  return result;
}

std::size_t Plan::step_count() const { return data_->meta.steps.size(); }
std::uint64_t Plan::weight_bytes() const { return data_->weights.size(); }

std::int64_t TensorView::element_count() const {
  std::int64_t count = 1;
  for (const std::int64_t dim : shape)
    if (dim < 0 || __builtin_mul_overflow(count, dim, &count))
      throw Error(ErrorCode::kUsage,
                  fmt::format("the shape [{}] is not possible", fmt::join(shape, ", ")));
  return count;
}

std::size_t TensorView::byte_count() const {
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(static_cast<std::size_t>(element_count()), size_of(dtype), &bytes))
    throw Error(ErrorCode::kUsage,
                fmt::format("the shape [{}] is not possible", fmt::join(shape, ", ")));
  return bytes;
}

std::string_view version() { return SINTER_VERSION; }

}  // namespace sinter
