// Which values of a loop program are one per row and which one per element.
#pragma once

#include <vector>

#include "runtime/plan/plan_data.h"

namespace sinter::plan {

/// For each index node, whether it depends on a loop dimension of the row (the last inner_dims).
std::vector<bool> index_nodes_per_element(const fb::LoopProgramT& program);
/// For each instruction, whether its value differs between elements of a row. A stride counts as
/// zero only if its expression is the constant zero, so the answer holds for every bound shape.
std::vector<bool> instrs_per_element(const fb::PlanT& plan, const fb::LoopProgramT& program);

}  // namespace sinter::plan
