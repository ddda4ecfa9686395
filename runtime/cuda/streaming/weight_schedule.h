// SPDX-License-Identifier: Apache-2.0
// Which weights stay in device memory under a budget, and when and where to the others are copied.
// No CUDA.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace sinter::runtime {

/// What reads weights: a step, or a loop or branch with its bodies. Each weight is there once.
using WeightUnit = std::vector<std::size_t>;
/// The units of a run, in order.
using WeightRun = std::vector<WeightUnit>;

/// Weights are numbered; what one takes in memory is a multiple of 256.
constexpr std::uint64_t room_for(std::uint64_t bytes) {
  constexpr std::uint64_t kAlignment = 256;
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

struct WeightResidency {
  std::vector<bool> is_streamed;
  /// Bytes of each of the ring's two halves; no unit reads more streamed ones. 0: none is streamed.
  std::uint64_t half = 0;
  std::uint64_t resident_bytes = 0, streamed_bytes = 0;

  std::uint64_t ring_bytes() const { return 2 * half; }
};

/// The least budget that choose_resident takes; all of the weights that are read, if that is less.
std::uint64_t least_weight_budget(std::span<const std::uint64_t> bytes,
                                  std::span<const WeightRun> runs);

/// For weights of these sizes and the runs that a plan can have: resident weights and the ring
/// together take at most `budget` bytes, and as little as possible is streamed. Weights read
/// several times in a run stay resident, as do small ones. Of the rest, resident weights are spread
/// evenly over the run, so that copies overlap with computation. Nothing if the budget is too
/// small.
std::optional<WeightResidency> choose_resident(std::span<const std::uint64_t> bytes,
                                               std::span<const WeightRun> runs,
                                               std::uint64_t budget);

/// One copy of a weight into the ring.
struct WeightCopy {
  static constexpr std::size_t kStart = SIZE_MAX;

  std::size_t weight = 0;
  std::uint64_t place = 0;      // in the ring
  std::size_t unit = 0;         // the first that reads it
  std::size_t behind = kStart;  // the unit that must have ended before; kStart: none
};

/// The copies of a run, in the order in which they are put on a stream of their own. A copy starts
/// when the one before it and the unit `behind` have ended, a unit when its copies have. Then each
/// unit reads what it is to read.
struct WeightSchedule {
  std::vector<WeightCopy> copies;
  std::vector<std::vector<std::size_t>> copies_of;  // by unit: those that it reads

  std::uint64_t bytes(std::span<const std::uint64_t> bytes) const;
};

/// Double buffering: batches of neighbouring units' weights alternate between two halves. While
/// units read one half, copies fill the other.
WeightSchedule schedule_copies(std::span<const std::uint64_t> bytes, const WeightRun& run,
                               const WeightResidency& residency);

}  // namespace sinter::runtime
