// SPDX-License-Identifier: Apache-2.0
// Runs plans on a GPU. Everything a run needs is bound, allocated and captured before it.
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

/// make_cuda_executor for a given driver and library, for tests.
std::unique_ptr<Executor> make_cuda_executor(const CudaEnvironment& environment,
                                             std::shared_ptr<const plan::PlanData> plan,
                                             const SessionOptions& options,
                                             std::shared_ptr<const HostOperators> operators = {});

/// A plan bound to sizes and addresses: everything a run puts on a stream.
struct BoundRun {
  std::shared_ptr<const BoundShape> shape;
  graphs::DeviceMemory numbers;  // of iterations, which the steps of captured loops read
  std::vector<StepLaunches> steps;
  std::unique_ptr<StreamedRun> weights;  // that are copied; null: none are
  std::vector<StepPlace> places;  // of steps on streams, with CUDA graphs; none: one after another
  std::vector<RegionCopy> uploads, downloads;
  std::vector<TensorView> outputs;
  // Copies, steps and copies, in one launch; absent without CUDA graphs, or where the host decides
  // how a loop goes on.
  std::optional<graphs::GraphExec> graph;
  // Steps alone, for timing; captured when first timed.
  std::optional<graphs::GraphExec> compute_graph;

  std::size_t launches() const;
};

class CudaExecutor final : public Executor {
 public:
  CudaExecutor(const CudaEnvironment& environment, std::shared_ptr<const plan::PlanData> plan,
               const SessionOptions& options, std::shared_ptr<const HostOperators> operators);
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

  /// The bound run for `shape` and the addresses that are set: cached, or made now.
  BoundRun& acquire(const std::shared_ptr<const BoundShape>& shape);
  // Bytes by binding or state, of those in memory of ours. The reference is valid until the next
  // call: a run of a shape that was seen allocates nothing.
  const std::vector<std::uint64_t>& input_sizes(const BoundShape& shape);
  const std::vector<std::uint64_t>& output_sizes(const BoundShape& shape);
  const std::vector<std::uint64_t>& state_sizes(const BoundShape& shape);
  void write_state(std::size_t index, const TensorView& view);
  void reserve_memory(const BoundShape& shape);
  /// Of `shape` and the user's addresses; valid until the next call.
  const graphs::GraphKey& key(const BoundShape& shape);
  std::shared_ptr<BoundRun> bind(const std::shared_ptr<const BoundShape>& shape);
  BufferAddresses addresses(const BoundShape& shape) const;
  /// What make_launches does before each step: its streamed weights are there, and their addresses
  /// known. Null: there are none. Both arguments must outlive it.
  BeforeStep load_before(const StreamedRun* run, const BoundShape& shape) const;
  /// The numbers 0, 1, .. of the iterations of loops that are captured, to which the address of
  /// their counters is set.
  graphs::DeviceMemory number_iterations(const BoundShape& shape, BufferAddresses& buffers);
  CUdeviceptr output_address(std::size_t index) const;
  TensorView output_view(std::size_t index, const BoundShape& shape) const;
  /// Throws Error(kUsage) if `stream` is capturing.
  void refuse_capturing(CUstream stream) const;
  /// After memory has moved: what was bound to its addresses is void.
  void forget_bound();

  void put_uploads(const BoundRun& run, CUstream stream) const;
  void put_downloads(const BoundRun& run, CUstream stream) const;
  void put_all(const BoundRun& run, CUstream stream);
  std::uint64_t extent_bytes() const;
  /// Gives outputs the shapes that the run has found. Throws Error(kUsage) for a size beyond its
  /// bound.
  void read_extents(const BoundShape& shape, std::vector<TensorView>& outputs) const;
  void put_compute(const BoundRun& run, CUstream stream);
  /// Whether a run of these steps can be captured: the host decides nothing in it.
  bool is_captured(const std::vector<StepLaunches>& steps) const;
  /// Steps on `stream`, and on those beside it where `places` says so; all end on `stream`.
  void put_branches(const std::vector<StepLaunches>& steps, const std::vector<StepPlace>& places,
                    CUstream stream);
  /// `buffers` with scratch memory where only a run may write. False: there is no room for it.
  bool spare_foreign(const BoundShape& shape, BufferAddresses& buffers,
                     std::vector<graphs::DeviceMemory>& scratch) const;
  /// Microseconds of a graph of these steps, caches cold.
  double time_in_graph(const std::vector<StepLaunches>& steps,
                       const std::vector<StepPlace>& places);
  /// Tries the tactics of `timed` in a graph of all steps; stores what is faster there. False
  /// if that is what was taken.
  bool choose_in_graph(const BoundShape& shape, BufferAddresses buffers, LibraryContext libraries,
                       const std::vector<TimedChoice>& timed);
  /// Places on several streams for `steps`, if they are independent enough for it and it measures
  /// faster, or did before; else none.
  std::vector<StepPlace> choose_places(const BoundShape& shape, BufferAddresses buffers,
                                       const LibraryContext& libraries,
                                       const std::vector<StepLaunches>& steps);
  void start_compute(BoundRun& run);
  BoundRun& last_run(const char* what);

  SessionOptions options_;
  std::shared_ptr<const HostOperators> operators_;  // null: the plan has none
  std::shared_ptr<DevicePlan> plan_;
  graphs::DeviceAllocatorPtr allocator_;  // null: the driver
  graphs::Stream stream_;
  std::vector<std::unique_ptr<graphs::Stream>> branches_;  // captured beside it
  graphs::Event done_;  // recorded behind a run that others must wait for
  FlushBuffer flush_;
  OperandSamples samples_;
  std::shared_ptr<TuningCache> tuning_;
  graphs::DeviceMemory workspace_, arena_;
  IoRegion in_, out_;
  StateMemory states_;
  ControlFlow control_;
  WeightStream weight_stream_;
  IoRegion extents_;  // one slot: the sizes that runs find
  // The user's device memory, or 0.
  std::vector<CUdeviceptr> input_pointers_, output_pointers_;
  // The user's host memory that await() copies an output to, or null: as it is set, and for the run
  // in flight.
  std::vector<void*> output_targets_, targets_in_flight_;
  bool has_targets_in_flight_ = false;
  std::vector<std::uint64_t> input_sizes_, output_sizes_, state_sizes_;
  graphs::GraphKey key_;
  graphs::GraphCache<BoundRun> cache_;
  std::shared_ptr<BoundRun> bound_;     // bound last
  std::shared_ptr<BoundRun> last_run_;  // run last, while its addresses are valid
  std::vector<TensorView> last_outputs_, state_views_;
  bool addresses_changed_ = false;  // since bound_
  bool in_flight_ = false;
  CUstream in_flight_stream_ = nullptr;
  DevicePlan::User user_;  // last: others may wait for this executor's work until it is gone
};

}  // namespace sinter::runtime
