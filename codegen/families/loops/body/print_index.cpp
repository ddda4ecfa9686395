// SPDX-License-Identifier: Apache-2.0
#include "codegen/families/loops/body/print_index.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace sinter::codegen {

using plan::fb::ExprOp;

IndexPrinter::Bounds IndexPrinter::bounds_of_expression(std::uint32_t expression) const {
  const ExprTable& exprs = analysis_.exprs();
  if (exprs.is_constant(expression))
    return {exprs.constant(expression), exprs.constant(expression)};
  return {exprs.lower_bound(expression), exprs.upper_bound(expression)};
}

IndexPrinter::Bounds IndexPrinter::combine(ExprOp op, const Bounds& a, const Bounds& b) {
  Bounds result;
  const auto checked = [&](const std::optional<std::int64_t>& x,
                           const std::optional<std::int64_t>& y) -> std::optional<std::int64_t> {
    std::int64_t value = 0;
    if (!x || !y) return std::nullopt;
    const bool overflow = op == ExprOp::Add   ? __builtin_add_overflow(*x, *y, &value)
                          : op == ExprOp::Sub ? __builtin_sub_overflow(*x, *y, &value)
                                              : __builtin_mul_overflow(*x, *y, &value);
    return overflow ? std::nullopt : std::optional(value);
  };
  switch (op) {
    case ExprOp::Add: return {checked(a.low, b.low), checked(a.high, b.high)};
    case ExprOp::Sub: return {checked(a.low, b.high), checked(a.high, b.low)};
    case ExprOp::Mul: {
      const std::optional<std::int64_t> corners[] = {checked(a.low, b.low), checked(a.low, b.high),
                                                     checked(a.high, b.low),
                                                     checked(a.high, b.high)};
      if (std::all_of(std::begin(corners), std::end(corners),
                      [](const auto& corner) { return corner.has_value(); })) {
        const auto [low, high] = std::minmax_element(std::begin(corners), std::end(corners));
        return {**low, **high};
      }
      if (a.low && b.low && *a.low >= 0 && *b.low >= 0) result.low = 0;
      return result;
    }
    case ExprOp::FloorDiv:
      if (!b.low || *b.low < 1) return result;
      if (a.low && *a.low >= 0) {
        result.low = 0;
        if (a.high) result.high = *a.high / *b.low;
      } else if (a.low) {
        result.low = *a.low;
        if (a.high) result.high = std::max<std::int64_t>(*a.high, 0);
      }
      return result;
    case ExprOp::Min:
      if (a.low && b.low) result.low = std::min(*a.low, *b.low);
      if (a.high || b.high)
        result.high = std::min(a.high.value_or(INT64_MAX), b.high.value_or(INT64_MAX));
      return result;
    case ExprOp::Max:
      if (a.high && b.high) result.high = std::max(*a.high, *b.high);
      if (a.low || b.low)
        result.low = std::max(a.low.value_or(INT64_MIN), b.low.value_or(INT64_MIN));
      return result;
    default: return result;
  }
}

IndexPrinter::Bounds IndexPrinter::bounds_of_node(std::uint32_t index) const {
  const auto& node = analysis_.program().index_nodes[index];
  if (node.op() == ExprOp::Constant) return bounds_of_expression(node.a());
  if (node.op() == ExprOp::Symbol) return {0, indices_[node.a()].max};
  return combine(node.op(), bounds_of_node(node.a()), bounds_of_node(node.b()));
}

bool IndexPrinter::node_is_narrow(std::uint32_t index) const {
  if (!bounds_of_node(index).narrow()) return false;
  const auto& node = analysis_.program().index_nodes[index];
  if (node.op() == ExprOp::Constant || node.op() == ExprOp::Symbol) return true;
  return node_is_narrow(node.a()) && node_is_narrow(node.b());
}

std::string IndexPrinter::node(std::uint32_t index, bool wide) const {
  const auto& node = analysis_.program().index_nodes[index];
  const std::string type = wide ? "i64" : "i32";
  if (node.op() == ExprOp::Constant) {
    const std::string text = args_.expression(node.a());
    return wide ? fmt::format("i64({})", text) : text;
  }
  if (node.op() == ExprOp::Symbol) {
    const LoopIndex& index_of = indices_[node.a()];
    return wide && !index_of.wide ? fmt::format("i64({})", index_of.text) : index_of.text;
  }
  const std::string a = this->node(node.a(), wide), b = this->node(node.b(), wide);
  switch (node.op()) {
    case ExprOp::Add:
      if (b.starts_with("(-") && b.find_first_not_of("0123456789", 2) + 1 == b.size())
        return fmt::format("({} - {})", a, b.substr(2, b.size() - 3));
      return fmt::format("({} + {})", a, b);
    case ExprOp::Sub: return fmt::format("({} - {})", a, b);
    case ExprOp::Mul: return fmt::format("{} * {}", a, b);
    case ExprOp::Min: return fmt::format("minimum({}, {})", a, b);
    case ExprOp::Max: return fmt::format("maximum({}, {})", a, b);
    default: {
      const Bounds dividend = bounds_of_node(node.a()), divisor = bounds_of_node(node.b());
      if (dividend.low && *dividend.low >= 0 && divisor.low && *divisor.low >= 1)
        return fmt::format("{0}(quotient({1}({2}), {1}({3})))", type, wide ? "u64" : "u32", a, b);
      return fmt::format("floor_quotient({}, {})", a, b);
    }
  }
}

