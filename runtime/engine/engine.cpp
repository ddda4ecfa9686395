// SPDX-License-Identifier: Apache-2.0
#include "sinter/engine.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <unordered_map>

#include "runtime/engine/executor.h"
#include "runtime/engine/scheduler.h"
#include "runtime/format_error.h"
#include "runtime/log.h"

namespace sinter {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_of(Clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

struct Engine::Impl {
  struct Arrival {
    RequestId id;
    GenerationRequest request;
    Callback callback;
    EngineTime time;
    std::shared_ptr<const grammar::Grammar> grammar;
  };
  struct Listener {
    Callback callback;
    int open_samples;
  };

  Impl(std::unique_ptr<engine::Executor> by, EngineOptions with)
      : executor(std::move(by)),
        limits(executor->limits()),
        options(std::move(with)),
        scheduler(limits, options) {}

  /// The grammar of a request's constraint; thread-safe.
  std::shared_ptr<const grammar::Grammar> grammar_of(const SamplingParameters& sampling);
  void run();
  void run_steps();
  void take(Arrival arrival);
  bool take_arrivals();
  bool start_step();
  void finish_step();
  void fail_step(const engine::StepPlan& plan, const std::string& error);
  void deliver();
  void end_all(FinishReason reason, const std::string& error);
  void publish();

  const std::unique_ptr<engine::Executor> executor;
  const engine::ExecutorLimits limits;
  const EngineOptions options;

  // Used by the engine's thread only, except Scheduler::check(), which any thread may call.
  engine::Scheduler scheduler;
  std::deque<engine::StepPlan> in_flight;
  std::unordered_map<RequestId, Listener> listeners;
  std::optional<EngineTime> idle_since;  // since when the executor has been idle
  Clock::duration waited{};              // part of that time without requests
  double idle_seconds = 0, waiting_seconds = 0;

  // Shared by all threads, guarded by the mutex.
  mutable std::mutex mutex;
  std::condition_variable wakes, has_ended;
  std::vector<Arrival> arrivals;
  std::vector<RequestId> cancels;
  RequestId last_request = 0;
  std::int64_t open_requests = 0, waiting_requests = 0;  // waiting: of the requests already taken
  bool is_draining = false, is_stopping = false;
  std::optional<std::string> failure;
  EngineStats stats;

  std::once_flag makes_compiler;  // on the first constraint, because it sorts the vocabulary
  std::unique_ptr<grammar::Compiler> compiler;

  std::thread thread;
};

std::shared_ptr<const grammar::Grammar> Engine::Impl::grammar_of(
    const SamplingParameters& sampling) {
  if (!sampling.constraint) return nullptr;
  std::call_once(makes_compiler, [&] {
    if (limits.vocabulary == 0)
      throw usage_error("a constraint needs an executor that says how many tokens there are");
    compiler = std::make_unique<grammar::Compiler>(limits.vocabulary, options.token_bytes);
  });
  auto grammar = compiler->compile(*sampling.constraint);
  if (grammar::Matcher(grammar, sampling.stop_tokens).is_stuck())
    throw usage_error("no token of the vocabulary can begin a text under the constraint");
  return grammar;
}

void Engine::Impl::run() {
  try {
    run_steps();
  } catch (const std::exception& error) {
    {
      const std::scoped_lock lock(mutex);
      failure = error.what();
    }
    runtime::log(LogLevel::kError,
                 [&] { return fmt::format("the engine has stopped for good: {}", error.what()); });
    in_flight.clear();
    take_arrivals();
    end_all(FinishReason::kError, error.what());
  }
}

void Engine::Impl::run_steps() {
  while (true) {
    if (!take_arrivals()) break;
    const auto most = static_cast<std::size_t>(limits.steps_in_flight);
    if (in_flight.size() < most && scheduler.can_plan_ahead() && start_step()) {
      deliver();  // requests past their deadline
      continue;
    }
    deliver();
    if (!in_flight.empty())
      finish_step();
    else if (scheduler.has_requests())
      throw internal_error("no sequence of {} requests can run", scheduler.request_ids().size());
    publish();
  }
  while (!in_flight.empty()) finish_step();
  end_all(FinishReason::kCancelled, {});
}

/// Takes new requests; waits if there is nothing to do. False: the engine shuts down.
bool Engine::Impl::take_arrivals() {
  std::vector<Arrival> arrived;
  std::vector<RequestId> cancelled;
  {
    std::unique_lock lock(mutex);
    if (in_flight.empty() && !scheduler.has_requests() && !failure) {
      const auto start = Clock::now();
      wakes.wait(lock, [&] { return is_stopping || !arrivals.empty(); });
      waited += Clock::now() - start;
    }
    if (is_stopping && !failure) return false;
    arrived.swap(arrivals);
    cancelled.swap(cancels);
    waiting_requests += std::ssize(arrived);
  }
  for (Arrival& arrival : arrived) take(std::move(arrival));
  for (const RequestId id : cancelled) scheduler.cancel(id);
  return true;
}

void Engine::Impl::take(Arrival arrival) {
  listeners.emplace(arrival.id,
                    Listener{std::move(arrival.callback), arrival.request.sampling.samples});
  scheduler.submit(arrival.id, std::move(arrival.request), arrival.time,
                   std::move(arrival.grammar));
}

bool Engine::Impl::start_step() {
  const auto now = Clock::now();
  engine::StepPlan plan = scheduler.plan(now);
  if (plan.empty()) return false;
  try {
    executor->start(plan);
  } catch (const std::exception& error) {
    fail_step(plan, error.what());
    return true;
  }
  if (in_flight.empty() && idle_since) {
    waiting_seconds += seconds_of(waited);
    idle_seconds += std::max(0.0, seconds_of(now - *idle_since - waited));
  }
  idle_since.reset();
  in_flight.push_back(std::move(plan));
  return true;
}

void Engine::Impl::finish_step() {
  engine::StepResult result;
  try {
    result = executor->finish();
  } catch (const std::exception& error) {
    const engine::StepPlan failed = std::move(in_flight.front());
    fail_step(failed, error.what());
    return;
  }
  const auto now = Clock::now();
  const engine::StepPlan plan = std::move(in_flight.front());
  in_flight.pop_front();
  idle_seconds += result.idle_seconds;
  if (in_flight.empty()) idle_since = now, waited = {};
  scheduler.complete(plan, result, now);
  deliver();
}

/// Reports the failure to the step's requests before recover() decides whether the engine can go
/// on.
void Engine::Impl::fail_step(const engine::StepPlan& plan, const std::string& error) {
  runtime::log(LogLevel::kError, [&] {
    return fmt::format("step {} of the engine has failed, and ends {} texts: {}", plan.number,
                       plan.sequences.size(), error);
  });
  in_flight.clear();
  scheduler.fail(plan, error);
  deliver();
  executor->recover();
  if (!idle_since) idle_since = Clock::now(), waited = {};
}

void Engine::Impl::deliver() {
  for (auto outputs = scheduler.take_outputs(); !outputs.empty();
       outputs = scheduler.take_outputs()) {
    const auto is_end = [](const GenerationOutput& output) {
      return output.finish != FinishReason::kNone;
    };
    // Publishes before the callback, so that a caller who learns of a text's end sees its final
    // statistics.
    if (std::ranges::any_of(outputs, is_end)) publish();
    std::int64_t ended = 0;
    for (const GenerationOutput& output : outputs) {
      const auto found = listeners.find(output.request);
      Listener& listener = found->second;
      try {
        if (listener.callback) listener.callback(output);
      } catch (...) {
        listener.callback = nullptr;
        scheduler.cancel(output.request);
      }
      if (!is_end(output) || --listener.open_samples > 0) continue;
      listeners.erase(found);
      ++ended;
    }
    if (ended == 0) continue;
    const std::scoped_lock lock(mutex);
    open_requests -= ended;
    if (open_requests == 0) has_ended.notify_all();
  }
}

void Engine::Impl::end_all(FinishReason reason, const std::string& error) {
  while (true) {
    for (const RequestId id : scheduler.request_ids()) scheduler.cancel(id, reason, error);
    deliver();
    std::vector<Arrival> late;
    {
      const std::scoped_lock lock(mutex);
      late.swap(arrivals);
    }
    if (late.empty()) break;
    for (Arrival& arrival : late) take(std::move(arrival));
  }
  publish();
}

void Engine::Impl::publish() {
  EngineStats now = scheduler.stats();
  now.idle_seconds = idle_seconds;
  now.waiting_seconds = waiting_seconds;
  const std::scoped_lock lock(mutex);
  stats = now;
  waiting_requests = scheduler.waiting_requests();
}

Engine::Engine(std::unique_ptr<engine::Executor> executor, EngineOptions options) {
  if (executor == nullptr) throw usage_error("an engine needs an executor");
  impl_ = std::make_unique<Impl>(std::move(executor), std::move(options));
  impl_->publish();
  impl_->thread = std::thread([impl = impl_.get()] { impl->run(); });
}

Engine::~Engine() {
  {
    const std::scoped_lock lock(impl_->mutex);
    impl_->is_draining = impl_->is_stopping = true;
  }
  impl_->wakes.notify_all();
  impl_->thread.join();
}

RequestId Engine::submit(GenerationRequest request, Callback callback) {
  impl_->scheduler.check(request);
  auto grammar = impl_->grammar_of(request.sampling);
  const auto now = Clock::now();
  const std::scoped_lock lock(impl_->mutex);
  if (impl_->failure)
    throw EngineStoppedError(ErrorCode::kDevice,
                             fmt::format("the engine has stopped: {}", *impl_->failure));
  if (impl_->is_draining)
    throw EngineStoppedError(ErrorCode::kUsage, "the engine takes no more requests: it is drained");
  const std::int64_t waiting = impl_->waiting_requests + std::ssize(impl_->arrivals);
  if (waiting >= impl_->options.max_waiting)
    throw QueueFullError(ErrorCode::kUsage,
                         fmt::format("{} requests wait, which is the most (max_waiting): try "
                                     "again later",
                                     waiting));
  const RequestId id = ++impl_->last_request;
  ++impl_->open_requests;
  impl_->arrivals.push_back({id, std::move(request), std::move(callback), now, std::move(grammar)});
  impl_->wakes.notify_all();
  return id;
}

void Engine::prepare(const SamplingParameters& sampling) {
  impl_->scheduler.check_constraint(sampling);
  impl_->grammar_of(sampling);
}

void Engine::cancel(RequestId request) {
  const std::scoped_lock lock(impl_->mutex);
  impl_->cancels.push_back(request);
}

void Engine::drain() {
  if (std::this_thread::get_id() == impl_->thread.get_id())
    throw usage_error("a callback cannot wait for all requests to end");
  std::unique_lock lock(impl_->mutex);
  impl_->is_draining = true;
  impl_->has_ended.wait(lock, [&] { return impl_->open_requests == 0; });
}

std::optional<std::string> Engine::failure() const {
  const std::scoped_lock lock(impl_->mutex);
  return impl_->failure;
}

EngineStats Engine::stats() const {
  const std::scoped_lock lock(impl_->mutex);
  return impl_->stats;
}

std::string_view to_string(FinishReason reason) {
  switch (reason) {
    case FinishReason::kNone: return "none";
    case FinishReason::kStop: return "stop";
    case FinishReason::kLength: return "length";
    case FinishReason::kCancelled: return "cancelled";
    case FinishReason::kDeadline: return "deadline";
    case FinishReason::kError: return "error";
  }
  return "none";
}

double DurationHistogram::upper_seconds(int bucket) {
  return 1e-4 * static_cast<double>(std::uint64_t{1} << bucket);
}

void DurationHistogram::add(std::chrono::nanoseconds duration) {
  const double value = std::max(0.0, std::chrono::duration<double>(duration).count());
  int bucket = 0;
  while (bucket + 1 < kBuckets && value > upper_seconds(bucket)) ++bucket;
  ++counts[static_cast<std::size_t>(bucket)];
  ++count;
  seconds += value;
}

}  // namespace sinter
