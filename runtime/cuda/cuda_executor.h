// SPDX-License-Identifier: Apache-2.0
// Runs plans on a GPU. Everything that a run needs is bound, allocated and captured in advance.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "graphs/graph_cache.h"
#include "graphs/graph_exec.h"
#include "graphs/memory.h"
#include "graphs/stream.h"
#include "runtime/cuda/control/control_flow.h"
#include "runtime/cuda/device_plan.h"
#include "runtime/cuda/make_launches.h"
#include "runtime/cuda/memory/io_region.h"
#include "runtime/cuda/memory/state_memory.h"
#include "runtime/cuda/streaming/weight_stream.h"
#include "runtime/executor.h"

namespace sinter::runtime {

/// make_cuda_executor for a given driver and library. `peers`: the address of its Peers buffer, if
/// the plan is a rank's (plan/peer_memory.h).
std::unique_ptr<Executor> make_cuda_executor(const CudaEnvironment& environment,
                                             std::shared_ptr<const plan::PlanData> plan,
                                             const SessionOptions& options,
                                             std::shared_ptr<const HostOperators> operators = {},
                                             CUdeviceptr peers = 0);

/// A plan bound to sizes and addresses: all the work of a run.
struct BoundRun {
  std::shared_ptr<const BoundShape> shape;
  graphs::DeviceMemory numbers;  // iteration numbers that steps of unrolled loops read
  std::vector<StepLaunches> steps;
  std::unique_ptr<StreamedRun> weights;  // streamed weights; null: none
  std::vector<StepPlace> places;  // streams of the steps, with CUDA graphs; empty: all on one
                                  // stream
  std::vector<RegionCopy> uploads, downloads;
  std::vector<TensorView> outputs;
  // Copies, steps and copies back as one graph; absent without CUDA graphs, or where the host
  // controls a loop.
  std::optional<graphs::GraphExec> graph;
  // The steps alone, for timing; captured when first timed.
  std::optional<graphs::GraphExec> compute_graph;

  std::size_t launches() const;
};

class CudaExecutor final : public Executor {
 public:
  CudaExecutor(const CudaEnvironment& environment, std::shared_ptr<const plan::PlanData> plan,
               const SessionOptions& options, std::shared_ptr<const HostOperators> operators,
               CUdeviceptr peers);
  ~CudaExecutor() override;

  void prepare(const std::shared_ptr<const BoundShape>& shape) override;
  void set_input(std::size_t index, const TensorView& view) override;
  void use_input(std::size_t index, const TensorView& view) override { set_input(index, view); }
  std::byte* stage_input(std::size_t index, std::size_t bytes) override;
  void await_event(void* event) override;
  void set_output(std::size_t index, const MutableTensorView& view) override;
  void run(const std::shared_ptr<const BoundShape>& shape, void* stream) override;
  void await() override;
  const TensorView& output(std::size_t index) const override;
  const TensorView& state(std::size_t index, const std::vector<std::int64_t>& shape) override;
  void copy_state_rows(std::size_t index, const std::vector<std::int64_t>& shape, std::int64_t from,
                       std::int64_t to, std::int64_t count) override;
  void reset_states() override;
  void set_weights(const std::shared_ptr<const plan::PlanData>& plan) override;
  MemoryAccount memory() const override;
  std::size_t launches() const override;
  double time_compute(bool cold) override;
  TransferTimes time_transfers() override;
  std::vector<StepTime> profile() override;
  MachineRates measure_rates() override;

 private:
  const plan::fb::PlanT& meta() const { return plan_->plan().meta; }
  const graphs::Driver& driver() const { return plan_->context()->driver(); }

  /// The bound run for `shape` and the current addresses: cached, or created now.
  BoundRun& acquire(const std::shared_ptr<const BoundShape>& shape);
  // Bytes by binding or state; only those in the session's memory. The reference is valid until the
  // next call, so that runs of a known shape allocate nothing.
  const std::vector<std::uint64_t>& input_sizes(const BoundShape& shape);
  const std::vector<std::uint64_t>& output_sizes(const BoundShape& shape);
  const std::vector<std::uint64_t>& state_sizes(const BoundShape& shape);
  void write_state(std::size_t index, const TensorView& view);
  void reserve_memory(const BoundShape& shape);
  /// The key for `shape` and the user's addresses; valid until the next call.
  const graphs::GraphKey& key(const BoundShape& shape);
  std::shared_ptr<BoundRun> bind(const std::shared_ptr<const BoundShape>& shape);
  BufferAddresses addresses(const BoundShape& shape) const;
  /// Hook of make_launches before each step: loads the step's streamed weights and sets their
  /// addresses. Null if nothing is streamed. Both arguments must outlive it.
  BeforeStep load_before(const StreamedRun* run, const BoundShape& shape) const;
  /// Stores the iteration numbers 0, 1, .. of unrolled loops and sets the address of their
  /// counters.
  graphs::DeviceMemory number_iterations(const BoundShape& shape, BufferAddresses& buffers);
  CUdeviceptr output_address(std::size_t index) const;
  TensorView output_view(std::size_t index, const BoundShape& shape) const;
  /// Throws Error(kUsage) if `stream` is capturing.
  void refuse_capturing(CUstream stream) const;
  /// Discards bound runs after memory has moved.
  void forget_bound();

