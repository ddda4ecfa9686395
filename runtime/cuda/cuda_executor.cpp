#include "runtime/cuda/cuda_executor.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <numeric>
#include <utility>

#include "runtime/cuda/memory/free_memory.h"
#include "runtime/cuda/memory/user_memory.h"
#include "runtime/format_error.h"
#include "runtime/log.h"
#include "runtime/plan/extents.h"
#include "runtime/profiler/profiler_range.h"

namespace sinter::runtime {
namespace {

namespace fb = plan::fb;
using graphs::Context;

// What NVIDIA recommends for cuBLASLt on Hopper; cuDNN's fast engines need less.
constexpr std::uint64_t kWorkspaceBytes = 32u << 20;

std::string tuning_file(const plan::PlanData& plan, const SessionOptions& options) {
  if (!options.tuning_cache.empty())
    return (std::filesystem::path(options.tuning_cache) / "cublaslt.tuning").string();
  return plan.path.empty() ? std::string() : plan.path + kTuningSuffix;
}

/// Runs `body`; an Error that leaves it says on which GPU. Makes no text where nothing fails.
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
                           std::shared_ptr<const HostOperators> operators)
    : options_(options),
      operators_(std::move(operators)),
      plan_(DevicePlan::acquire(environment, plan, options.device, options.weight_budget)),
      allocator_(device_allocator(options)),
      stream_(plan_->context()),
      done_(plan_->context(), false),
      flush_(plan_->context()),
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
  if (!plan_->library() && !plan_->cudnn()) return;
  const Context& context = *plan_->context();
  // An allocator's own memory is not what the driver has free.
  if (!allocator_)
    require_free_memory(context, kWorkspaceBytes,
                        fmt::format("{} of workspace", format_bytes(kWorkspaceBytes)));
  workspace_ = graphs::DeviceMemory(plan_->context(), kWorkspaceBytes, allocator_);
  tuning_ =
      TuningCache::open(tuning_file(*plan, options_),
                        tuning_environment(context, plan_->library().get(), plan_->cudnn().get()));
}

CudaExecutor::~CudaExecutor() {
  // Memory must not be freed under a run in flight; its errors have nobody left to go to. What the
  // user gave for outputs may be gone already.
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
  const Context::Scope scope(*plan_->context());
  // A run in flight may still be reading the staging buffer.
  await();
  std::ranges::fill(input_sizes_, 0);
  input_sizes_[index] = bytes;
  if (in_.needs_growth(input_sizes_)) {
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

void CudaExecutor::reset_states() {
  const Context::Scope scope(*plan_->context());
  await();
  states_.clear(stream_.handle());
}

void CudaExecutor::set_weights(const std::shared_ptr<const plan::PlanData>& plan) {
  await();
  plan_->replace_weights(plan);
}

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
  // The old arena holds nothing between runs, so it makes room for the new one.
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
        result.is_foreign[i] = true;  // nothing but a run changes it
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
  std::vector<std::pair<std::size_t, double>> around;  // loops' last steps, and their iterations
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
    // Tactics are timed with the weights that they will read.
    for (; loaded <= run->unit_of[step]; ++loaded)
      weight_stream_.load(*run, loaded, stream_.handle());
  };
}

std::shared_ptr<BoundRun> CudaExecutor::bind(const std::shared_ptr<const BoundShape>& shape) {
  // Timing candidates writes to memory that a run in flight may be using, and an entry that the
  // cache drops may be running.
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
  // Where data decide how long a loop is, those of no run must not. Where weights are copied, the
  // copies are what is measured in the whole graph.
  if (!run->weights && is_captured(run->steps) && !timed.empty() && !depends_on_data(run->steps) &&
      choose_in_graph(*shape, buffers, libraries, timed))
    run->steps = make_launches(*plan_, *shape, buffers, libraries);
  if (!run->weights && options_.cuda_graphs && tuning_)
    run->places = choose_places(*shape, buffers, libraries, run->steps);
  if (tuning_ && !tuning_->save())
    log(LogLevel::kWarning, [&] {
      return fmt::format(
          "what was chosen by timing cannot be kept in '{}': the next process chooses again "
          "(SessionOptions::tuning_cache names a folder)",
          tuning_file(plan_->plan(), options_));
    });
  if (lock) lock.unlock();
  flush_.release();

  for (std::size_t i = 0; i < meta().outputs.size(); ++i)
    run->outputs.push_back(state_of(meta(), *meta().outputs[i]) ? TensorView{}
                                                                : output_view(i, *shape));
  run->uploads = in_.copies(input_sizes(*shape));
  if (options_.output_memory == Memory::kHost) run->downloads = out_.copies(output_sizes(*shape));
  // What was timed and cleared for this binding is complete before it can be run on any stream.
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
  const Context::Scope scope(*plan_->context());
  const DevicePlan::WeightsLock lock = plan_->lock_weights();
  acquire(shape);
}

bool CudaExecutor::is_captured(const std::vector<StepLaunches>& steps) const {
  return options_.cuda_graphs && !uses(steps, ControlMechanism::kHost);
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

/// What is put on a stream that captures becomes part of somebody's graph: later launches of that
/// would run beside the session's.
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
  // What the run before leaves in the staging buffer goes to the user's memory first.
  if (has_targets_in_flight_) await();
  CUstream target = stream ? static_cast<CUstream>(stream) : stream_.handle();
  if (stream) refuse_capturing(target);
  const DevicePlan::WeightsLock lock = plan_->lock_weights();
  acquire(shape);
  running_on(*plan_->context(), [&] {
    // Runs share arena and staging: one starts behind the last. Only of the session's own stream it
    // is certain that equal handles are one stream: the user may have destroyed theirs, and that of
    // the thread is another's on another thread.
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
    // At once: the user may destroy the stream before the run is awaited.
    if (!is_own) done_.record(target);
  });
}

void CudaExecutor::await() {
  if (!in_flight_) return;
  in_flight_ = false;
  const bool has_targets = std::exchange(has_targets_in_flight_, false);
  const Context::Scope scope(*plan_->context());
  // What a failed run has left is no output, whoever hears of it first.
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
                                             std::shared_ptr<const HostOperators> operators) {
  return std::make_unique<CudaExecutor>(environment, std::move(plan), options,
                                        std::move(operators));
}

std::unique_ptr<Executor> make_cuda_executor(std::shared_ptr<const plan::PlanData> plan,
                                             const SessionOptions& options,
                                             std::shared_ptr<const HostOperators> operators) {
  return make_cuda_executor(CudaEnvironment::system(), std::move(plan), options,
                            std::move(operators));
}

}  // namespace sinter::runtime
