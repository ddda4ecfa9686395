// SPDX-License-Identifier: Apache-2.0
// Finds steps of a plan that may run concurrently, and assigns streams. No CUDA.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sinter::runtime {

/// A range [begin, end) of device memory.
struct MemoryRange {
  std::uint64_t begin = 0, end = 0;
};

/// Memory that a step reads and writes, scratch included.
struct StepMemory {
  std::vector<MemoryRange> reads, writes;
};

/// The placement of a step.
struct StepPlace {
  std::size_t stream = 0;
  std::vector<std::size_t> waits;  // steps on other streams for which it waits
  bool follows = false;            // its stream has an earlier step
};

/// Assigns steps, given in a valid order, to at most `streams` streams. Independent steps (neither
/// writes what the other reads or writes) wait for each other only if streams run out. A step stays
/// on the stream of the latest step that it depends on; the first is on stream 0.
std::vector<StepPlace> place_steps(std::span<const StepMemory> steps, std::size_t streams);

/// Whether all steps are on one stream.
bool one_after_another(std::span<const StepPlace> places);

}  // namespace sinter::runtime
