// SPDX-License-Identifier: Apache-2.0
// Prepares a run: memory, addresses, launches, and their CUDA graph.
#include <algorithm>
#include <mutex>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "runtime/cuda/cuda_executor.h"
#include "runtime/cuda/memory/free_memory.h"
#include "runtime/format_error.h"
#include "runtime/log.h"
#include "runtime/plan/ranks/peer_memory.h"

namespace sinter::runtime {

namespace fb = plan::fb;

void CudaExecutor::forget_bound() {
  bound_.reset();
  last_run_.reset();
  cache_.clear();
}

const std::vector<std::uint64_t>& CudaExecutor::input_sizes(const BoundShape& shape) {
  for (std::size_t i = 0; i < input_sizes_.size(); ++i)
    input_sizes_[i] = input_pointers_[i] || state_of(meta(), *meta().inputs[i])
                          ? 0
                          : shape.bytes_of(*meta().buffers[meta().inputs[i]->buffer]);
  return input_sizes_;
}

const std::vector<std::uint64_t>& CudaExecutor::output_sizes(const BoundShape& shape) {
  for (std::size_t i = 0; i < output_sizes_.size(); ++i)
    output_sizes_[i] = output_pointers_[i] || state_of(meta(), *meta().outputs[i])
                           ? 0
                           : shape.bytes_of(*meta().buffers[meta().outputs[i]->buffer]);
  return output_sizes_;
}

const std::vector<std::uint64_t>& CudaExecutor::state_sizes(const BoundShape& shape) {
  for (std::size_t i = 0; i < state_sizes_.size(); ++i)
    state_sizes_[i] =
        shape.bytes_of(*meta().buffers[meta().inputs[meta().states[i]->input]->buffer]);
  return state_sizes_;
}

void CudaExecutor::reserve_memory(const BoundShape& shape) {
  const auto& states = state_sizes(shape);
  const auto& inputs = input_sizes(shape);
  const auto& outputs = output_sizes(shape);
  const std::uint64_t arena_bytes = shape.layout.arena_bytes;
  const bool arena_grows = arena_bytes > arena_.size();
  const bool inputs_grow = in_.needs_growth(inputs);
  const bool outputs_grow = out_.needs_growth(outputs), states_grow = states_.needs_growth(states);
  if (!arena_grows && !inputs_grow && !outputs_grow && !states_grow) return;

  await();
  forget_bound();
  if (outputs_grow) last_outputs_.clear();
  // The arena keeps no data between runs: frees the old one first, to lower the peak.
  if (arena_grows) arena_ = {};
  const std::uint64_t io = (inputs_grow ? in_.size_after(inputs) : 0) +
                           (outputs_grow ? out_.size_after(outputs) : 0) + states_.growth(states);
  const std::uint64_t arena = arena_grows ? arena_bytes : 0;
  if (!allocator_)
    require_free_memory(
        *plan_->context(), io + arena,
        fmt::format("{} of arena, {} of inputs, outputs and states, besides {} of weights and {} "
                    "of workspace that are there already",
                    format_bytes(arena), format_bytes(io),
                    format_bytes(plan_->weights().device_bytes() + weight_stream_.ring_bytes()),
                    format_bytes(workspace_.size())));
  in_.reserve(inputs, stream_.handle());
  out_.reserve(outputs, stream_.handle());
  states_.reserve(states, stream_.handle());
  if (arena_grows) {
    arena_ = graphs::DeviceMemory(plan_->context(), arena_bytes, allocator_);
    driver().memset_d8_async(arena_.address(), 0, arena_bytes, stream_.handle());
  }
}

const graphs::GraphKey& CudaExecutor::key(const BoundShape& shape) {
  key_.clear();
  for (const std::int64_t symbol : shape.symbols)
    key_.push_back(static_cast<std::uint64_t>(symbol));
  key_.insert(key_.end(), input_pointers_.begin(), input_pointers_.end());
  key_.insert(key_.end(), output_pointers_.begin(), output_pointers_.end());
  return key_;
}

CUdeviceptr CudaExecutor::output_address(std::size_t index) const {
  return output_pointers_[index] ? output_pointers_[index] : out_.device(index);
}

BufferAddresses CudaExecutor::addresses(const BoundShape& shape) const {
  BufferAddresses result;
  const auto& buffers = meta().buffers;
  result.address.resize(buffers.size());
  result.is_foreign.resize(buffers.size());
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const fb::BufferT& buffer = *buffers[i];
    CUdeviceptr& address = result.address[i];
    if (buffer.kind == plan::kPeersBuffer) {
      address = peers_;
      result.is_foreign[i] = true;
      continue;
    }
    switch (buffer.kind) {
      case fb::BufferKind::Input: {
        const CUdeviceptr given = input_pointers_[buffer.binding];
        address = given ? given : in_.device(buffer.binding);
        break;
      }
      case fb::BufferKind::Output:
        address = output_address(buffer.binding);
        result.is_foreign[i] = output_pointers_[buffer.binding] != 0;
        break;
      case fb::BufferKind::State:
        address = states_.address(buffer.binding);
        result.is_foreign[i] = true;  // candidates must not write it: only a run may change a state
        break;
      case fb::BufferKind::Weight: address = plan_->weights().address(i); break;
      case fb::BufferKind::Arena: address = arena_.address() + shape.layout.offsets[i]; break;
      case fb::BufferKind::Extent:
        address = extents_.device(0) + buffer.binding * sizeof(std::int64_t);
        break;
    }
  }
  return result;
}

