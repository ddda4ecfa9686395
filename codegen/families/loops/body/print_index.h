// SPDX-License-Identifier: Apache-2.0
// Prints addresses and guards as device code.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "codegen/families/loops/body/thread_mapping.h"

namespace sinter::codegen {

/// Prints index arithmetic in 32 bits if bounds prove that it fits, otherwise in 64.
class IndexPrinter {
 public:
  /// `value_text` gives the text of an instruction's value, for gathers.
  IndexPrinter(const ProgramAnalysis& analysis, Arguments& args, const ThreadMapping& mapping,
               std::function<std::string(std::uint32_t)> value_text)
      : analysis_(analysis),
        args_(args),
        indices_(mapping.indices),
        value_text_(std::move(value_text)) {}

  /// Sets the text of one dimension's index; within a vector, that of the element.
  void set_index(std::size_t d, std::string text) { indices_[d].text = std::move(text); }
  const LoopIndex& index(std::size_t d) const { return indices_[d]; }

  /// The terms of an access's address that vary only with `dims` (`inside`), or the other terms
  /// (not `inside`); empty if zero. The constant offset belongs to the inside.
  std::string address(const plan::fb::AccessT& access, DimSet dims, bool inside) const;
  /// Condition that all gathered indices of `access` are in range; empty if it has none.
  std::string gathered_inside(const plan::fb::AccessT& access) const;
  /// All guards, joined by &&; empty if none.
  std::string guards(const plan::fb::AccessT& access) const;

 private:
  bool has_inside_terms(const plan::fb::AccessT& access, DimSet dims) const;
  struct Bounds {
    std::optional<std::int64_t> low, high;
    bool narrow() const { return low && high && *low > INT32_MIN && *high <= INT32_MAX; }
  };
  Bounds bounds_of_expression(std::uint32_t expression) const;
  Bounds bounds_of_node(std::uint32_t node) const;
  static Bounds combine(plan::fb::ExprOp op, const Bounds& a, const Bounds& b);
  /// True if the node and all its operands fit 32 bits.
  bool node_is_narrow(std::uint32_t node) const;
  std::string node(std::uint32_t node, bool wide) const;

  const ProgramAnalysis& analysis_;
  Arguments& args_;
  std::vector<LoopIndex> indices_;
  std::function<std::string(std::uint32_t)> value_text_;
};

}  // namespace sinter::codegen
