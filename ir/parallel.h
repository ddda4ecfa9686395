// SPDX-License-Identifier: Apache-2.0
// Parallel execution of independent jobs.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace sinter::ir {

/// Calls `job(i)` for i = 0 .. count - 1 on up to `threads` threads (0: all of the machine's) and
/// returns when all have finished. After an exception no further jobs start; that of the lowest
/// index is rethrown.
template <class Job>
void for_each_job(std::size_t count, std::size_t threads, const Job& job) {
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;  // guards the following
  std::size_t failed = count;
  std::exception_ptr failure;
  const auto work = [&] {
    for (std::size_t i = next++; i < count; i = next++) try {
        job(i);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (i < failed) {
          failed = i;
          failure = std::current_exception();
        }
        next = count;
      }
  };
  if (threads == 0) threads = std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::thread> team;
  for (std::size_t t = 1; t < std::min(threads, count); ++t) team.emplace_back(work);
  work();
  for (std::thread& thread : team) thread.join();
  if (failure) std::rethrow_exception(failure);
}

/// The same for ranges [begin, end) of 0 .. count - 1, at most `length` long: ranges, and thus sums
/// of their results, do not depend on the number of threads.
template <class Job>
void for_each_range(std::size_t count, std::size_t length, const Job& job) {
  for_each_job((count + length - 1) / length, 0,
               [&](std::size_t i) { job(i * length, std::min(count, (i + 1) * length)); });
}

}  // namespace sinter::ir
