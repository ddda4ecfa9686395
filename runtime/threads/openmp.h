// SPDX-License-Identifier: Apache-2.0
// OpenMP teams of the libraries that our threads call: they are always of one thread. Such a
// library, and OpenMP with it, may be opened while threads compute already: what they asked for
// holds from then on.
#pragma once

namespace sinter::runtime::threads {

/// True if the process has an OpenMP runtime that can be told. Looks anew until one is there.
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
};

/// In front of a call of a library that has_openmp() was asked about: what the calling thread wants
/// holds, though it wanted it before the library was there.
void keep_openmp_out();

}  // namespace sinter::runtime::threads