graphs::DeviceMemory CudaExecutor::number_iterations(const BoundShape& shape,
                                                     BufferAddresses& buffers) {
  std::int64_t most = 0;
  double all = 0;
  std::vector<std::pair<std::size_t, double>> around;  // (last step, iterations) of the enclosing
                                                       // loops
  std::vector<std::uint32_t> counters;
  const std::vector<ControlMechanism> mechanisms =
      choose_mechanisms(meta(), shape, control_.has_nodes());
  for (std::size_t i = 0; i < shape.steps.count; ++i) {
    const fb::StepT& step = *meta().steps[shape.steps.first + i];
    const fb::WhileStepT* loop = step.work.AsWhileStep();
    if (loop == nullptr) continue;
    if (loop->trips < 0 || loop->condition >= 0) continue;
    const std::int64_t trips = shape.expressions[static_cast<std::size_t>(loop->trips)];
    if (mechanisms[i] == ControlMechanism::kCaptured) {
      counters.push_back(loop->counter);
      most = std::max(most, trips);
    }
    while (!around.empty() && around.back().first < i) around.pop_back();
    const double outer = around.empty() ? 1 : around.back().second;
    around.emplace_back(i + loop->steps, outer * static_cast<double>(trips));
    all += around.back().second;
    if (all > static_cast<double>(options_.max_iterations))
      throw Error(ErrorCode::kUsage, fmt::format("step '{}': with it loops run {:.0f} iterations; "
                                                 "SessionOptions::max_iterations allows {}",
                                                 step.name, all, options_.max_iterations));
  }
  if (most == 0) return {};
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(most));
  std::iota(numbers.begin(), numbers.end(), 0);
  const std::uint64_t bytes = numbers.size() * sizeof(numbers[0]);
  graphs::DeviceMemory memory(plan_->context(), bytes, allocator_);
  driver().memcpy_htod_async(memory.address(), numbers.data(), bytes, stream_.handle());
  stream_.synchronize();
  for (const std::uint32_t counter : counters) buffers.address[counter] = memory.address();
  return memory;
}

TensorView CudaExecutor::output_view(std::size_t index, const BoundShape& shape) const {
  TensorView view;
  view.dtype = static_cast<DType>(meta().outputs[index]->dtype);
  view.shape = shape.output_shapes[index];
  const bool on_host = options_.output_memory == Memory::kHost && !output_pointers_[index];
  view.memory = on_host ? Memory::kHost : Memory::kDevice;
  view.device = on_host ? -1 : plan_->context()->properties().index;
  view.data = on_host ? static_cast<const void*>(out_.host(index))
                      : reinterpret_cast<const void*>(output_address(index));
  return view;
}

BeforeStep CudaExecutor::load_before(const StreamedRun* run, const BoundShape& shape) const {
  if (run == nullptr) return {};
  return [this, run, &shape, loaded = std::size_t{0}](std::size_t step,
                                                      BufferAddresses& buffers) mutable {
    weight_stream_.set_addresses(*run, meta(), shape.steps, step, buffers);
    // Loads the streamed weights that the step reads, before its tactics are timed.
    for (; loaded <= run->unit_of[step]; ++loaded)
      weight_stream_.load(*run, loaded, stream_.handle());
  };
}

