// SPDX-License-Identifier: Apache-2.0
// What an encoder gave to the sequences of a decoder: keys and values that no step changes.
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

/// Inputs of the plan, in memory where it runs: each slot has as many blocks, side by side.
class CrossCache {
 public:
  /// Gives the session its memory, and must outlive its runs. On a GPU unless `device` is nothing.
  CrossCache(Session& session, const plan::ServingPlan& plan, int slots, std::optional<int> device);

  /// Takes the place of what the slot had. No run may be in flight.
  void set(int slot, const EncoderOutput& given);
  /// Encoder positions that the slot holds.
  int positions(int slot) const { return positions_[static_cast<std::size_t>(slot)]; }
  /// Writes the slot's block numbers into `row`, which has `columns` elements.
  void fill_row(int slot, std::int32_t* row, int columns) const;
  std::uint64_t bytes() const { return bytes_; }
  /// What can be given to a slot.
  std::vector<CrossInput> limits() const;

 private:
  struct Given {
    CrossInput input;  // of all slots
    std::vector<std::byte> host;
    std::optional<DeviceBuffer> device;
  };

  int blocks_ = 0, block_size_ = 0;  // of a slot
  std::uint64_t bytes_ = 0;
  std::vector<Given> given_;
  std::vector<int> positions_;  // by slot
};

}  // namespace sinter::engine
