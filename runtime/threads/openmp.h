// SPDX-License-Identifier: Apache-2.0
// Limits OpenMP teams in libraries that the pool's threads call to one thread. Such a library, and
// OpenMP with it, may be loaded while threads already compute: their requests apply from then on.
#pragma once

namespace sinter::runtime::threads {

/// True if the process has an OpenMP runtime. Looks again at each call until one is found.
bool has_openmp();

/// From now on, calls of this thread start no OpenMP team.
void stay_out_of_openmp();

/// The same for this object's lifetime; then the thread's previous setting is restored.
class NoOpenMpTeams {
 public:
  NoOpenMpTeams();
  ~NoOpenMpTeams();
  NoOpenMpTeams(const NoOpenMpTeams&) = delete;
  NoOpenMpTeams& operator=(const NoOpenMpTeams&) = delete;
};

/// Call before a library that has_openmp() was asked about: applies this thread's request, even if
/// it was made before the library was loaded.
void keep_openmp_out();

}  // namespace sinter::runtime::threads
