// SPDX-License-Identifier: Apache-2.0
// The process's pool: its settings, and its life from first use to fork and exit.
#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

#include <fmt/ranges.h>
#include <pthread.h>
#include <sinter/threads.h>

#include "runtime/format_error.h"
#include "runtime/limits/limits.h"
#include "runtime/threads/thread_pool.h"

namespace sinter {
namespace runtime::threads {
namespace {

/// Never destroyed: objects that outlive main may still compute.
struct Shared {
  std::mutex mutex;
  ThreadPoolOptions options;  // the program's last setting
  std::atomic<ThreadPool*> current{nullptr};
  std::vector<std::unique_ptr<ThreadPool>> all;  // including replaced pools, which may still be in
                                                 // use
};

Shared& shared_state() {
  static Shared* const state = [] {
    auto* fresh = new Shared;
    // After fork the child has no threads of its parent's: it abandons the pool and creates another
    // with the same options.
    ::pthread_atfork([] { shared_state().mutex.lock(); }, [] { shared_state().mutex.unlock(); },
                     [] {
                       shared_state().current.store(nullptr);
                       shared_state().mutex.unlock();
                     });
    return fresh;
  }();
  return *state;
}

/// Stops the threads at process exit, or when the library is unloaded.
struct AtExit {
  ~AtExit() {
    if (ThreadPool* pool = shared_state().current.load()) pool->stop();
  }
};

std::string places() { return fmt::format("1 to {}", kMaxThreads); }

int threads_of_environment() {
  const char* text = std::getenv("SINTER_THREADS");
  if (!text || *text == '\0') return 0;
  int threads = 0;
  const auto [end, problem] = std::from_chars(text, text + std::strlen(text), threads);
  if (problem != std::errc() || *end != '\0' || threads < 1 || threads > kMaxThreads)
    throw usage_error("SINTER_THREADS is '{}': expected a number of threads, {}", text, places());
  return threads;
}

ThreadPoolOptions complete(ThreadPoolOptions options) {
  if (options.threads < 0 || options.threads > kMaxThreads)
    throw usage_error(
        "a pool of {} threads: expected {}, or 0 for as many as there are processors to use",
        options.threads, places());
  if (options.spin_microseconds < 0)
    throw usage_error("spin_microseconds is {}: expected 0 or more", options.spin_microseconds);
  const std::vector<int> allowed = limits::allowed_cpus();
  for (const int cpu : options.cpus)
    if (!std::ranges::binary_search(allowed, cpu))
      throw usage_error("processor {} for the thread pool: this thread may run on {}", cpu,
                        fmt::join(allowed, ", "));
  if (options.threads == 0) options.threads = threads_of_environment();
  if (options.threads == 0 && !options.cpus.empty()) {
    std::vector<int> different = options.cpus;
    std::ranges::sort(different);
    different.erase(std::unique(different.begin(), different.end()), different.end());
    options.threads = std::min(static_cast<int>(different.size()), kMaxThreads);
  }
  if (options.threads == 0)
    options.threads =
        std::min(limits::usable_cpus(allowed.size(), limits::cpu_quota()), kMaxThreads);
  // Fixed now: threads inherit the affinity of the thread that starts them, which may be another.
  if (options.cpus.empty()) options.cpus = allowed;
  return options;
}

/// The caller holds the state's mutex.
ThreadPool& make_current(Shared& state, const ThreadPoolOptions& options) {
  static const AtExit at_exit;
  state.all.push_back(std::make_unique<ThreadPool>(complete(options)));
  state.options = options;
  state.current.store(state.all.back().get());
  return *state.all.back();
}

}  // namespace

ThreadPool& ThreadPool::shared() {
  Shared& state = shared_state();
  if (ThreadPool* pool = state.current.load(std::memory_order_acquire)) return *pool;
  const std::lock_guard lock(state.mutex);
  if (ThreadPool* pool = state.current.load()) return *pool;
  return make_current(state, state.options);
}

}  // namespace runtime::threads

void set_thread_pool(const ThreadPoolOptions& options) {
  auto& state = runtime::threads::shared_state();
  runtime::threads::ThreadPool* before = nullptr;
  {
    const std::lock_guard lock(state.mutex);
    before = state.current.load();
    runtime::threads::make_current(state, options);
  }
  if (before) before->stop();
}

int thread_pool_size() { return runtime::threads::ThreadPool::shared().size(); }

}  // namespace sinter