std::shared_ptr<BoundRun> CudaExecutor::bind(const std::shared_ptr<const BoundShape>& shape) {
  // Timing writes memory that a run in flight may use, and evicting a cache entry may destroy a
  // graph that is running.
  await();
  auto run = std::make_shared<BoundRun>();
  run->shape = shape;
  BufferAddresses buffers = addresses(*shape);
  run->numbers = number_iterations(*shape, buffers);
  LibraryContext libraries;
  libraries.context = plan_->context();
  libraries.cublaslt = plan_->library();
  libraries.cudnn = plan_->cudnn();
  libraries.workspace = workspace_.address();
  libraries.workspace_bytes = workspace_.size();
  libraries.tuning = tuning_;
  libraries.stream = stream_.handle();
  libraries.flush = &flush_;
  libraries.samples = &samples_;
  libraries.operators = operators_.get();
  libraries.allocator = allocator_;
  libraries.thorough = options_.thorough_tuning;
  libraries.conditional_nodes = control_.has_nodes();
  std::unique_lock<std::mutex> lock;
  if (tuning_) lock = std::unique_lock(tuning_->binding_mutex());
  std::vector<TimedChoice> timed;
  libraries.timed = &timed;
  run->weights = weight_stream_.plan_run(meta(), shape->steps);
  run->steps =
      make_launches(*plan_, *shape, buffers, libraries, load_before(run->weights.get(), *shape));
  // Not for loops that end on data: without a run, the data are meaningless. Not with streamed
  // weights: their copies would dominate the measurement.
  // Not for ranks: each would meet the others as often as it measures.
  if (peers_ == 0 && !run->weights && is_captured(run->steps) && !timed.empty() &&
      !depends_on_data(run->steps) && choose_in_graph(*shape, buffers, libraries, timed))
    run->steps = make_launches(*plan_, *shape, buffers, libraries);
  if (peers_ == 0 && !run->weights && options_.cuda_graphs && tuning_)
    run->places = choose_places(*shape, buffers, libraries, run->steps);
  if (tuning_ && !tuning_->save())
    log(LogLevel::kWarning, [&] {
      return fmt::format(
          "what was chosen by timing cannot be kept in '{}': the next process chooses again "
          "(SessionOptions::tuning_cache names a folder)",
          tuning_->file());
    });
  if (lock) lock.unlock();
  flush_.release();
  samples_.release();

  for (std::size_t i = 0; i < meta().outputs.size(); ++i)
    run->outputs.push_back(state_of(meta(), *meta().outputs[i]) ? TensorView{}
                                                                : output_view(i, *shape));
  run->uploads = in_.copies(input_sizes(*shape));
  if (options_.output_memory == Memory::kHost) run->downloads = out_.copies(output_sizes(*shape));
  // Timing and clearing must complete before the run can start on any stream.
  stream_.synchronize();
  if (options_.cuda_graphs) control_.capture_bodies(run->steps, stream_.handle());
  if (is_captured(run->steps)) {
    run->graph.emplace(graphs::Graph::capture(plan_->context(), stream_.handle(),
                                              [&](CUstream s) { put_all(*run, s); }));
    run->graph->upload(stream_.handle());
    stream_.synchronize();
  }
  return run;
}

BoundRun& CudaExecutor::acquire(const std::shared_ptr<const BoundShape>& shape) {
  if (bound_ && !addresses_changed_ && bound_->shape->symbols == shape->symbols) return *bound_;
  reserve_memory(*shape);
  std::shared_ptr<BoundRun> found = cache_.find(key(*shape));
  if (!found) {
    found = bind(shape);
    cache_.insert(key(*shape), found);
  }
  bound_ = std::move(found);
  addresses_changed_ = false;
  return *bound_;
}

void CudaExecutor::prepare(const std::shared_ptr<const BoundShape>& shape) {
  const graphs::Context::Scope scope(*plan_->context());
  const DevicePlan::WeightsLock lock = plan_->lock_weights();
  acquire(shape);
}

bool CudaExecutor::is_captured(const std::vector<StepLaunches>& steps) const {
  return options_.cuda_graphs && !uses(steps, ControlMechanism::kHost);
}

}  // namespace sinter::runtime
