// SPDX-License-Identifier: Apache-2.0
// Dims as expression nodes of a plan; equal ones are shared.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ir/dim/dim.h"
#include "runtime/plan/plan_data.h"

namespace sinter::codegen {

using ir::Dim, ir::Ranges, ir::Shape;
using plan::fb::AccessT, plan::fb::ArgKind, plan::fb::Condition, plan::fb::ExprOp,
    plan::fb::InstrKind, plan::fb::InstrT, plan::fb::KernelArg, plan::fb::KernelStepT,
    plan::fb::KernelVariantT, plan::fb::LoopProgramT, plan::fb::StepT;

/// Indices of plan buffers.
using Buffers = std::span<const std::uint32_t>;

/// Interns expressions; equal ones get one index, operands precede their users. Indices stay valid
/// for the table's life, references from dim() until the next intern().
class ExprTable {
 public:
  explicit ExprTable(Ranges ranges);

  /// Sizes are within `ranges` from now on (those of an entry point, say). Lookups find only what
  /// was interned under the same ranges, as Dims simplify under them.
  void set_ranges(Ranges ranges);

  /// Throws Error(kInternal) for an expression over index symbols ("$0"): those are not sizes.
  std::uint32_t intern(const Dim& dim);
  /// The Dim of `expression`.
  const Dim& dim(std::uint32_t expression) const;
  bool is_constant(std::uint32_t expression) const { return dim(expression).is_constant(); }
  std::int64_t constant(std::uint32_t expression) const { return dim(expression).value(); }
  /// Known bounds of the value within the ranges.
  std::optional<std::int64_t> lower_bound(std::uint32_t expression) const;
  std::optional<std::int64_t> upper_bound(std::uint32_t expression) const;
  const Ranges& ranges() const { return ranges_; }

  /// True if the value contains an Extent's symbol, which only the run knows.
  bool is_from_data(std::uint32_t expression) const {
    return ir::is_from_data({&dim(expression), 1}, ranges_);
  }
  /// An upper bound of the value without such symbols.
  std::uint32_t largest(std::uint32_t expression) {
    return intern(ir::largest(Dim(dim(expression)), ranges_));
  }
  /// `buffer` will hold the value of `symbol`.
  void set_extent(const std::string& symbol, std::uint32_t buffer);
  /// `symbol` is the number of tokens of mask input `input`; `first`: see plan.fbs.
  void set_tokens(const std::string& symbol, std::size_t input, bool first);
  /// The buffers of those symbols of `dim` that only the run knows, by symbol.
  std::map<std::string, std::uint32_t> extents_of(const Dim& dim) const;
  std::size_t size() const { return nodes_.size(); }

  /// Writes the tables: symbols (by name) and nodes.
  void write(plan::fb::PlanT& plan) const;

 private:
  std::uint32_t symbol(const std::string& name);
  std::uint32_t atom(const ir::DimAtom& atom);
  std::uint32_t term(const Dim::Monomial& factors, std::int64_t coefficient);
  std::uint32_t binary(ExprOp op, std::uint32_t a, std::uint32_t b);
  std::uint32_t push(const std::string& key, plan::fb::ExprNode node, Dim dim);

  Ranges ranges_;
  struct Extent {
    std::uint32_t buffer = 0, bound = 0;
  };
  std::map<std::string, Extent> extents_;  // by symbol
  struct Tokens {
    std::size_t input = 0;
    bool first = false;
  };
  std::map<std::string, Tokens> tokens_;  // by symbol
  std::vector<std::string> symbols_;      // in order of first use; write() sorts them
  std::vector<plan::fb::ExprNode> nodes_;
  std::vector<Dim> dims_;
  using ByText = std::map<std::string, std::uint32_t>;
  ByText by_text_;                                  // printed Dims, and "op a b" for nodes
  std::vector<std::pair<Ranges, ByText>> earlier_;  // tables of previous ranges
};

}  // namespace sinter::codegen
