// The operands of attention by warpgroups as tensor maps.
#pragma once

#include <string>
#include <vector>

#include "codegen/emit/tensor_maps.h"
#include "codegen/families/attention/schedule/attention_schedule.h"

namespace sinter::codegen {

/// Whether the copy engine fetches the operands of `schedule`. What lies behind the last key is
/// zero then, and it knows a tensor's end, but no limit or size that a run finds, nor where a
/// packed sequence ends: weights of zero would meet another's values, which may be infinite. It
/// takes rows of whole lines of 128 bytes; those of 80 or 144 bytes take it longer than warps.
bool copies_by_engine(const AttentionProgram& program, const AttentionSchedule& schedule,
                      const ExprTable& exprs);

/// The maps of queries, keys and values, where it does; else none.
std::vector<MapParameter> maps_of(const AttentionProgram& program,
                                  const AttentionSchedule& schedule, ExprTable& exprs);

/// "AttentionMaps<3>{&map_q, &map_k, &map_v, 0, 1, 1}": how a kernel that has them hands them on.
std::string maps_text(const AttentionProgram& program);

}  // namespace sinter::codegen
