// Measurements of bound runs: compute alone, and step by step.
#include <algorithm>

#include "runtime/cuda/cuda_executor.h"

namespace sinter::runtime {
namespace {

using graphs::Context;
using graphs::Event;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

BoundRun& CudaExecutor::last_run(const char* what) {
  if (!last_run_) throw Error(ErrorCode::kUsage, std::string(what) + " was asked for before a run");
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
  CUstream stream = stream_.handle();
  if (options_.cuda_graphs && !run.compute_graph) {
    run.compute_graph.emplace(
        graphs::Graph::capture(plan_->context(), stream, [&](CUstream s) { put_compute(run, s); }));
    run.compute_graph->upload(stream);
  }
  const Event start(plan_->context(), true);
  const Event stop(plan_->context(), true);
  // What goes before keeps the GPU busy while the host queues the timed run: else its launch would
  // be measured too. The run itself comes first, so that instruction caches hold its kernels as
  // they do when one model runs again and again; cold: then the data are flushed from the L2.
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
  // A flush takes at least as long as queueing this many steps with their events.
  constexpr std::size_t kStepsPerFlush = 6;
  const Context::Scope scope(*plan_->context());
  BoundRun& run = last_run("profile");
  CUstream stream = stream_.handle();

  std::vector<Event> events;
  for (std::size_t i = 0; i <= run.steps.size(); ++i) events.emplace_back(plan_->context(), true);
  std::vector<std::vector<double>> times(run.steps.size());
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    put_compute(run, stream);
    for (std::size_t i = 0; i <= run.steps.size() / kStepsPerFlush; ++i) flush_.flush(stream);
    events[0].record(stream);
    for (std::size_t i = 0; i < run.steps.size(); ++i) {
      run.steps[i].launch(driver(), stream);
      events[i + 1].record(stream);
    }
    events.back().synchronize();
    for (std::size_t i = 0; i < run.steps.size(); ++i)
      times[i].push_back(events[i + 1].microseconds_since(events[i]));
  }

  std::vector<StepTime> result;
  const auto& expressions = run.shape->expressions;
  for (std::size_t i = 0; i < run.steps.size(); ++i) {
    const auto& step = *meta().steps[run.steps[i].index];
    StepTime time;
    time.name = step.name;
    time.microseconds = run.steps[i].launches() > 0 ? median(times[i]) : 0;
    time.bytes = static_cast<std::uint64_t>(expressions[step.bytes_read]) +
                 static_cast<std::uint64_t>(expressions[step.bytes_written]);
    time.flops = static_cast<std::uint64_t>(expressions[step.flops]);
    time.how = run.steps[i].how();
    result.push_back(std::move(time));
  }
  return result;
}

}  // namespace sinter::runtime
