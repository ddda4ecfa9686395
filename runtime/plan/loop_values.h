// SPDX-License-Identifier: Apache-2.0
// Classifies the values of a loop program: one per row, or one per element.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/plan/plan_data.h"

namespace sinter::plan {

/// Instr.op of a Scatter that overwrites instead of combining.
inline constexpr std::uint8_t kScatterReplaces = 255;

/// True for instructions that write to memory.
constexpr bool is_store(fb::InstrKind kind) {
  return kind == fb::InstrKind::Store || kind == fb::InstrKind::Scatter;
}
/// True for instructions that have an access.
constexpr bool is_memory(fb::InstrKind kind) {
  return kind == fb::InstrKind::Load || is_store(kind);
}

/// For each index node: whether it depends on a dimension within the row (the last inner_dims).
std::vector<bool> index_nodes_per_element(const fb::LoopProgramT& program);
/// For each instruction: whether its value differs between elements of a row. A stride counts as 0
/// only if its expression is the constant 0, so the answer holds for every bound shape.
std::vector<bool> instrs_per_element(const fb::PlanT& plan, const fb::LoopProgramT& program);

}  // namespace sinter::plan
