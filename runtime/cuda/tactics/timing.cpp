// SPDX-License-Identifier: Apache-2.0
// Measurements of bound runs: compute alone, and step by step.
#include <algorithm>

#include "runtime/cuda/cuda_executor.h"
#include "runtime/cuda/memory/free_memory.h"
#include "runtime/cuda/peak_rates.h"
#include "runtime/format_error.h"

namespace sinter::runtime {
namespace {

using graphs::Context;
using graphs::Event;

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

/// A profile entry without its time.
PartTime describe(const Context& context, const Launch& work) {
  PartTime part;
  part.launches = launches_of(work);
  if (const auto* kernel = std::get_if<KernelLaunch>(&work)) {
    const graphs::LaunchConfig& config = kernel->config;
    const graphs::KernelResources resources =
        graphs::resources_of(context, kernel->function, config);
    KernelUse use;
    use.blocks = std::uint64_t{config.grid[0]} * config.grid[1] * config.grid[2];
    use.threads = config.block[0] * config.block[1] * config.block[2];
    use.registers = resources.registers;
    use.spilled_bytes = resources.local_bytes;
    use.shared_bytes = resources.shared_bytes;
    use.resident_blocks = resources.resident_blocks;
    use.occupancy = resources.occupancy;
    use.schedule = kernel->variant->schedule;
    part.name = kernel->variant->function;
    part.kernel = std::move(use);
  } else {
    part.name = std::holds_alternative<MatmulLaunch>(work) ? "cuBLASLt"
                : std::holds_alternative<ConvLaunch>(work) ? "cuDNN"
                : std::holds_alternative<CopyLaunch>(work) ? "copy"
                                                           : "fill";
  }
  return part;
}

/// Profile row for weight copies. They overlap the steps, so rows may sum to more than the run.
StepTime copies_of_weights(const StreamedRun& run, double microseconds) {
  StepTime time;
  time.name = "copies of weights";
  time.bytes = run.bytes;
  time.microseconds = microseconds;
  time.arithmetic = plan::fb::EnumNameArithmetic(plan::fb::Arithmetic::Scalar);
  time.how = fmt::format("{} of pinned host memory, beside the steps", format_bytes(run.bytes));
  time.parts.push_back({"host to device", microseconds, run.schedule.copies.size(), std::nullopt});
  return time;
}

/// Two buffers so large that a copy between them finds nothing in the L2.
std::pair<graphs::DeviceMemory, graphs::DeviceMemory> copy_buffers(
    const graphs::ContextPtr& context) {
  constexpr std::uint64_t kTimesL2 = 16, kLeast = 16u << 20;
  std::uint64_t bytes = std::max(kLeast, kTimesL2 * context->properties().l2_bytes);
  while (bytes > kLeast && 2 * bytes > context->memory().free_bytes) bytes /= 2;
  graphs::DeviceMemory source(context, bytes);
  return {std::move(source), graphs::DeviceMemory(context, bytes)};
}

}  // namespace

BoundRun& CudaExecutor::last_run(const char* what) {
  if (!last_run_) throw usage_error(std::string(what) + " was asked for before a run");
  await();
  return *last_run_;
}

void CudaExecutor::start_compute(BoundRun& run) {
  if (run.compute_graph)
    run.compute_graph->launch(stream_.handle());
  else
    put_compute(run, stream_.handle());
}

double CudaExecutor::time_compute(bool cold) {
  const Context::Scope scope(*plan_->context());
  BoundRun& run = last_run("time_compute");
  const DevicePlan::WeightsLock lock = plan_->lock_weights();
  CUstream stream = stream_.handle();
  if (is_captured(run.steps) && !run.compute_graph) {
    run.compute_graph.emplace(
        graphs::Graph::capture(plan_->context(), stream, [&](CUstream s) { put_compute(run, s); }));
    run.compute_graph->upload(stream);
  }
  const Event start(plan_->context(), true);
  const Event stop(plan_->context(), true);
  // Preceding work keeps the GPU busy while the host enqueues the timed run; otherwise the launch
  // would be measured, too. That work is the run itself, which warms the instruction caches as
  // repeated runs do; if `cold`, a flush of the L2 follows.
  const int runs_before = cold ? 1 : 3;
  for (int i = 0; i < runs_before; ++i) start_compute(run);
  if (cold) flush_.flush(stream);
  start.record(stream);
  start_compute(run);
  stop.record(stream);
  stop.synchronize();
  return stop.microseconds_since(start);
}

TransferTimes CudaExecutor::time_transfers() {
  const Context::Scope scope(*plan_->context());
  const BoundRun& run = last_run("time_transfers");
  CUstream stream = stream_.handle();
  const Event start(plan_->context(), true), middle(plan_->context(), true),
      stop(plan_->context(), true);
  flush_.flush(stream);
  start.record(stream);
  put_uploads(run, stream);
  middle.record(stream);
  put_downloads(run, stream);
  stop.record(stream);
  stop.synchronize();
  return {middle.microseconds_since(start), stop.microseconds_since(middle)};
}

std::vector<StepTime> CudaExecutor::profile() {
  constexpr int kRepeats = 5;
  // A flush takes at least as long as enqueueing 6 parts with their events.
  constexpr std::size_t kPartsPerFlush = 6;
  const Context::Scope scope(*plan_->context());
  BoundRun& run = last_run("profile");
  const DevicePlan::WeightsLock lock = plan_->lock_weights();
  CUstream stream = stream_.handle();
  // Launches and, between them, copies of weights for the next ones.
  struct Timed {
    const Launch* work = nullptr;  // null: copies of weights
    std::size_t unit = 0;
  };
  std::vector<Timed> works;
  std::size_t next_unit = 0;
  for (std::size_t i = 0; i < run.steps.size(); ++i) {
    for (; run.weights && next_unit <= run.weights->unit_of[i]; ++next_unit)
      if (WeightStream::copies_for(*run.weights, next_unit) > 0)
        works.push_back({nullptr, next_unit});
    for (const Launch& work : run.steps[i].works) works.push_back({&work, 0});
  }

  // The last two events enclose nothing: they measure an event's own cost.
  const std::size_t count = works.size();
  std::vector<Event> events;
  for (std::size_t i = 0; i < count + 2; ++i) events.emplace_back(plan_->context(), true);
  std::vector<std::vector<double>> times(count);
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    put_compute(run, stream);
    for (std::size_t i = 0; i <= count / kPartsPerFlush; ++i) flush_.flush(stream);
    events[0].record(stream);
    for (std::size_t i = 0; i < count; ++i) {
      if (works[i].work != nullptr)
        launch(*works[i].work, driver(), stream);
      else
        weight_stream_.load(*run.weights, works[i].unit, stream);
      events[i + 1].record(stream);
    }
    events.back().record(stream);
    events.back().synchronize();
    const double timer = events[count + 1].microseconds_since(events[count]);
    for (std::size_t i = 0; i < count; ++i)
      times[i].push_back(std::max(0.0, events[i + 1].microseconds_since(events[i]) - timer));
  }

