// SPDX-License-Identifier: Apache-2.0
// Encoder outputs for a decoder's sequences: keys and values that steps only read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <sinter/devices.h>
#include <sinter/session.h>

#include "runtime/engine/executor.h"
#include "runtime/plan/serving.h"

namespace sinter::engine {

/// Memory for the plan's encoder inputs, on the plan's device. Each slot has the same number of
/// contiguous blocks.
class CrossCache {
 public:
  /// Binds the memory to the session, and must outlive its runs. `device`: a GPU; nullopt: the
  /// host.
  CrossCache(Session& session, const plan::ServingPlan& plan, int slots, std::optional<int> device);

  /// Replaces the contents of the slot. No run may be in flight.
  void set(int slot, const EncoderOutput& given);
  /// Number of encoder positions in the slot.
  int positions(int slot) const { return positions_[static_cast<std::size_t>(slot)]; }
  /// Writes the slot's block numbers into `row`, which has `columns` elements.
  void fill_row(int slot, std::int32_t* row, int columns) const;
  std::uint64_t bytes() const { return bytes_; }
  /// The inputs and sizes that a slot accepts.
  std::vector<CrossInput> limits() const;

 private:
  struct Given {
    CrossInput input;  // covers all slots
    std::vector<std::byte> host;
    std::optional<DeviceBuffer> device;
  };

  int blocks_ = 0, block_size_ = 0;  // of one slot
  std::uint64_t bytes_ = 0;
  std::vector<Given> given_;
  std::vector<int> positions_;  // by slot
};

}  // namespace sinter::engine