  void put_uploads(const BoundRun& run, CUstream stream) const;
  void put_downloads(const BoundRun& run, CUstream stream) const;
  void put_all(const BoundRun& run, CUstream stream);
  std::uint64_t extent_bytes() const;
  /// Sets the output shapes that the run determined. Throws Error(kUsage) for a size beyond its
  /// bound.
  void read_extents(const BoundShape& shape, std::vector<TensorView>& outputs) const;
  void put_compute(const BoundRun& run, CUstream stream);
  /// Whether a run of these steps can be captured: the host controls nothing.
  bool is_captured(const std::vector<StepLaunches>& steps) const;
  /// Launches steps on `stream`, and on the streams beside it that `places` names; joins all of
  /// them with `stream`.
  void put_branches(const std::vector<StepLaunches>& steps, const std::vector<StepPlace>& places,
                    CUstream stream);
  /// Replaces the user's memory in `buffers` by scratch memory. False: out of memory.
  bool spare_foreign(const BoundShape& shape, BufferAddresses& buffers,
                     std::vector<graphs::DeviceMemory>& scratch) const;
  /// Microseconds of a graph of these steps, with cold caches.
  double time_in_graph(const std::vector<StepLaunches>& steps,
                       const std::vector<StepPlace>& places);
  /// Times the tactics of `timed` within a graph of all steps and stores those that are faster
  /// there. False if nothing changed.
  bool choose_in_graph(const BoundShape& shape, BufferAddresses buffers, LibraryContext libraries,
                       const std::vector<TimedChoice>& timed);
  /// Places `steps` on several streams, if enough of them are independent and it measures faster,
  /// now or earlier; else none.
  std::vector<StepPlace> choose_places(const BoundShape& shape, BufferAddresses buffers,
                                       const LibraryContext& libraries,
                                       const std::vector<StepLaunches>& steps);
  void start_compute(BoundRun& run);
  BoundRun& last_run(const char* what);

  SessionOptions options_;
  std::shared_ptr<const HostOperators> operators_;  // null: the plan has no host steps
  std::shared_ptr<DevicePlan> plan_;
  CUdeviceptr peers_;                     // 0: the plan is of one rank
  graphs::DeviceAllocatorPtr allocator_;  // null: the driver's
  graphs::Stream stream_;
  std::vector<std::unique_ptr<graphs::Stream>> branches_;  // captured together with stream_
  graphs::Event done_;  // recorded after a run for which other streams must wait
  FlushBuffer flush_;
  OperandSamples samples_;
  std::shared_ptr<TuningCache> tuning_;
  graphs::DeviceMemory workspace_, arena_;
  IoRegion in_, out_;
  StateMemory states_;
  ControlFlow control_;
  WeightStream weight_stream_;
  IoRegion extents_;  // one slot: the sizes that runs determine
  // Addresses of the user's device memory, or 0.
  std::vector<CUdeviceptr> input_pointers_, output_pointers_;
  // The user's host memory to which await() copies outputs, or null: current, and for the run in
  // flight.
  std::vector<void*> output_targets_, targets_in_flight_;
  bool has_targets_in_flight_ = false;
  std::vector<std::uint64_t> input_sizes_, output_sizes_, state_sizes_;
  graphs::GraphKey key_;
  graphs::GraphCache<BoundRun> cache_;
  std::shared_ptr<BoundRun> bound_;     // the run bound last
  std::shared_ptr<BoundRun> last_run_;  // the run executed last, while its addresses are valid
  std::vector<TensorView> last_outputs_, state_views_;
  bool addresses_changed_ = false;  // since bound_ was bound
  bool in_flight_ = false;
  CUstream in_flight_stream_ = nullptr;
  DevicePlan::User user_;  // last member: others may wait for this executor's work until it is
                           // destroyed
};

}  // namespace sinter::runtime
