// SPDX-License-Identifier: Apache-2.0
// Constraints on attention schedules: device limits and operand layouts.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>

#include "codegen/families/attention/schedule/attention_schedule.h"

namespace sinter::codegen {

/// True if any schedule fits; otherwise `reason` says why not.
bool can_schedule_attention(const AttentionProgram& program, std::string& reason);

/// True if the schedule fits the kernel template: powers of two within its limits.
bool fits_kernel(const AttentionProgram& program, const DeviceModel& device,
                 const AttentionSchedule& schedule, const Ranges& ranges);

/// Shared memory limit of a block, in bytes.
std::uint32_t most_shared(const DeviceModel& device, const AttentionSchedule& schedule);

/// The largest power of two, up to 16 bytes, to which every row of the operands is aligned, in
/// elements.
int common_vector(std::initializer_list<const AttentionOperand*> operands);

/// Whether warpgroups can run it, within AttentionPipeline::kConsumerRegisters.
bool fits_warpgroups(const AttentionProgram& program, const DeviceModel& device,
                     const AttentionSchedule& schedule, const Ranges& ranges);

/// Whether a warp's rows can be the MMA's eight columns (SwappedRows).
bool fits_swapped(const AttentionProgram& program);

/// Rows of a warp if each token, or each head of dense queries, has few: 8 if that is enough.
int warp_rows_of_few(const AttentionProgram& program, const Ranges& ranges);

/// Whether blocks can compute the program's prologue: one block for each head's queries, and tiles
/// that warps do not share.
bool fits_prologue(const AttentionProgram& program, const AttentionSchedule& schedule);

/// Whether steps over a paged cache have so few tokens that one schedule takes them all. A row then
/// has the same bits whatever other tokens are in the step.
bool has_few_tokens(const AttentionProgram& program, const Ranges& ranges);

/// Most rows of a sequence of a paged cache for its next tokens, in one tile of
/// PagedSequences::kShort. 0 if a token alone has more, or if steps have few tokens and one kernel
/// takes all sequences.
int few_rows_of_sequence(const AttentionProgram& program, const Ranges& ranges);

/// Whether two adjacent keys of the mask are one aligned access.
bool mask_in_pairs(const AttentionProgram& program);

}  // namespace sinter::codegen
