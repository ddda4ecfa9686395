// SPDX-License-Identifier: Apache-2.0
// Weights under a memory budget: which stay in device memory, and when and where the others are
// copied. No CUDA.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace sinter::runtime {

/// The weights of a unit of execution: a step, or a loop or branch with its bodies. Without
/// duplicates.
using WeightUnit = std::vector<std::size_t>;
/// The units of a run, in order.
using WeightRun = std::vector<WeightUnit>;

/// Room for a weight: its size rounded up to a multiple of 256.
constexpr std::uint64_t room_for(std::uint64_t bytes) {
  constexpr std::uint64_t kAlignment = 256;
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

struct WeightResidency {
  std::vector<bool> is_streamed;
  /// Bytes of each half of the ring; no unit reads more streamed bytes. 0: nothing is streamed.
  std::uint64_t half = 0;
  std::uint64_t resident_bytes = 0, streamed_bytes = 0;

  std::uint64_t ring_bytes() const { return 2 * half; }
};

/// The smallest budget that choose_resident accepts, at most the size of all weights that are read.
std::uint64_t least_weight_budget(std::span<const std::uint64_t> bytes,
                                  std::span<const WeightRun> runs);

/// Chooses resident and streamed weights for all possible runs of a plan. Resident weights and the
/// ring take at most `budget` bytes, and as few bytes as possible are streamed. Weights read
/// several times in a run, and small ones, stay resident first. The remaining resident weights are
/// spread evenly over the run, so that copies overlap with computation. Nullopt if the budget is
/// too small.
std::optional<WeightResidency> choose_resident(std::span<const std::uint64_t> bytes,
                                               std::span<const WeightRun> runs,
                                               std::uint64_t budget);

/// One copy of a weight into the ring.
struct WeightCopy {
  static constexpr std::size_t kStart = SIZE_MAX;

  std::size_t weight = 0;
  std::uint64_t place = 0;      // offset in the ring
  std::size_t unit = 0;         // the first unit that reads it
  std::size_t behind = kStart;  // the unit that must end before; kStart: none
};

/// The copies of a run, in the order of their own stream. A copy waits for the previous copy and
/// for the unit `behind`; a unit waits for its copies. This guarantees that each unit reads its own
/// weights.
struct WeightSchedule {
  std::vector<WeightCopy> copies;
  std::vector<std::vector<std::size_t>> copies_of;  // by unit: the copies that it reads

  std::uint64_t bytes(std::span<const std::uint64_t> bytes) const;
};

/// Double buffering: batches of consecutive units' weights alternate between two halves. Units read
/// one half while copies fill the other.
WeightSchedule schedule_copies(std::span<const std::uint64_t> bytes, const WeightRun& run,
                               const WeightResidency& residency);

}  // namespace sinter::runtime
