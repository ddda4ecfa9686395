// SPDX-License-Identifier: Apache-2.0
// Which steps of a plan may run at once, and on which streams. No CUDA.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sinter::runtime {

/// Device memory [begin, end).
struct MemoryRange {
  std::uint64_t begin = 0, end = 0;
};

/// What a step reads and writes, scratch memory among it.
struct StepMemory {
  std::vector<MemoryRange> reads, writes;
};

/// Where a step is put.
struct StepPlace {
  std::size_t stream = 0;
  std::vector<std::size_t> waits;  // steps on other streams that it starts behind
  bool follows = false;            // its stream has a step before it
};

/// Puts steps, which are in an order in which they may run, on at most `streams` streams, so that
/// those neither of which writes what the other reads or writes wait for each other only where
/// streams are short. A step goes on where the last one that it needs is; the first is on stream 0.
std::vector<StepPlace> place_steps(std::span<const StepMemory> steps, std::size_t streams);

/// Whether all are on one stream.
bool one_after_another(std::span<const StepPlace> places);

}  // namespace sinter::runtime
