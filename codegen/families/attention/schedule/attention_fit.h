// What schedules of attention have to fit: a GPU, and how operands lie.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>

#include "codegen/families/attention/schedule/attention_schedule.h"

namespace sinter::codegen {

/// True if there is a schedule; else `reason` says why not.
bool can_schedule_attention(const AttentionProgram& program, std::string& reason);

/// True if a kernel can be made of it: powers of two up to what the template takes.
bool fits_kernel(const AttentionProgram& program, const DeviceModel& device,
                 const AttentionSchedule& schedule, const Ranges& ranges);

/// Bytes of shared memory that its blocks may use.
std::uint32_t most_shared(const DeviceModel& device, const AttentionSchedule& schedule);

/// The most elements of up to 16 bytes (a power of two) of which every row of the operands starts
/// at a multiple.
int common_vector(std::initializer_list<const AttentionOperand*> operands);

/// Whether warpgroups can do it, in the registers of AttentionPipeline::kConsumerRegisters.
bool fits_warpgroups(const AttentionProgram& program, const DeviceModel& device,
                     const AttentionSchedule& schedule, const Ranges& ranges);

/// Whether eight rows of a warp may be the columns of products (SwappedRows).
bool fits_swapped(const AttentionProgram& program);

/// Rows of a warp where each token, or each head of dense queries, has few: 8 if those are all.
int warp_rows_of_few(const AttentionProgram& program, const Ranges& ranges);

/// Whether blocks can make what the program has in front: one for each head's queries, warps with
/// tiles of their own.
bool fits_prologue(const AttentionProgram& program, const AttentionSchedule& schedule);

/// Whether steps over a paged cache have so few tokens that one schedule takes them all. A row then
/// has the same bits whatever tokens are beside it, its own sequence's or others'.
bool has_few_tokens(const AttentionProgram& program, const Ranges& ranges);

/// Rows that a sequence of a paged cache has at most for its next tokens: those of one tile of
/// PagedSequences::kShort. 0: a token has more, or there are few tokens, and all sequences are one
/// kernel's.
int few_rows_of_sequence(const AttentionProgram& program, const Ranges& ranges);

/// Whether two neighbouring keys of the mask are one aligned access.
bool mask_in_pairs(const AttentionProgram& program);

}  // namespace sinter::codegen
