// SPDX-License-Identifier: Apache-2.0
// A plan's weights on a GPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "graphs/memory.h"
#include "runtime/cuda/streaming/weight_schedule.h"
#include "runtime/plan/plan_data.h"

namespace sinter::runtime {

/// The units of a run of these steps, and the unit of each step.
struct RunUnits {
  WeightRun units;
  std::vector<std::size_t> unit_of;  // by step of the range
};

/// All weights in device memory. With a budget, some stay there and the others are in pinned host
/// memory, from which sessions stream them (weight_stream.h).
class DeviceWeights {
 public:
  /// Copies the weights. `budget` = 0: no limit. Throws Error(kUsage) for too small a budget, with
  /// the least that works, and Error(kOutOfMemory).
  DeviceWeights(graphs::ContextPtr context, const plan::PlanData& plan, std::uint64_t budget);

  /// Address of a buffer whose weight is resident; 0 for other buffers.
  CUdeviceptr address(std::size_t buffer) const;
  /// The streamed weight that contains a buffer, and the buffer's offset in it.
  struct Part {
    std::size_t weight = 0;
    std::uint64_t offset = 0;
  };
  std::optional<Part> streamed(std::size_t buffer) const;
  const std::vector<std::uint64_t>& sizes() const { return sizes_; }
  const WeightResidency& residency() const { return residency_; }
  const std::byte* host(std::size_t weight) const { return pinned_.data() + places_[weight]; }

  std::uint64_t device_bytes() const { return device_.size(); }
  std::uint64_t host_bytes() const { return pinned_.size(); }

  RunUnits units_of(const plan::fb::PlanT& meta, plan::StepRange steps) const;
  /// Overwrites the weights by those of `plan`, which differs only in their values. Waits.
  void write(const plan::PlanData& plan);

 private:
  void find_weights(const plan::fb::PlanT& meta);
  void place_under(const plan::PlanData& plan, std::uint64_t budget);

  graphs::ContextPtr context_;
  bool has_budget_ = false;
  // The plan's weight buffers; buffers that share bytes are parts of one weight.
  std::vector<std::uint64_t> offsets_, sizes_;  // by weight: in the plan's section
  std::vector<std::optional<Part>> parts_;      // by buffer
  WeightResidency residency_;
  std::vector<std::uint64_t> places_;  // by weight: offset in device_, or in pinned_ for streamed
                                       // weights
  graphs::DeviceMemory device_;
  graphs::PinnedMemory pinned_;
};

}  // namespace sinter::runtime
