// SPDX-License-Identifier: Apache-2.0
#include "codegen/families/attention/schedule/attention_fit.h"

#include <algorithm>

#include <fmt/format.h>

#include "codegen/emit/tensor_maps.h"

namespace sinter::codegen {
namespace {

// Limit for blocks without clusters and warpgroups, available on every architecture.
constexpr int kMostShared = 96 * 1024;
constexpr std::int64_t kLongestHead = 256;
constexpr std::int64_t kLongestFloat32Head = 128;
constexpr std::int64_t kLongestHeldQueries = 192;  // AttentionPipeline::kQueriesStay
constexpr std::int64_t kLeastWarpgroupHead = 40;   // below, tiles are mostly padding

/// Minimum registers of a lane: scores, weights, results, queries and mask.
int registers_by_warpgroups(const AttentionProgram& program, const AttentionSchedule& schedule) {
  const bool stay = schedule.queries > 1 || program.eight_bit || program.head > kLongestHeldQueries;
  const int others = stay ? 32 : 40;
  int mask = 0;
  if (program.mask && program.mask->dtype != DType::kBool && program.mask->column != Dim(0))
    mask = schedule.keys / 4 * (program.mask->row == Dim(0) ? 1 : 2) *
           static_cast<int>(size_of(program.mask->dtype)) / 4;
  const int heads = static_cast<int>(program.value_head / 2 * (program.promoted ? 2 : 1) +
                                     (stay ? 0 : (program.head + 15) / 16 * 4));
  return schedule.keys / 2 + schedule.keys / (program.eight_bit ? 8 : 4) + heads + mask + others;
}

/// Whether attention_float32.cuh takes the schedule. A thread's sums of 8 rows fill its registers
/// with 64 value columns.
bool fits_float32(const AttentionProgram& program, const DeviceModel& device,
                  const AttentionSchedule& s) {
  return s.row_warps == 4 && s.key_groups == 1 && (s.keys == 32 || s.keys == 64) &&
         (s.warp_rows == 16 || (s.warp_rows == 32 && program.value_head <= 64)) && s.ahead == 1 &&
         s.splits == 1 && s.stages == 0 && s.queries == 1 && s.tma == 0 && s.blocks == 0 &&
         s.turns == 0 && s.at_once == 0 &&
         attention_shared_bytes(program, s) <=
             static_cast<std::uint32_t>(device.block_shared_bytes);
}

/// Whether a token's rows, from heads that share their keys, are aligned to `vector`.
bool members_fit(const AttentionProgram& program, int vector) {
  return !program.tables || (ir::is_multiple_of(program.q_member, vector) &&
                             ir::is_multiple_of(program.y_member, vector));
}

/// Whether TMA can copy a tile of a paged cache block by block.
bool fits_table_boxes(const AttentionProgram& program, const AttentionSchedule& schedule,
                      const Ranges& ranges) {
  if (!program.tables || program.key_scales || program.batch.size() > kMostMappedBatch)
    return false;
  std::vector<Dim> sizes = program.batch;
  sizes.push_back(program.keys);
  // A box has whole groups of eight rows and 128-byte lines.
  const std::int64_t rows = std::min<std::int64_t>(program.block, schedule.keys);
  return rows % 8 == 0 && schedule.keys % rows == 0 && program.block % rows == 0 &&
         program.head % kBoxColumns == 0 && program.value_head % kBoxColumns == 0 &&
         !ir::is_from_data(sizes, ranges);
}

}  // namespace

std::uint32_t most_shared(const DeviceModel& device, const AttentionSchedule& schedule) {
  const bool all = schedule.splits > 1 || schedule.by_warpgroups();
  return static_cast<std::uint32_t>(all ? device.block_shared_bytes
                                        : std::min(kMostShared, device.block_shared_bytes));
}

int common_vector(std::initializer_list<const AttentionOperand*> operands) {
  int vector = 1;
  for (const AttentionOperand* operand : operands)
    vector = std::max(vector, 16 / static_cast<int>(size_of(operand->dtype)));
  const auto fits = [&](const Dim& dim) { return ir::is_multiple_of(dim, vector); };
  for (const AttentionOperand* operand : operands)
    while (vector > 1 && !(fits(operand->offset) && fits(operand->row) &&
                           std::ranges::all_of(operand->batch, fits)))
      vector /= 2;
  return vector;
}

bool fits_warpgroups(const AttentionProgram& program, const DeviceModel& device,
                     const AttentionSchedule& schedule, const Ranges& ranges) {
  if (!device.has_wgmma) return false;
  if (program.eight_bit && kEightBitKeys % schedule.keys != 0) return false;
  if (schedule.tma > 0 && !fits_table_boxes(program, schedule, ranges)) return false;
  const int operand_vector = program.eight_bit ? 16 : 8;
  const auto fits = [](std::int64_t head) { return head >= kLeastWarpgroupHead && head % 8 == 0; };
  const bool known = schedule.keys == 64 || schedule.keys == 96 || schedule.keys == 128;
  return fits(program.head) && fits(program.value_head) && known &&
         common_vector({&program.q}) == operand_vector &&
         common_vector({&program.k, &program.v}) == (program.key_scales ? 16 : operand_vector) &&
         common_vector({&program.y}) >= 8 && members_fit(program, 8) && schedule.warp_rows == 16 &&
         schedule.key_groups == 1 && schedule.splits == 1 && schedule.ahead == 1 &&
         schedule.turns == 0 && schedule.queries <= 2 && schedule.row_warps % 4 == 0 &&
         schedule.row_warps <= 12 &&
         registers_by_warpgroups(program, schedule) <= (schedule.row_warps == 12  ? 160
                                                        : schedule.row_warps == 8 ? 232
                                                                                  : 216) &&
         attention_shared_bytes(program, schedule) <=
             most_shared(device, schedule) / static_cast<std::uint32_t>(schedule.blocks_at_once());
}

bool fits_swapped(const AttentionProgram& program) {
  return !program.mask && program.head % 16 == 0 && program.value_head % 16 == 0;
}

int warp_rows_of_few(const AttentionProgram& program, const Ranges& ranges) {
  const Dim rows = program.bounds ? Dim(program.group) : program.rows;
  const auto most = ir::upper_bound(rows, ranges);
  return fits_swapped(program) && most && *most <= 8 ? 8 : 16;
}

bool fits_prologue(const AttentionProgram& program, const AttentionSchedule& schedule) {
  const bool is_whole = program.head % 8 == 0 && program.value_head % 8 == 0;
  return !program.front || (is_whole && schedule.row_warps == 1 && schedule.warp_rows <= 16 &&
                            schedule.ahead == 1 && !schedule.by_warpgroups());
}

bool has_few_tokens(const AttentionProgram& program, const Ranges& ranges) {
  constexpr std::int64_t kFewTokens = 16;
  const auto most = ir::upper_bound(program.rows, ranges);
  return program.bounds && program.tables && most && *most <= kFewTokens;
}

int few_rows_of_sequence(const AttentionProgram& program, const Ranges& ranges) {
  if (has_few_tokens(program, ranges)) return 0;
  const int few = warp_rows_of_few(program, ranges);
  return program.bounds && program.tables && program.group <= few ? few : 0;
}

bool mask_in_pairs(const AttentionProgram& program) {
  return program.mask && program.mask->column == Dim(1) && ir::is_multiple_of(program.keys, 2) &&
         common_vector({&*program.mask}) > 1;
}

bool fits_kernel(const AttentionProgram& program, const DeviceModel& device,
                 const AttentionSchedule& schedule, const Ranges& ranges) {
  if (!fits_prologue(program, schedule)) return false;
  if (!(program.bounds && program.tables) && (schedule.least_rows > 0 || schedule.most_rows > 0))
    return false;
  if (program.is_float32()) return fits_float32(program, device, schedule);
  if (schedule.by_warpgroups()) return fits_warpgroups(program, device, schedule, ranges);
  if (program.eight_bit) return false;
  return schedule.threads() <= 512 && schedule.keys % 16 == 0 && schedule.keys <= 128 &&
         (!schedule.swapped() || (fits_swapped(program) && schedule.key_groups > 1)) &&
         schedule.splits <= std::min(16, device.cluster_blocks) && schedule.ahead <= 8 &&
         (schedule.splits == 1 || schedule.key_groups > 1) &&
         (schedule.ahead == 1 || schedule.row_warps == 1) && schedule.queries == 1 &&
         schedule.tma == 0 && (schedule.turns == 0 || (program.tables && schedule.splits == 1)) &&
         (schedule.splits == 1 || !program.bounds || program.tables) && schedule.blocks == 0 &&
         reserved_shared_bytes(program, schedule, device) <= most_shared(device, schedule);
}

bool can_schedule_attention(const AttentionProgram& program, std::string& reason) {
  const auto refuse = [&](std::string why) {
    reason = std::move(why);
    return false;
  };
  if (program.is_float32()) {
    if (program.mask || program.limits || program.bounds || program.tables || program.key_scales ||
        program.front)
      return refuse("float32 has no masks, limits, sequences, caches of 8 bits or prologues");
    if (program.head % 8 != 0 || program.value_head % 32 != 0 ||
        std::max(program.head, program.value_head) > kLongestFloat32Head)
      return refuse(fmt::format("float32 heads of {} and {} are no multiples of 8 and 32 up to {}",
                                program.head, program.value_head, kLongestFloat32Head));
  } else if (program.dtype != DType::kFloat16 && program.dtype != DType::kBFloat16) {
    return refuse(fmt::format("its type is {}, not f16, bf16 or f32", to_string(program.dtype)));
  }
  for (const std::int64_t head : {program.head, program.value_head})
    if (head < 1 || head > kLongestHead)
      return refuse(fmt::format("head dimension {} is above {}", head, kLongestHead));
  if (program.eight_bit) {
    if (program.head % 16 != 0 || program.value_head % 16 != 0 || program.head < 48 ||
        program.head > 128 || program.value_head < 48 || program.value_head > 128)
      return refuse(
          fmt::format("heads of {} and {} of 8 bits are no multiples of 16 from 48 to 128",
                      program.head, program.value_head));
    if (common_vector({&program.q, &program.k, &program.v}) != 16)
      return refuse("rows of 8 bits do not begin at multiples of 16 bytes");
    if (common_vector({&program.y}) < 8)
      return refuse("rows of the result do not begin at multiples of 8 elements");
    if (program.front || program.limits || program.bounds)
      return refuse("operands of 8 bits have no limits, sequences or queries made by the kernel");
  }
  if (program.key_scales) {
    if (program.head % 16 != 0 || program.value_head % 16 != 0)
      return refuse(fmt::format("heads of {} and {} with caches of 8 bits are no multiples of 16",
                                program.head, program.value_head));
    if (common_vector({&program.k, &program.v}) < 4)
      return refuse("rows of 8 bits do not begin at multiples of 4 bytes");
  }
  if (program.y.dtype != program.dtype && !program.rounding)
    return refuse("the result has another type");
  if (program.mask && program.mask->dtype != DType::kBool && size_of(program.mask->dtype) > 4)
    return refuse("the mask is float64");
  return true;
}

}  // namespace sinter::codegen
