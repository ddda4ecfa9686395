// SPDX-License-Identifier: Apache-2.0
#include "runtime/plan/loop_values.h"

#include <algorithm>

namespace sinter::plan {

std::vector<bool> index_nodes_per_element(const fb::LoopProgramT& program) {
  const std::size_t rows = program.extents.size() - program.inner_dims;
  std::vector<bool> result(program.index_nodes.size());
  for (std::size_t i = 0; i < result.size(); ++i) {
    const fb::IndexNode& node = program.index_nodes[i];
    switch (node.op()) {
      case fb::ExprOp::Constant: result[i] = false; break;
      case fb::ExprOp::Symbol: result[i] = node.a() >= rows; break;
      default: result[i] = result[node.a()] || result[node.b()];
    }
  }
  return result;
}

std::vector<bool> instrs_per_element(const fb::PlanT& plan, const fb::LoopProgramT& program) {
  const std::size_t rows = program.extents.size() - program.inner_dims;
  const std::vector<bool> nodes = index_nodes_per_element(program);
  std::vector<bool> result(program.instrs.size());
  const auto access_per_element = [&](const fb::AccessT& access) {
    for (std::size_t d = rows; d < access.strides.size(); ++d) {
      const fb::ExprNode& stride = plan.expressions[access.strides[d]];
      if (stride.op() != fb::ExprOp::Constant || stride.value() != 0) return true;
    }
    return std::ranges::any_of(access.gathers,
                               [&](const fb::Gather& gather) { return result[gather.value()]; }) ||
           std::ranges::any_of(access.nonaffine, [&](std::uint32_t node) { return nodes[node]; }) ||
           std::ranges::any_of(access.guards,
                               [&](const fb::Guard& guard) { return nodes[guard.index()]; });
  };
  for (std::size_t i = 0; i < result.size(); ++i) {
    const fb::InstrT& instr = *program.instrs[i];
    switch (instr.kind) {
      case fb::InstrKind::Load:
        result[i] = access_per_element(*program.accesses[instr.access]);
        break;
      case fb::InstrKind::Constant:
      case fb::InstrKind::Size: result[i] = false; break;
      case fb::InstrKind::Op:
        result[i] = std::ranges::any_of(instr.args, [&](std::uint32_t arg) { return result[arg]; });
        break;
      case fb::InstrKind::Reduce: result[i] = false; break;
      case fb::InstrKind::Scan: result[i] = true; break;
      case fb::InstrKind::Scatter:
      case fb::InstrKind::Store:
        result[i] = access_per_element(*program.accesses[instr.access]);
        break;
      case fb::InstrKind::Index: result[i] = instr.dim >= rows; break;
    }
  }
  return result;
}

}  // namespace sinter::plan
