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

/// The units of a run of these steps, and to which of them each step belongs.
struct RunUnits {
  WeightRun units;
  std::vector<std::size_t> unit_of;  // by step of the range
};

/// All weights in device memory; or, with a budget, as many as stay, and the others in pinned host
/// memory, from where sessions copy them (weight_stream.h).
class DeviceWeights {
 public:
  /// Copies them. `budget` of 0: no limit. Throws Error(kUsage) for a budget that is too small,
  /// with the least that works, Error(kOutOfMemory).
  DeviceWeights(graphs::ContextPtr context, const plan::PlanData& plan, std::uint64_t budget);

  /// Of a buffer whose weight is resident; 0 for others.
  CUdeviceptr address(std::size_t buffer) const;
  /// The weight that a buffer is (part of), if that is streamed, and where in it the buffer begins.
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
  /// Copies those of `plan`, which differs in nothing but their values, to where they are. Waits.
  void write(const plan::PlanData& plan);

 private:
  void find_weights(const plan::fb::PlanT& meta);
  void place_under(const plan::PlanData& plan, std::uint64_t budget);

  graphs::ContextPtr context_;
  bool has_budget_ = false;
  // Of the plan's buffers those that are weights; buffers that share bytes are parts of one.
  std::vector<std::uint64_t> offsets_, sizes_;  // by weight: in the plan's section
  std::vector<std::optional<Part>> parts_;      // by buffer
  WeightResidency residency_;
  std::vector<std::uint64_t> places_;  // by weight: in device_, or of streamed ones in pinned_
  graphs::DeviceMemory device_;
  graphs::PinnedMemory pinned_;
};

}  // namespace sinter::runtime
