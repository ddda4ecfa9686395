// SPDX-License-Identifier: Apache-2.0
#include "codegen/families/attention/attention_maps.h"

#include <algorithm>

#include <fmt/format.h>

namespace sinter::codegen {
namespace {

/// Bit mask of the batch dimensions in which the operand is broadcast.
unsigned shared_dimensions(const AttentionOperand& operand) {
  unsigned bits = 0;
  for (std::size_t axis = 0; axis < operand.batch.size(); ++axis)
    if (operand.batch[axis] == Dim(0)) bits |= 1u << axis;
  return bits;
}

}  // namespace

bool copies_by_engine(const AttentionProgram& program, const AttentionSchedule& schedule,
                      const ExprTable& exprs) {
  if (schedule.tma) return true;  // its fit was checked before
  std::vector<Dim> sizes = program.batch;
  sizes.insert(sizes.end(), {program.rows, program.keys});
  return schedule.by_warpgroups() && program.head % kBoxColumns == 0 &&
         program.value_head % kBoxColumns == 0 && program.batch.size() <= kMostMappedBatch &&
         !program.limits && !program.bounds && !program.key_scales && !program.eight_bit &&
         !ir::is_from_data(sizes, exprs.ranges());
}

std::vector<MapParameter> maps_of(const AttentionProgram& program,
                                  const AttentionSchedule& schedule, ExprTable& exprs) {
  if (!copies_by_engine(program, schedule, exprs)) return {};
  const auto map = [&](const char* name, const AttentionOperand& operand, std::int64_t width,
                       const Dim& rows, int tile_rows) {
    return matrix_map(name,
                      {program.buffers[operand.buffer], operand.offset, width, rows, operand.row,
                       program.batch, operand.batch},
                      tile_rows, exprs);
  };
  if (schedule.tma) {
    const int rows = std::min(static_cast<int>(program.block), schedule.keys);
    return {map("map_k", program.k, program.head, program.keys, rows),
            map("map_v", program.v, program.value_head, program.keys, rows)};
  }
  return {map("map_q", program.q, program.head, program.rows, schedule.rows()),
          map("map_k", program.k, program.head, program.keys, schedule.keys),
          map("map_v", program.v, program.value_head, program.keys, schedule.keys)};
}

std::string maps_text(const AttentionProgram& program) {
  if (program.tables)
    return fmt::format("PagedMaps<{}>{{&map_k, &map_v, {}, {}}}", program.batch.size() + 2,
                       shared_dimensions(program.k), shared_dimensions(program.v));
  return fmt::format("AttentionMaps<{}>{{&map_q, &map_k, &map_v, {}, {}, {}}}",
                     program.batch.size() + 2, shared_dimensions(program.q),
                     shared_dimensions(program.k), shared_dimensions(program.v));
}

}  // namespace sinter::codegen