std::string IndexPrinter::address(const plan::fb::AccessT& access, DimSet dims, bool inside) const {
  const DimSet varying = analysis_.outer_dims() | analysis_.inner_dims();
  struct Product {
    std::size_t d;
    std::uint32_t stride;
  };
  std::vector<Product> products;
  Bounds sum = {0, 0};
  bool fits = true;
  const auto include = [&](const Bounds& term) {
    // Every partial sum is between the sum of the negative terms and that of the positive ones.
    fits = fits && term.narrow();
    if (fits)
      sum = combine(ExprOp::Add, sum,
                    {std::min<std::int64_t>(*term.low, 0), std::max<std::int64_t>(*term.high, 0)});
  };
  for (std::size_t d = 0; d < analysis_.rank(); ++d) {
    const DimSet bit = dim_bit(d);
    if ((varying & bit) == 0 || ((dims & bit) != 0) != inside) continue;
    if (analysis_.exprs().dim(access.strides[d]) == ir::Dim(0)) continue;
    products.push_back({d, access.strides[d]});
    include(combine(ExprOp::Mul, {0, indices_[d].max}, bounds_of_expression(access.strides[d])));
  }
  const bool with_offset = has_inside_terms(access, dims) == inside;
  if (with_offset) include(bounds_of_expression(access.offset));
  const bool wide = !(fits && sum.narrow());

  std::vector<std::string> terms;
  for (const Product& product : products) {
    const LoopIndex& index = indices_[product.d];
    const std::string text = wide && !index.wide ? fmt::format("i64({})", index.text) : index.text;
    if (analysis_.exprs().dim(product.stride) == ir::Dim(1))
      terms.push_back(products.size() == 1 && !index.wide ? index.text : text);
    else
      terms.push_back(fmt::format("{} * {}", text, args_.expression(product.stride)));
  }
  for (const auto& gather : access.gathers) {
    if (((analysis_.value(gather.value()).dims & ~dims) == 0) != inside) continue;
    std::string term = fmt::format("wrap_index({}, {})", value_text_(gather.value()),
                                   args_.expression(gather.extent()));
    if (analysis_.exprs().dim(gather.stride()) != ir::Dim(1))
      term += " * " + args_.expression(gather.stride());
    terms.push_back(std::move(term));
  }
  for (std::uint32_t n : access.nonaffine) {
    if (((analysis_.node_dims(n) & ~dims) == 0) != inside) continue;
    terms.push_back(node(n, !node_is_narrow(n)));
  }
  if (with_offset && analysis_.exprs().dim(access.offset) != ir::Dim(0))
    terms.push_back(args_.expression(access.offset));
  std::string text;
  for (const std::string& term : terms)  // "(-32)" is a negative literal
    text += term.starts_with("(-") && term.find(')') + 1 == term.size()
                ? " - " + term.substr(2, term.size() - 3)
                : " + " + term;
  return text;
}

bool IndexPrinter::has_inside_terms(const plan::fb::AccessT& access, DimSet dims) const {
  const DimSet varying = analysis_.outer_dims() | analysis_.inner_dims();
  for (std::size_t d = 0; d < analysis_.rank(); ++d)
    if ((varying & dims & dim_bit(d)) != 0 &&
        analysis_.exprs().dim(access.strides[d]) != ir::Dim(0))
      return true;
  for (const auto& gather : access.gathers)
    if ((analysis_.value(gather.value()).dims & ~dims) == 0) return true;
  for (std::uint32_t n : access.nonaffine)
    if ((analysis_.node_dims(n) & ~dims) == 0) return true;
  return false;
}

std::string IndexPrinter::gathered_inside(const plan::fb::AccessT& access) const {
  std::vector<std::string> all;
  for (const auto& gather : access.gathers)
    all.push_back(fmt::format("has_index({}, {})", value_text_(gather.value()),
                              args_.expression(gather.extent())));
  return fmt::format("{}", fmt::join(all, " && "));
}

std::string IndexPrinter::guards(const plan::fb::AccessT& access) const {
  std::vector<std::string> all;
  for (const auto& guard : access.guards) {
    const bool wide =
        !node_is_narrow(guard.index()) || !bounds_of_expression(guard.extent()).narrow();
    const std::string extent = args_.expression(guard.extent());
    std::string index = node(guard.index(), wide);
    const ExprOp op = analysis_.program().index_nodes[guard.index()].op();
    if (op == ExprOp::Add || op == ExprOp::Sub) index = index.substr(1, index.size() - 2);
    all.push_back(
        fmt::format("within({}, {})", index, wide ? fmt::format("i64({})", extent) : extent));
  }
  return fmt::format("{}", fmt::join(all, " && "));
}

}  // namespace sinter::codegen
