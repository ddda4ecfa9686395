// SPDX-License-Identifier: Apache-2.0
// TMA descriptors for the operands of attention by warpgroups.
#pragma once

#include <string>
#include <vector>

#include "codegen/emit/tensor_maps.h"
#include "codegen/families/attention/schedule/attention_schedule.h"

namespace sinter::codegen {

/// Whether TMA copies the operands of `schedule`. Keys past the last must be zero, as zero weights
/// would meet values that may be infinite. TMA zero-fills at a tensor's end, but not at limits,
/// sizes that the run finds or ends of packed sequences. Rows must be multiples of 128 bytes: for
/// rows of 80 or 144 bytes TMA is slower than warps.
bool copies_by_engine(const AttentionProgram& program, const AttentionSchedule& schedule,
                      const ExprTable& exprs);

/// The descriptors of queries, keys and values; empty if TMA does not copy them.
std::vector<MapParameter> maps_of(const AttentionProgram& program,
                                  const AttentionSchedule& schedule, ExprTable& exprs);

/// "AttentionMaps<3>{&map_q, &map_k, &map_v, 0, 1, 1}": the kernel's argument.
std::string maps_text(const AttentionProgram& program);

}  // namespace sinter::codegen
