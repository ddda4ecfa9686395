// SPDX-License-Identifier: Apache-2.0
// Prefetches the streamed weights of a session's runs.
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
  std::uint64_t bytes = 0;           // sum over all copies
  // Events by unit, where something waits for them: its copies have ended; the unit has ended.
  std::vector<std::optional<graphs::Event>> copied, ended;
  std::optional<graphs::Event> start;
};

/// A session's ring of streamed weights and the stream that fills it. No effect if nothing is
/// streamed.
class WeightStream final : public AroundSteps {
 public:
  /// `weights` must outlive this.
  WeightStream(graphs::ContextPtr context, const DeviceWeights& weights,
               graphs::DeviceAllocatorPtr allocator);

  bool is_used() const { return stream_.has_value(); }
  std::uint64_t ring_bytes() const { return ring_.size(); }
  /// Null if nothing is streamed.
  std::unique_ptr<StreamedRun> plan_run(const plan::fb::PlanT& meta, plan::StepRange steps) const;

  /// Sets the addresses of the weights that step `step` of the run reads.
  void set_addresses(const StreamedRun& run, const plan::fb::PlanT& meta, plan::StepRange steps,
                     std::size_t step, BufferAddresses& buffers) const;
  /// Enqueues a unit's copies on `stream` itself, to time steps unit by unit.
  void load(const StreamedRun& run, std::size_t unit, CUstream stream) const;
  /// Number of those copies.
  static std::size_t copies_for(const StreamedRun& run, std::size_t unit);

  /// Begins a run on `stream`; before() and after() report its steps. Copies go to a separate
  /// stream, which starts after the work now on `stream` and is joined with it at the last step.
  void begin(const StreamedRun& run, CUstream stream);
  bool before(std::size_t step, CUstream stream) override;
  void after(std::size_t step, CUstream stream) override;

 private:
  void put(const WeightCopy& copy, CUstream stream) const;

  graphs::ContextPtr context_;
  const DeviceWeights& weights_;
  graphs::DeviceMemory ring_;
  std::optional<graphs::Stream> stream_;
  // State of the current run.
  const StreamedRun* run_ = nullptr;
  std::size_t next_ = 0;                     // next copy
  std::size_t waited_ = WeightCopy::kStart;  // latest unit that the copies wait for
};

}  // namespace sinter::runtime
