// SPDX-License-Identifier: Apache-2.0
// The threads that plans for the CPU are computed with: one pool for a process, shared by its
// sessions.
//
// A session's run is divided into parts. The calling thread takes parts, and so do threads of the
// pool that have nothing else to do: never more threads at once than the pool's size, callers among
// them. Results do not depend on how many took part. A child of fork() gets a pool of its own with
// the same options. Where the system starts fewer threads than the pool has, those that it started
// compute, and the logger is told.
#pragma once

#include <vector>

#include <sinter/export.h>

namespace sinter {

struct ThreadPoolOptions {
  /// Threads that compute at once, the callers among them; at most 256. 0: the environment's
  /// SINTER_THREADS or else, without `cpus`, as many processors as the calling thread may run on
  /// and its cgroup's quota allows (rounded down), with `cpus` as many as there are of those.
  int threads = 0;
  /// Processors that the pool's own threads may run on, by their number; empty: those that the
  /// calling thread may run on now. Calling threads stay where their owner put them.
  std::vector<int> cpus;
  /// How long a thread that waits for work or for another's part looks for it before it sleeps:
  /// what others could compute in that time against some 5 to 50 microseconds for waking up.
  int spin_microseconds = 50;
};

/// Sets the process's pool. Sessions that were made before use at most as many threads as they did;
/// runs that are under way end with fewer. Throws Error(kUsage) for a number out of range, a
/// processor that the calling thread may not run on, or an invalid SINTER_THREADS.
SINTER_API void set_thread_pool(const ThreadPoolOptions& options);

/// The pool's threads, callers included: what SessionOptions::threads = 0 stands for. Makes the
/// pool if nobody has. Throws Error(kUsage) for an invalid SINTER_THREADS.
SINTER_API int thread_pool_size();

}  // namespace sinter
