// SPDX-License-Identifier: Apache-2.0
// Copies of weights that a session's runs need, ahead of the steps that read them.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "graphs/memory.h"
#include "graphs/stream.h"
#include "runtime/cuda/control/control_flow.h"
#include "runtime/cuda/launch_list.h"
#include "runtime/cuda/streaming/device_weights.h"

namespace sinter::runtime {

/// The copies of one bound run.
struct StreamedRun {
  WeightSchedule schedule;
  std::vector<std::size_t> unit_of;  // by step of the run
  std::uint64_t bytes = 0;           // of all copies
  // By unit, where something waits for them: its copies have ended; it has.
  std::vector<std::optional<graphs::Event>> copied, ended;
  std::optional<graphs::Event> start;
};

/// A session's ring of weights and the stream that fills it. Without streamed weights it does
/// nothing.
class WeightStream final : public AroundSteps {
 public:
  /// `weights` outlives this.
  WeightStream(graphs::ContextPtr context, const DeviceWeights& weights,
               graphs::DeviceAllocatorPtr allocator);

  bool is_used() const { return stream_.has_value(); }
  std::uint64_t ring_bytes() const { return ring_.size(); }
  /// Null if nothing is streamed.
  std::unique_ptr<StreamedRun> plan_run(const plan::fb::PlanT& meta, plan::StepRange steps) const;

  /// Sets the addresses of weights that step `step` of the run reads.
  void set_addresses(const StreamedRun& run, const plan::fb::PlanT& meta, plan::StepRange steps,
                     std::size_t step, BufferAddresses& buffers) const;
  /// Puts the copies of a unit on `stream` itself: to time its steps alone, unit after unit.
  void load(const StreamedRun& run, std::size_t unit, CUstream stream) const;
  /// How many copies that are.
  static std::size_t copies_for(const StreamedRun& run, std::size_t unit);

  /// From here on a run is put on `stream`, of which before() and after() are told: its copies go
  /// on a stream of their own, which begins behind what is on `stream` now. All have joined it when
  /// the last step has been put.
  void begin(const StreamedRun& run, CUstream stream);
  bool before(std::size_t step, CUstream stream) override;
  void after(std::size_t step, CUstream stream) override;

 private:
  void put(const WeightCopy& copy, CUstream stream) const;

  graphs::ContextPtr context_;
  const DeviceWeights& weights_;
  graphs::DeviceMemory ring_;
  std::optional<graphs::Stream> stream_;
  // Of the run that is being put.
  const StreamedRun* run_ = nullptr;
  std::size_t next_ = 0;                     // copy
  std::size_t waited_ = WeightCopy::kStart;  // the last unit that copies wait for
};

}  // namespace sinter::runtime
