// SPDX-License-Identifier: Apache-2.0
// OpenMP teams of the libraries that our threads call: they are always of one thread.
#pragma once

namespace sinter::runtime::threads {

/// True if the process has an OpenMP runtime that can be told.
bool has_openmp();

/// Calls of the calling thread start no OpenMP team from now on.
void stay_out_of_openmp();

/// The same for as long as this lives; then the thread's own setting holds again.
class NoOpenMpTeams {
 public:
  NoOpenMpTeams();
  ~NoOpenMpTeams();
  NoOpenMpTeams(const NoOpenMpTeams&) = delete;
  NoOpenMpTeams& operator=(const NoOpenMpTeams&) = delete;

 private:
  int before_ = 0;
};

}  // namespace sinter::runtime::threads
