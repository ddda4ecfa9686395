// Dims as the plan's expression nodes, shared where equal.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ir/dim.h"
#include "runtime/plan/plan_data.h"

namespace sinter::codegen {

/// Interns expressions; equal ones get one index. Operands always precede their users.
class ExprTable {
 public:
  explicit ExprTable(ir::Ranges ranges);

  std::uint32_t intern(const ir::Dim& dim);
  /// The Dim that `expression` stands for.
  const ir::Dim& dim(std::uint32_t expression) const;
  bool is_constant(std::uint32_t expression) const { return dim(expression).is_constant(); }
  std::int64_t constant(std::uint32_t expression) const { return dim(expression).value(); }
  /// Known bounds of the value over all bound shapes.
  std::optional<std::int64_t> lower_bound(std::uint32_t expression) const;
  std::optional<std::int64_t> upper_bound(std::uint32_t expression) const;
  const ir::Ranges& ranges() const { return ranges_; }

  /// The finished tables: symbols (in name order) and nodes.
  void write(plan::fb::PlanT& plan) const;

 private:
  struct NodeKey;
  ir::Ranges ranges_;
  std::vector<std::string> symbols_;
  std::vector<plan::fb::ExprNode> nodes_;
  std::vector<ir::Dim> dims_;
  std::map<std::string, std::uint32_t> by_text_;
};

}  // namespace sinter::codegen
