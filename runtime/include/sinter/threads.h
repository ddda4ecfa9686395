// SPDX-License-Identifier: Apache-2.0
// The thread pool of CPU plans: one per process, shared by its sessions.
//
// A session's run is divided into parts. The calling thread and idle threads of the pool take
// parts; the pool's size limits the number of threads, callers included. Results do not depend on
// the number of threads. A child of fork() gets its own pool with the same options. If the system
// cannot start all threads, the pool uses those that it started, and logs a warning.
#pragma once

#include <vector>

#include <sinter/export.h>

namespace sinter {

struct ThreadPoolOptions {
  /// Number of threads that compute at once, callers included; at most 256. 0: SINTER_THREADS of
  /// the environment or, without it, the number of `cpus`. If `cpus` is empty, too: the processors
  /// that the calling thread may use, limited by its cgroup's quota (rounded down).
  int threads = 0;
  /// Processor numbers that the pool's own threads may run on; empty: those of the calling thread
  /// at this call. Calling threads keep their own affinity.
  std::vector<int> cpus;
  /// How long an idle thread spins before it sleeps; up to eight times as long while a session
  /// runs. Spinning takes processor time from other threads; a wakeup costs 5 to 50 microseconds.
  int spin_microseconds = 50;
};

/// Replaces the process's pool. Existing sessions use at most as many threads as before; runs in
/// flight finish with fewer. Throws Error(kUsage) for a number out of range, a processor that the
/// calling thread may not run on, or an invalid SINTER_THREADS.
SINTER_API void set_thread_pool(const ThreadPoolOptions& options);

/// The pool's number of threads, callers included: the meaning of SessionOptions::threads = 0.
/// Creates the pool at the first call. Throws Error(kUsage) for an invalid SINTER_THREADS.
SINTER_API int thread_pool_size();

}  // namespace sinter
