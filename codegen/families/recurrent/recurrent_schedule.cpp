#include <algorithm>
#include <tuple>

#include <fmt/format.h>
#include <sinter/error.h>

#include "codegen/families/recurrent/recurrent_lowering.h"

namespace sinter::codegen {
namespace {

constexpr int kTileUnits = 4, kDepth = 32, kColumns = 8;
constexpr int kHeldRegisters = 8;    // of a thread, for 32 weights of each of 16 rows
constexpr int kOtherRegisters = 84;  // of a thread beside weights
constexpr int kMostRegisters = 255, kRegisterStep = 8;
constexpr int kStagedBytes = 1024;  // the same weights of a warp in shared memory
constexpr int kMostWarps = 16;
constexpr int kBestWarps = 8;  // more on one multiprocessor wait for each other's products

int tiles_of(std::int64_t units) { return static_cast<int>((units + kTileUnits - 1) / kTileUnits); }
int depth_of(std::int64_t units) { return static_cast<int>((units + kDepth - 1) / kDepth); }

}  // namespace

std::string RecurrentSchedule::to_string() const {
  return fmt::format("recurrent cluster={} warps={} held={}", blocks, warps, held);
}

std::uint32_t recurrent_shared_bytes(std::int64_t units, const RecurrentSchedule& schedule) {
  const int depth = depth_of(units);
  const int column = depth * 64 + (depth % 2 == 0 ? 64 : 0);
  return static_cast<std::uint32_t>(2 * kColumns * column +
                                    (depth - schedule.held) * schedule.warps * kStagedBytes + 16);
}

std::vector<RecurrentSchedule> recurrent_schedules(std::int64_t units, const DeviceModel& device) {
  std::vector<RecurrentSchedule> all;
  const int tiles = tiles_of(units), depth = depth_of(units);
  for (int blocks = 1; blocks <= device.cluster_blocks && device.has_clusters(); blocks *= 2) {
    RecurrentSchedule schedule;
    schedule.blocks = blocks;
    schedule.warps = (tiles + blocks - 1) / blocks;
    if (schedule.warps > kMostWarps) continue;
    // Registers are given to whole warps in steps.
    const auto registers = static_cast<int>(std::min<std::int64_t>(
                               device.registers / schedule.threads(), kMostRegisters + 1)) /
                           kRegisterStep * kRegisterStep;
    schedule.held = std::clamp((registers - kOtherRegisters) / kHeldRegisters, 0, depth);
    if (recurrent_shared_bytes(units, schedule) >
        static_cast<std::uint32_t>(device.block_shared_bytes))
      continue;
    all.push_back(schedule);
    if (schedule.warps == 1) break;
  }
  // All weights in registers, then few warps, then few blocks to send to.
  std::ranges::stable_sort(all, {}, [&](const RecurrentSchedule& s) {
    return std::tuple(depth - s.held, std::max(s.warps, kBestWarps), s.blocks);
  });
  return all;
}

RecurrentSchedule parse_recurrent(const std::string& text, std::int64_t units,
                                  const DeviceModel& device) {
  std::string known;
  for (const RecurrentSchedule& schedule : recurrent_schedules(units, device)) {
    if (schedule.to_string() == text) return schedule;
    known += "\n  " + schedule.to_string();
  }
  throw Error(ErrorCode::kUnsupported,
              fmt::format("schedule '{}' is none of a layer of {} units on {}:{}", text, units,
                          device.architecture, known));
}

}  // namespace sinter::codegen
