// SPDX-License-Identifier: Apache-2.0
#include "tools/serve/http/worker_pool.h"

#include <system_error>
#include <utility>

namespace sinter::tools::http {

WorkerPool::WorkerPool(int threads, std::size_t queued)
    : most_threads_(static_cast<std::size_t>(threads)), most_queued_(queued) {}

WorkerPool::~WorkerPool() {
  std::deque<std::function<void()>> dropped;
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
    dropped.swap(jobs_);
  }
  arrived_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

bool WorkerPool::post(std::function<void()> job) {
  const std::lock_guard lock(mutex_);
  if (is_ending_ || jobs_.size() >= most_queued_) return false;
  add(std::move(job));
  return true;
}

void WorkerPool::post_always(std::function<void()> job) {
  const std::lock_guard lock(mutex_);
  if (!is_ending_) add(std::move(job));
}

void WorkerPool::add(std::function<void()> job) {
  jobs_.push_back(std::move(job));
  if (jobs_.size() > idle_ && threads_.size() < most_threads_) {
    try {
      threads_.emplace_back([this] { work(); });
    } catch (const std::system_error&) {
      // No thread is to be had: those that there are take the job, when there is one.
      if (threads_.empty()) {
        jobs_.pop_back();
        throw;
      }
    }
  }
  arrived_.notify_one();
}

void WorkerPool::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    ++idle_;
    arrived_.wait(lock, [&] { return is_ending_ || !jobs_.empty(); });
    --idle_;
    if (is_ending_) return;
    auto job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    job();
    job = nullptr;  // what it holds ends outside of the lock
    lock.lock();
  }
}

}  // namespace sinter::tools::http
