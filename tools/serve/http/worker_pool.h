// SPDX-License-Identifier: Apache-2.0
// Threads for handlers: as many as are needed, up to a number.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace sinter::tools::http {

class WorkerPool {
 public:
  WorkerPool(int threads, std::size_t queued);
  /// Waits for the jobs that run; those that wait are dropped.
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  /// From any thread. False: too many wait. A job does not throw.
  bool post(std::function<void()> job);
  /// The same however many wait: for what ends something.
  void post_always(std::function<void()> job);

 private:
  void add(std::function<void()> job);
  void work();

  const std::size_t most_threads_, most_queued_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<std::function<void()>> jobs_;
  std::size_t idle_ = 0;
  bool is_ending_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace sinter::tools::http
