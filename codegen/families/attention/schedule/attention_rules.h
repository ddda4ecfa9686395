// The rules that choose schedules of attention.
#pragma once

#include <string>
#include <vector>

#include "codegen/families/attention/schedule/attention_schedule.h"

namespace sinter::codegen {

/// The schedules to emit for `device`, in the order in which the runtime tries their conditions;
/// the last has none and runs on every GPU. `forced`, if not empty, is the first one, in the form
/// of to_string(), the one to measure; throws Error(kUnsupported) if it does not take the program.
std::vector<AttentionSchedule> choose_attention(const AttentionProgram& program, ExprTable& exprs,
                                                const DeviceModel& device,
                                                const std::string& forced = {});

/// Schedules that take all sizes of the program on `device`, for measuring, in a fixed order.
std::vector<AttentionSchedule> all_attention_schedules(const AttentionProgram& program,
                                                       ExprTable& exprs, const DeviceModel& device);

/// Schedules that take all sizes that `rule`, one of the rules', takes, and under the same
/// conditions: `rule` first, then others, the nearest first. Bounded, without repetition, always
/// the same.
std::vector<AttentionSchedule> attention_candidates(const AttentionProgram& program,
                                                    ExprTable& exprs, const DeviceModel& device,
                                                    const AttentionSchedule& rule, bool clusters);

}  // namespace sinter::codegen
