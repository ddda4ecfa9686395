// SPDX-License-Identifier: Apache-2.0
#include "codegen/plan/expr_table.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>
#include <sinter/error.h>

namespace sinter::codegen {

using plan::fb::ExprNode;

ExprTable::ExprTable(Ranges ranges) : ranges_(std::move(ranges)) {}

void ExprTable::set_ranges(Ranges ranges) {
  if (ranges == ranges_) return;
  earlier_.emplace_back(std::move(ranges_), std::move(by_text_));
  ranges_ = std::move(ranges);
  by_text_.clear();
  const auto before = std::ranges::find(earlier_, ranges_, &decltype(earlier_)::value_type::first);
  if (before == earlier_.end()) return;
  by_text_ = std::move(before->second);
  earlier_.erase(before);
}

const Dim& ExprTable::dim(std::uint32_t expression) const {
  if (expression >= dims_.size())
    throw Error(ErrorCode::kInternal, fmt::format("expression {} of {}", expression, dims_.size()));
  return dims_[expression];
}

std::optional<std::int64_t> ExprTable::lower_bound(std::uint32_t expression) const {
  return ir::lower_bound(dim(expression), ranges_);
}

std::optional<std::int64_t> ExprTable::upper_bound(std::uint32_t expression) const {
  return ir::upper_bound(dim(expression), ranges_);
}

std::uint32_t ExprTable::push(const std::string& key, ExprNode node, Dim dim) {
  if (auto found = by_text_.find(key); found != by_text_.end()) return found->second;
  const auto index = static_cast<std::uint32_t>(nodes_.size());
  nodes_.push_back(node);
  by_text_.emplace(dim.to_string(), index);
  dims_.push_back(std::move(dim));
  by_text_.emplace(key, index);
  return index;
}

std::uint32_t ExprTable::symbol(const std::string& name) {
  if (name.starts_with("$"))
    throw Error(ErrorCode::kInternal, "index symbol " + name + " in a size expression");
  auto at = std::ranges::find(symbols_, name);
  if (at == symbols_.end()) at = symbols_.insert(at, name);
  return push(name,
              ExprNode(ExprOp::Symbol, static_cast<std::uint32_t>(at - symbols_.begin()), 0, 0),
              Dim::symbol(name));
}

// Rebuilds the node's Dim under the table's ranges: equal to the atom in value, though maybe not in
// form.
std::uint32_t ExprTable::binary(ExprOp op, std::uint32_t a, std::uint32_t b) {
  const std::string key = fmt::format("{} {} {}", static_cast<int>(op), a, b);
  if (auto found = by_text_.find(key); found != by_text_.end()) return found->second;
  const Dim x = dim(a), y = dim(b);
  Dim result;
  switch (op) {
    case ExprOp::Add: result = x + y; break;
    case ExprOp::Sub: result = x - y; break;
    case ExprOp::Mul: result = x * y; break;
    case ExprOp::FloorDiv: result = ir::floor_div(x, y, ranges_); break;
    case ExprOp::Min: result = ir::min(x, y, ranges_); break;
    case ExprOp::Max: result = ir::max(x, y, ranges_); break;
    default: throw Error(ErrorCode::kInternal, "not a binary expression operator");
  }
  return push(key, ExprNode(op, a, b, 0), std::move(result));
}

std::uint32_t ExprTable::atom(const ir::DimAtom& atom) {
  using Kind = ir::DimAtom::Kind;
  switch (atom.kind) {
    case Kind::kSymbol: return symbol(atom.name);
    case Kind::kFloorDiv: {
      const std::uint32_t a = intern(atom.a);
      return binary(ExprOp::FloorDiv, a, intern(atom.b));
    }
    case Kind::kMin: {
      const std::uint32_t a = intern(atom.a);
      return binary(ExprOp::Min, a, intern(atom.b));
    }
    case Kind::kMax: {
      const std::uint32_t a = intern(atom.a);
      return binary(ExprOp::Max, a, intern(atom.b));
    }
  }
  throw Error(ErrorCode::kInternal, "unknown kind of dimension term");
}

std::uint32_t ExprTable::term(const Dim::Monomial& factors, std::int64_t coefficient) {
  if (factors.empty()) return intern(ir::Dim(coefficient));
  std::uint32_t result = atom(*factors.front());
  for (std::size_t i = 1; i < factors.size(); ++i)
    result = binary(ExprOp::Mul, result, atom(*factors[i]));
  if (coefficient != 1) result = binary(ExprOp::Mul, result, intern(ir::Dim(coefficient)));
  return result;
}

std::uint32_t ExprTable::intern(const Dim& dim) {
  const std::string text = dim.to_string();
  if (auto found = by_text_.find(text); found != by_text_.end()) return found->second;
  if (dim.is_constant()) return push(text, ExprNode(ExprOp::Constant, 0, 0, dim.value()), dim);
  // Positive terms first; the others become subtractions.
  std::vector<const Dim::Term*> order;
  for (const Dim::Term& t : dim.terms()) order.push_back(&t);
  std::stable_partition(order.begin(), order.end(),
                        [](const Dim::Term* t) { return t->coefficient > 0; });
  std::uint32_t result = term(order.front()->factors, order.front()->coefficient);
  for (std::size_t i = 1; i < order.size(); ++i) {
    const std::int64_t c = order[i]->coefficient;
    const bool subtract = c < 0 && c != INT64_MIN;
    result = binary(subtract ? ExprOp::Sub : ExprOp::Add, result,
                    term(order[i]->factors, subtract ? -c : c));
  }
  by_text_.emplace(text, result);
  return result;
}

std::map<std::string, std::uint32_t> ExprTable::extents_of(const Dim& dim) const {
  std::map<std::string, std::uint32_t> found;
  for (const std::string& symbol : dim.symbols())
    if (const auto extent = extents_.find(symbol); extent != extents_.end())
      found.emplace(symbol, extent->second.buffer);
  return found;
}

void ExprTable::set_extent(const std::string& symbol, std::uint32_t buffer) {
  extents_[symbol] = {buffer, largest(this->symbol(symbol))};
}

void ExprTable::set_tokens(const std::string& symbol, std::size_t input, bool first) {
  this->symbol(symbol);
  tokens_[symbol] = {input, first};
}

void ExprTable::write(plan::fb::PlanT& plan) const {
  std::vector<std::uint32_t> order(symbols_.size());
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::sort(order,
                    [&](std::uint32_t a, std::uint32_t b) { return symbols_[a] < symbols_[b]; });
  std::vector<std::uint32_t> rank(symbols_.size());
  plan.symbols.clear();
  for (std::uint32_t i = 0; i < order.size(); ++i) {
    rank[order[i]] = i;
    auto symbol = std::make_unique<plan::fb::SymbolT>();
    symbol->name = symbols_[order[i]];
    const auto range = ranges_.find(symbol->name);
    const ir::Range known = range == ranges_.end() ? ir::Range{} : range->second;
    symbol->min = known.min;
    symbol->max = known.max;
    if (const auto extent = extents_.find(symbol->name); extent != extents_.end()) {
      symbol->extent_of = static_cast<std::int32_t>(extent->second.buffer);
      symbol->bound = static_cast<std::int32_t>(extent->second.bound);
    }
    if (const auto tokens = tokens_.find(symbol->name); tokens != tokens_.end()) {
      symbol->tokens_of = static_cast<std::int32_t>(tokens->second.input);
      symbol->first_tokens = tokens->second.first;
    }
    plan.symbols.push_back(std::move(symbol));
  }
  plan.expressions = nodes_;
  for (ExprNode& node : plan.expressions)
    if (node.op() == ExprOp::Symbol) node = ExprNode(ExprOp::Symbol, rank[node.a()], 0, 0);
}

}  // namespace sinter::codegen
