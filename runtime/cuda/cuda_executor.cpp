// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/cuda_executor.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <utility>

#include "runtime/cuda/memory/free_memory.h"
#include "runtime/cuda/memory/user_memory.h"
#include "runtime/format_error.h"
#include "runtime/plan/extents.h"
#include "runtime/profiler/profiler_range.h"

namespace sinter::runtime {
namespace {

using graphs::Context;

// NVIDIA's recommendation for cuBLASLt on Hopper; cuDNN's fast engines need less.
constexpr std::uint64_t kWorkspaceBytes = 32u << 20;

std::string tuning_file(const plan::PlanData& plan, const SessionOptions& options) {
  if (!options.tuning_cache.empty())
    return (std::filesystem::path(options.tuning_cache) / "cublaslt.tuning").string();
  return plan.path.empty() ? std::string() : plan.path + kTuningSuffix;
}

/// Whether some step has several tactics.
bool has_choices(const plan::fb::PlanT& plan) {
  return std::ranges::any_of(plan.steps, [](const auto& step) {
    const plan::fb::TacticStepT* choice = step->work.AsTacticStep();
    return choice != nullptr && choice->tactics.size() > 1;
  });
}

/// Runs `body` and adds the GPU to an Error. Builds no text on success.
template <typename Body>
void running_on(const Context& context, const Body& body) {
  try {
    body();
  } catch (Error& error) {
    error.add_context(fmt::format("running on GPU {} ({})", context.properties().index,
                                  context.properties().name));
    throw;
  }
}

}  // namespace

std::size_t BoundRun::launches() const {
  std::size_t count = 0;
  const std::vector<std::size_t> runs = runs_of(steps);
  for (std::size_t i = 0; i < steps.size(); ++i) count += runs[i] * steps[i].launches();
  return count;
}

CudaExecutor::CudaExecutor(const CudaEnvironment& environment,
                           std::shared_ptr<const plan::PlanData> plan,
                           const SessionOptions& options,
                           std::shared_ptr<const HostOperators> operators, CUdeviceptr peers)
    : options_(options),
      operators_(std::move(operators)),
      plan_(DevicePlan::acquire(environment, plan, options.device, options.weight_budget)),
      peers_(peers),
      allocator_(device_allocator(options)),
      stream_(plan_->context()),
      done_(plan_->context(), false),
      flush_(plan_->context()),
      samples_(plan_->context()),
      in_(plan_->context(), plan->meta.inputs.size(), true, allocator_),
      out_(plan_->context(), plan->meta.outputs.size(), options.output_memory == Memory::kHost,
           allocator_),
      states_(plan_->context(), plan->meta.states.size(), allocator_),
      control_(plan_->context(), options.max_iterations),
      weight_stream_(plan_->context(), plan_->weights(), allocator_),
      extents_(plan_->context(), 1, true, allocator_),
      input_pointers_(plan->meta.inputs.size()),
      output_pointers_(plan->meta.outputs.size()),
      output_targets_(plan->meta.outputs.size()),
      input_sizes_(plan->meta.inputs.size()),
      output_sizes_(plan->meta.outputs.size()),
      state_sizes_(plan->meta.states.size()),
      cache_(options.graph_cache),
      state_views_(plan->meta.states.size()),
      user_(*plan_, [this] {
        stream_.synchronize();
        done_.synchronize();
      }) {
  if (const std::uint64_t bytes = extent_bytes()) {
    extents_.reserve({&bytes, 1}, stream_.handle());
    stream_.synchronize();
  }
  control_.make(meta(), stream_.handle());
  const Context& context = *plan_->context();
  const bool has_libraries = plan_->library() || plan_->cudnn();
  // Also if the choice is only between Sinter's own kernels.
  if (has_libraries || has_choices(plan->meta))
    tuning_ = TuningCache::open(
        tuning_file(*plan, options_),
        tuning_environment(context, plan_->library().get(), plan_->cudnn().get()));
  if (!has_libraries) return;
  // The driver's free memory says nothing about a custom allocator.
  if (!allocator_)
    require_free_memory(context, kWorkspaceBytes,
                        fmt::format("{} of workspace", format_bytes(kWorkspaceBytes)));
  workspace_ = graphs::DeviceMemory(plan_->context(), kWorkspaceBytes, allocator_);
}

CudaExecutor::~CudaExecutor() {
  // Waits, because memory in use must not be freed. Errors have no receiver any more, and the
  // user's output memory may already be freed.
  has_targets_in_flight_ = false;
  try {
    await();
  } catch (const Error&) {
  }
}

void CudaExecutor::set_input(std::size_t index, const TensorView& view) {
  const Context::Scope scope(*plan_->context());
  const std::uint64_t bytes = view.byte_count();
  const std::string& name = meta().inputs[index]->name;
  if (bytes > 0 && view.memory == Memory::kDevice)
    check_device_pointer(*plan_->context(), view.data, view.device, "input", name);
  if (bytes > 0 && view.memory == Memory::kHost)
    check_host_pointer(*plan_->context(), view.data, "input", name);
  if (const auto state = state_of(meta(), *meta().inputs[index])) return write_state(*state, view);
  if (view.memory == Memory::kDevice) {
    const auto address = reinterpret_cast<CUdeviceptr>(view.data);
    addresses_changed_ = addresses_changed_ || input_pointers_[index] != address;
    input_pointers_[index] = address;
    return;
  }
  std::byte* staged = stage_input(index, bytes);
  if (bytes > 0) std::memcpy(staged, view.data, bytes);
}

std::byte* CudaExecutor::stage_input(std::size_t index, std::size_t bytes) {
  // A run in flight may still be reading the staging buffer.
  await();
  if (!in_.holds(index, bytes)) {
    const Context::Scope scope(*plan_->context());
    std::ranges::fill(input_sizes_, 0);
    input_sizes_[index] = bytes;
    forget_bound();
    in_.reserve(input_sizes_, stream_.handle());
  }
  addresses_changed_ = addresses_changed_ || input_pointers_[index] != 0;
  input_pointers_[index] = 0;
  return in_.host(index);
}

void CudaExecutor::await_event(void* event) {
  const Context::Scope scope(*plan_->context());
  running_on(*plan_->context(), [&] { driver().event_synchronize(static_cast<CUevent>(event)); });
}

void CudaExecutor::set_output(std::size_t index, const MutableTensorView& view) {
  const Context::Scope scope(*plan_->context());
  const std::string& name = meta().outputs[index]->name;
  const bool on_host = view.data && view.memory == Memory::kHost;
  if (on_host) {
    if (options_.output_memory != Memory::kHost)
      throw usage_error(
          "output '{}' cannot go to host memory from a session whose outputs "
          "stay on the device (SessionOptions::output_memory)",
          name);
    check_host_pointer(*plan_->context(), view.data, "output", name);
  } else if (view.data) {
    check_device_pointer(*plan_->context(), view.data, view.device, "output", name);
  }
  const auto address = on_host ? CUdeviceptr{0} : reinterpret_cast<CUdeviceptr>(view.data);
  addresses_changed_ = addresses_changed_ || output_pointers_[index] != address;
  output_pointers_[index] = address;
  output_targets_[index] = on_host ? view.data : nullptr;
}

void CudaExecutor::write_state(std::size_t index, const TensorView& view) {
  await();
  std::ranges::fill(state_sizes_, 0);
  state_sizes_[index] = view.byte_count();
  if (states_.needs_growth(state_sizes_)) {
    forget_bound();
    states_.reserve(state_sizes_, stream_.handle());
  }
  states_.write(index, view, stream_.handle());
}

const TensorView& CudaExecutor::state(std::size_t index, const std::vector<std::int64_t>& shape) {
  const Context::Scope scope(*plan_->context());
  await();
  TensorView& view = state_views_[index];
  view.dtype = static_cast<DType>(meta().inputs[meta().states[index]->input]->dtype);
  view.shape = shape;
  view.memory = options_.output_memory;
  view.device = view.memory == Memory::kDevice ? plan_->context()->properties().index : -1;
  view.data = options_.output_memory == Memory::kHost
                  ? states_.read(index, view.byte_count(), stream_.handle())
                  : reinterpret_cast<const void*>(states_.address(index));
  return view;
}

void CudaExecutor::copy_state_rows(std::size_t index, const std::vector<std::int64_t>& shape,
                                   std::int64_t from, std::int64_t to, std::int64_t count) {
  const Context::Scope scope(*plan_->context());
  await();
  const StateRowCopy copy(static_cast<DType>(meta().inputs[meta().states[index]->input]->dtype),
                          shape, from, to, count);
  for (std::size_t i = 0; i < copy.copies; ++i) {
    const CUdeviceptr rows = states_.address(index) + i * copy.step;
    plan_->context()->driver().memcpy_dtod_async(rows + copy.to, rows + copy.from, copy.bytes,
                                                 stream_.handle());
  }
}

void CudaExecutor::reset_states() {
  const Context::Scope scope(*plan_->context());
  await();
  states_.clear(stream_.handle());
}

void CudaExecutor::set_weights(const std::shared_ptr<const plan::PlanData>& plan) {
  await();
  plan_->replace_weights(plan);
}

void CudaExecutor::put_compute(const BoundRun& run, CUstream stream) {
  if (!run.weights) return put_branches(run.steps, run.places, stream);
  weight_stream_.begin(*run.weights, stream);
  control_.put_run(run.steps, stream, false, &weight_stream_);
}

void CudaExecutor::put_uploads(const BoundRun& run, CUstream stream) const {
  for (const RegionCopy& copy : run.uploads)
    driver().memcpy_htod_async(in_.device_base() + copy.offset, in_.host_base() + copy.offset,
                               copy.bytes, stream);
}

void CudaExecutor::put_downloads(const BoundRun& run, CUstream stream) const {
  for (const RegionCopy& copy : run.downloads)
    driver().memcpy_dtoh_async(out_.host_base() + copy.offset, out_.device_base() + copy.offset,
                               copy.bytes, stream);
  if (const std::uint64_t bytes = extent_bytes())
    driver().memcpy_dtoh_async(extents_.host_base(), extents_.device_base(), bytes, stream);
}

std::uint64_t CudaExecutor::extent_bytes() const {
  return plan::count_extents(meta()) * sizeof(std::int64_t);
}

void CudaExecutor::read_extents(const BoundShape& shape, std::vector<TensorView>& outputs) const {
  if (extent_bytes() == 0) return;
  std::vector<std::int64_t> symbols = shape.symbols;
  for (std::size_t s = 0; s < symbols.size(); ++s) {
    const std::int32_t buffer = meta().symbols[s]->extent_of;
    if (buffer < 0) continue;
    std::int64_t value = 0;
    const std::size_t place = meta().buffers[static_cast<std::size_t>(buffer)]->binding;
    std::memcpy(&value, extents_.host(0) + place * sizeof value, sizeof value);
    plan::check_extent(meta(), s, value, shape.symbols);
    symbols[s] = value;
  }
  const std::vector<std::int64_t> expressions = plan::evaluate_expressions(meta(), symbols);
  for (std::size_t i = 0; i < outputs.size(); ++i)
    for (std::size_t d = 0; d < outputs[i].shape.size(); ++d)
      outputs[i].shape[d] = expressions[meta().outputs[i]->shape[d]];
}

void CudaExecutor::put_all(const BoundRun& run, CUstream stream) {
  put_uploads(run, stream);
  put_compute(run, stream);
  put_downloads(run, stream);
}

/// Work on a capturing stream becomes part of the user's graph, whose later launches would overlap
/// the session's runs.
void CudaExecutor::refuse_capturing(CUstream stream) const {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  const CUresult result = driver().stream_is_capturing.raw(stream, &status);
  if (result == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT ||
      (result == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE))
    throw usage_error(
        "run_async on a stream that is capturing a CUDA graph: a session replays a graph "
        "of its own; run it outside of the capture");
}

void CudaExecutor::run(const std::shared_ptr<const BoundShape>& shape, void* stream) {
  const Context::Scope scope(*plan_->context());
  // Outputs of the previous run leave the staging buffer before it is reused.
  if (has_targets_in_flight_) await();
  CUstream target = stream ? static_cast<CUstream>(stream) : stream_.handle();
  if (stream) refuse_capturing(target);
  const DevicePlan::WeightsLock lock = plan_->lock_weights();
  acquire(shape);
  running_on(*plan_->context(), [&] {
    // Runs share arena and staging, so each starts after the last. Equal handles prove equal
    // streams only for the session's own stream. The user may have destroyed theirs, and
    // CU_STREAM_PER_THREAD differs between threads.
    const bool is_own = target == stream_.handle();
    if (in_flight_ && !(is_own && in_flight_stream_ == target)) {
      if (in_flight_stream_ == stream_.handle()) done_.record(in_flight_stream_);
      done_.make_wait(target);
    }
    in_flight_ = true;
    in_flight_stream_ = target;
    last_run_ = bound_;
    last_outputs_ = bound_->outputs;
    targets_in_flight_ = output_targets_;
    for (std::size_t i = 0; i < targets_in_flight_.size(); ++i)
      if (targets_in_flight_[i]) {
        last_outputs_[i].data = targets_in_flight_[i];
        has_targets_in_flight_ = true;
      }
    const ProfilerRange shown(profiler_is_attached() ? "run" : "");
    if (bound_->graph)
      bound_->graph->launch(target);
    else
      put_all(*bound_, target);
    // Recorded now: the user may destroy the stream before await().
    if (!is_own) done_.record(target);
  });
}

void CudaExecutor::await() {
  if (!in_flight_) return;
  in_flight_ = false;
  const bool has_targets = std::exchange(has_targets_in_flight_, false);
  const Context::Scope scope(*plan_->context());
  // Outputs of a failed run are invalid, whichever call reports the failure.
  std::vector<TensorView> outputs = std::exchange(last_outputs_, {});
  running_on(*plan_->context(), [&] {
    if (in_flight_stream_ == stream_.handle())
      stream_.synchronize();
    else
      done_.synchronize();
  });
  if (const auto step = control_.take_overrun(stream_.handle()))
    throw too_many_iterations(meta().steps[*step]->name, options_.max_iterations);
  read_extents(*last_run_->shape, outputs);
  last_outputs_ = std::move(outputs);
  for (std::size_t i = 0; has_targets && i < targets_in_flight_.size(); ++i)
    if (const std::size_t bytes = targets_in_flight_[i] ? last_outputs_[i].byte_count() : 0)
      std::memcpy(targets_in_flight_[i], out_.host(i), bytes);
}

const TensorView& CudaExecutor::output(std::size_t index) const {
  if (last_outputs_.empty())
    throw usage_error("output '{}' has no value: its run failed", meta().outputs[index]->name);
  return last_outputs_[index];
}

MemoryAccount CudaExecutor::memory() const {
  MemoryAccount account;
  account.weights = plan_->weights().device_bytes();
  account.streamed_weights = plan_->weights().host_bytes();
  account.weight_ring = weight_stream_.ring_bytes();
  account.workspace = workspace_.size();
  cache_.for_each([&](const BoundRun& run) {
    for (const StepLaunches& step : run.steps) account.workspace += step.workspace_bytes();
  });
  account.io = in_.size() + out_.size() + states_.size();
  if (bound_) {
    account.arena = bound_->shape->layout.arena_bytes;
    account.arena_without_reuse = bound_->shape->layout.unshared_bytes;
  }
  return account;
}

std::size_t CudaExecutor::launches() const { return bound_ ? bound_->launches() : 0; }

std::unique_ptr<Executor> make_cuda_executor(const CudaEnvironment& environment,
                                             std::shared_ptr<const plan::PlanData> plan,
                                             const SessionOptions& options,
                                             std::shared_ptr<const HostOperators> operators,
                                             CUdeviceptr peers) {
  return std::make_unique<CudaExecutor>(environment, std::move(plan), options, std::move(operators),
                                        peers);
}

std::unique_ptr<Executor> make_cuda_executor(std::shared_ptr<const plan::PlanData> plan,
                                             const SessionOptions& options,
                                             std::shared_ptr<const HostOperators> operators) {
  return make_cuda_executor(CudaEnvironment::system(), std::move(plan), options,
                            std::move(operators));
}

}  // namespace sinter::runtime