  std::vector<StepTime> result;
  const auto& expressions = run.shape->expressions;
  double copies = 0;
  std::size_t next = 0;
  const auto time_of_next = [&] {
    for (; works[next].work == nullptr; ++next) copies += median(times[next]);
    return median(times[next++]);
  };
  const std::vector<std::size_t> runs = runs_of(run.steps, control_.iterations());
  for (std::size_t i = 0; i < run.steps.size(); ++i) {
    const StepLaunches& bound = run.steps[i];
    const auto& step = *meta().steps[bound.index];
    StepTime time;
    time.name = step.name;
    time.bytes = runs[i] * (static_cast<std::uint64_t>(expressions[step.bytes_read]) +
                            static_cast<std::uint64_t>(expressions[step.bytes_written]));
    time.flops = runs[i] * static_cast<std::uint64_t>(expressions[step.flops]);
    time.how = bound.how();
    time.arithmetic = plan::fb::EnumNameArithmetic(step.arithmetic);
    time.origins = step.origins;
    if (!run.places.empty()) {
      time.stream = run.places[i].stream;
      for (const std::size_t other : run.places[i].waits)
        time.waits.push_back(meta().steps[run.steps[other].index]->name);
    }
    for (const Launch& work : bound.works) {
      time.parts.push_back(describe(*plan_->context(), work));
      time.parts.back().microseconds = time_of_next() * static_cast<double>(runs[i]);
      time.microseconds += time.parts.back().microseconds;
    }
    result.push_back(std::move(time));
  }
  if (run.weights && run.weights->bytes > 0)
    result.push_back(copies_of_weights(*run.weights, copies));
  return result;
}

MachineRates CudaExecutor::measure_rates() {
  constexpr int kRepeats = 7;
  const Context::Scope scope(*plan_->context());
  if (in_flight_) await();
  const graphs::DeviceProperties& gpu = plan_->context()->properties();
  CUstream stream = stream_.handle();
  MachineRates rates;
  rates.machine = gpu.name;
  rates.operations_per_second = peak_rates(gpu);
  rates.operations_from =
      fmt::format("stated for {}: {} multiprocessors at {:.2f} GHz, dense tensor cores",
                  gpu.architecture(), gpu.multiprocessors, gpu.clock_hz * 1e-9);
  rates.timing =
      "stream run: an event behind each kernel or library call, less what an event alone takes; "
      "caches cold before the first";

  const auto sizes = copy_buffers(plan_->context());
  const Event start(plan_->context(), true), middle(plan_->context(), true),
      stop(plan_->context(), true);
  std::vector<double> copies, empties;
  for (int repeat = 0; repeat <= kRepeats; ++repeat) {
    start.record(stream);
    driver().memcpy_dtod_async(sizes.second.address(), sizes.first.address(), sizes.first.size(),
                               stream);
    stop.record(stream);
    stop.synchronize();
    if (repeat > 0) copies.push_back(stop.microseconds_since(start));
    // A preceding copy keeps the GPU busy while the host enqueues the timed one.
    driver().memcpy_dtod_async(sizes.second.address(), sizes.first.address(), sizes.first.size(),
                               stream);
    start.record(stream);
    driver().memset_d8_async(sizes.first.address(), 0, 1, stream);
    middle.record(stream);
    stop.record(stream);
    stop.synchronize();
    if (repeat > 0)
      empties.push_back(
          std::max(0.0, middle.microseconds_since(start) - stop.microseconds_since(middle)));
  }
  rates.copy_bytes = 2 * sizes.first.size();
  if (const double microseconds = median(copies); microseconds > 0)
    rates.copy_bytes_per_second = static_cast<double>(rates.copy_bytes) / microseconds * 1e6;
  rates.empty_step_microseconds = median(empties);
  return rates;
}

}  // namespace sinter::runtime
