// SPDX-License-Identifier: Apache-2.0
// Rules that choose schedules of attention.
#pragma once

#include <string>
#include <vector>

#include "codegen/families/attention/schedule/attention_schedule.h"

namespace sinter::codegen {

/// The schedules to emit for `device`, in the order in which the runtime tests their conditions;
/// the last has none and runs on every GPU. `forced`, if not empty, comes first: a schedule to
/// measure, in to_string() form. Throws Error(kUnsupported) if it does not accept the program.
std::vector<AttentionSchedule> choose_attention(const AttentionProgram& program, ExprTable& exprs,
                                                const DeviceModel& device,
                                                const std::string& forced = {});

/// Schedules that accept all sizes of the program on `device`, for measurements, in fixed order.
std::vector<AttentionSchedule> all_attention_schedules(const AttentionProgram& program,
                                                       ExprTable& exprs, const DeviceModel& device);

/// Schedules that accept all sizes of `rule`, one of the rules' schedules, under the same
/// conditions: `rule` first, then the nearest. Bounded, unique and deterministic.
std::vector<AttentionSchedule> attention_candidates(const AttentionProgram& program,
                                                    ExprTable& exprs, const DeviceModel& device,
                                                    const AttentionSchedule& rule, bool clusters);

}  // namespace sinter::codegen
