// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <tuple>

#include <fmt/format.h>
#include <sinter/error.h>

#include "codegen/families/recurrent/recurrent_lowering.h"

namespace sinter::codegen {
namespace {

constexpr int kTileUnits = 4, kDepth = 32;
constexpr int kHeldRegisters = 8;  // per thread, for 32 weights of 16 bits of each of 16 rows
// Per thread, besides weights: with eight columns, and for each eight more.
constexpr int kOtherRegisters = 84, kColumnRegisters = 24;
constexpr int kFloatRegisters = 16;  // more for float32, for each eight columns: partial sums
constexpr int kMostRegisters = 255, kRegisterStep = 8;
constexpr int kStagedBytes = 1024;  // a warp's weights of 16 bits of one block, in shared memory
constexpr int kMostWarps = 16;
constexpr int kBestWarps = 8;  // more on one multiprocessor compete for its tensor cores
constexpr int kColumns[] = {8, 16, 32};

int tiles_of(std::int64_t units) { return static_cast<int>((units + kTileUnits - 1) / kTileUnits); }
int depth_of(std::int64_t units) { return static_cast<int>((units + kDepth - 1) / kDepth); }

}  // namespace

std::string RecurrentSchedule::to_string() const {
  return fmt::format("recurrent cluster={} warps={} held={} columns={}", blocks, warps, held,
                     columns);
}

std::uint32_t recurrent_shared_bytes(const RecurrentLayer& layer,
                                     const RecurrentSchedule& schedule) {
  const int depth = depth_of(layer.units), words = layer.words();
  const int column = depth * 64 * words + (words == 1 && depth % 2 == 0 ? 64 : 0);
  return static_cast<std::uint32_t>(
      2 * schedule.columns * column +
      (depth - schedule.held) * schedule.warps * words * kStagedBytes + 16);
}

std::vector<RecurrentSchedule> recurrent_schedules(const RecurrentLayer& layer, int columns,
                                                   const DeviceModel& device) {
  std::vector<RecurrentSchedule> all;
  const int tiles = tiles_of(layer.units), depth = depth_of(layer.units);
  const int tile_columns = columns / kColumns[0];
  for (int blocks = 1; blocks <= device.cluster_blocks && device.has_clusters(); blocks *= 2) {
    RecurrentSchedule schedule;
    schedule.blocks = blocks;
    schedule.columns = columns;
    schedule.warps = (tiles + blocks - 1) / blocks;
    if (schedule.warps > kMostWarps) continue;
    // Registers are allocated to whole warps, in steps.
    const std::int64_t most =
        std::min<std::int64_t>(device.registers / schedule.threads(), kMostRegisters + 1);
    const int registers = static_cast<int>(most) / kRegisterStep * kRegisterStep;
    const int other = kOtherRegisters + (tile_columns - 1) * kColumnRegisters +
                      (layer.words() > 1 ? tile_columns * kFloatRegisters : 0);
    schedule.held = std::clamp((registers - other) / (kHeldRegisters * layer.words()), 0, depth);
    if (recurrent_shared_bytes(layer, schedule) <=
        static_cast<std::uint32_t>(device.block_shared_bytes))
      all.push_back(schedule);
    if (schedule.warps == 1) break;
  }
  // Prefer all weights in registers, then few warps, then small clusters.
  std::ranges::stable_sort(all, {}, [&](const RecurrentSchedule& s) {
    return std::tuple(depth - s.held, std::max(s.warps, kBestWarps), s.blocks);
  });
  return all;
}

std::vector<RecurrentSchedule> choose_recurrent(const RecurrentProgram& program, ExprTable& exprs,
                                                const DeviceModel& device,
                                                const std::string& forced) {
  std::vector<RecurrentSchedule> rules;
  std::string known;
  const auto least = ir::lower_bound(program.batch, exprs.ranges());
  const auto most = ir::upper_bound(program.batch, exprs.ranges());
  bool is_last_unused = false;  // its condition never holds: it stands in for the last rule
  for (const int columns : kColumns) {
    const auto all = recurrent_schedules(program.layer(), columns, device);
    for (const RecurrentSchedule& schedule : all) {
      if (schedule.to_string() == forced) return {schedule};
      known += "\n  " + schedule.to_string();
    }
    if (all.empty() || (!rules.empty() && rules.back().conditions.empty())) continue;
    // More sequences for each cluster if not all clusters would be resident.
    RecurrentSchedule rule = all[0];
    const std::int64_t clusters =
        std::max(1, device.clustered_multiprocessors / (rule.blocks * program.directions));
    const std::int64_t at_once = columns * clusters;
    if (!most || *most > at_once)
      rule.conditions.emplace_back(exprs.intern(program.batch), 1, at_once);
    if (is_last_unused) rules.pop_back();
    is_last_unused = least && *least > at_once;
    rules.push_back(std::move(rule));
  }
  if (!forced.empty())
    throw Error(ErrorCode::kUnsupported,
                fmt::format("schedule '{}' is none of a layer of {} units on {}:{}", forced,
                            program.units, device.architecture, known));
  if (rules.empty())
    throw Error(ErrorCode::kUnsupported,
                fmt::format("the weights of a recurrent layer of {} units do not fit on chip on {}",
                            program.units, device.architecture));
  rules.back().conditions.clear();
  return rules;
}

}  // namespace sinter::codegen
