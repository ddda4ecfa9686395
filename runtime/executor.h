// SPDX-License-Identifier: Apache-2.0
// The interface of a target that runs plans. Session checks and binds; executors copy and compute.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <sinter/profile.h>
#include <sinter/session.h>

#include "runtime/format_error.h"
#include "runtime/plan/plan_data.h"
#include "runtime/ranks/rank_group.h"

namespace sinter::runtime {

/// A plan with every symbol bound.
struct BoundShape {
  std::vector<std::int64_t> symbols;        // in the order of plan.symbols
  const plan::fb::EntryT* entry = nullptr;  // the entry point to run, if the plan has entry points
  plan::StepRange steps;                    // its steps, or all steps of the plan
  std::vector<std::int64_t> expressions;    // values of plan.expressions
  plan::MemoryLayout layout;
  std::vector<std::vector<std::int64_t>> input_shapes;   // by input binding
  std::vector<std::vector<std::int64_t>> output_shapes;  // by output binding

  std::uint64_t bytes_of(const plan::fb::BufferT& buffer) const {
    return static_cast<std::uint64_t>(expressions[buffer.bytes]);
  }
};

/// Arguments of copy_state_rows: `copies` copies of `bytes` bytes, `step` bytes apart.
struct StateRowCopy {
  std::size_t copies = 0, bytes = 0, step = 0, from = 0, to = 0;

  StateRowCopy(DType type, const std::vector<std::int64_t>& shape, std::int64_t first,
               std::int64_t target, std::int64_t count) {
    const auto row = static_cast<std::size_t>(shape.back()) * size_of(type);
    copies = 1;
    for (std::size_t d = 0; d + 2 < shape.size(); ++d) copies *= static_cast<std::size_t>(shape[d]);
    step = row * static_cast<std::size_t>(shape[shape.size() - 2]);
    bytes = row * static_cast<std::size_t>(count);
    from = row * static_cast<std::size_t>(first);
    to = row * static_cast<std::size_t>(target);
  }
};

/// The state that a binding's buffer belongs to, or nullopt.
inline std::optional<std::size_t> state_of(const plan::fb::PlanT& plan,
                                           const plan::fb::BindingT& binding) {
  const plan::fb::BufferT& buffer = *plan.buffers[binding.buffer];
  if (buffer.kind != plan::fb::BufferKind::State) return std::nullopt;
  return buffer.binding;
}

/// The error of the loop step at which a run exceeds its limit of iterations.
inline Error too_many_iterations(const std::string& step, std::int64_t most) {
  return usage_error(
      "step '{}': loops have run {} iterations and this one goes on; "
      "SessionOptions::max_iterations allows more",
      step, most);
}

class HostOperators;

class Executor {
 public:
  virtual ~Executor() = default;

  /// Allocates (and on CUDA captures) what `shape` needs, so that later runs with it do neither.
  /// Equal symbols imply equal shapes. Throws Error(kOutOfMemory), which leaves the executor
  /// usable.
  virtual void prepare(const std::shared_ptr<const BoundShape>& shape) = 0;
  /// Sets input `index`: copies host data now, remembers the address of device data. A state's
  /// value is copied from either.
  virtual void set_input(std::size_t index, const TensorView& view) = 0;
  /// Sets memory that runs read in place: host memory on the CPU, device memory on a GPU. Not for
  /// states.
  virtual void use_input(std::size_t index, const TensorView& view) = 0;
  /// Returns `bytes` of the executor's own host memory for input `index`, which is no state. The
  /// next run reads what the caller writes there. Waits for a run in flight. The memory may move
  /// between calls, but keeps its contents unless set_input or use_input came between.
  virtual std::byte* stage_input(std::size_t index, std::size_t bytes) = 0;
  /// Waits for a GPU event, a CUevent.
  virtual void await_event(void* event) = 0;
  /// Null data restores the executor's own memory.
  virtual void set_output(std::size_t index, const MutableTensorView& view) = 0;
  /// Starts a run for `shape`, which must be prepared.
  virtual void run(const std::shared_ptr<const BoundShape>& shape, void* stream) = 0;
  virtual void await() = 0;
  /// Output of the last run; valid until the next. Not for states.
  virtual const TensorView& output(std::size_t index) const = 0;
  /// State `index` of the plan with this shape, in the outputs' kind of memory; valid until the
  /// next run or call for it.
  virtual const TensorView& state(std::size_t index, const std::vector<std::int64_t>& shape) = 0;
  /// Copies rows [from, from + count) of state `index`, of shape [.., rows, columns], to [to, to +
  /// count), after the last run and before the next. The ranges must not overlap.
  virtual void copy_state_rows(std::size_t index, const std::vector<std::int64_t>& shape,
                               std::int64_t from, std::int64_t to, std::int64_t count) = 0;
  /// Sets all states to zero.
  virtual void reset_states() = 0;
  /// Later runs of all executors that share the weights use those of `plan`, which equals the
  /// current plan in all else. Waits for runs with the old weights.
  virtual void set_weights(const std::shared_ptr<const plan::PlanData>& plan) = 0;

  virtual MemoryAccount memory() const = 0;
  virtual std::size_t launches() const = 0;
  virtual double time_compute(bool cold) = 0;
  virtual TransferTimes time_transfers() { return {}; }
  virtual std::vector<StepTime> profile() = 0;
  virtual MachineRates measure_rates() = 0;
};

/// `operators` implements the plan's host steps; null: there are none.
std::unique_ptr<Executor> make_cpu_executor(std::shared_ptr<const plan::PlanData> plan,
                                            const SessionOptions& options,
                                            std::shared_ptr<const HostOperators> operators,
                                            RankPlace ranks = {});
/// Runs all ranks of a plan of several, each by an executor and a thread of its own.
std::unique_ptr<Executor> make_ranked_executor(
    const std::shared_ptr<const plan::PlanData>& plan, const SessionOptions& options,
    const std::shared_ptr<const HostOperators>& operators);
/// Only in builds with the CUDA target.
std::unique_ptr<Executor> make_cuda_executor(std::shared_ptr<const plan::PlanData> plan,
                                             const SessionOptions& options,
                                             std::shared_ptr<const HostOperators> operators);

}  // namespace sinter::runtime
