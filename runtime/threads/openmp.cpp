// SPDX-License-Identifier: Apache-2.0
#include "runtime/threads/openmp.h"

#include <dlfcn.h>

namespace sinter::runtime::threads {
namespace {

/// What a library brought along (libgomp, libomp, libiomp5: all have these names); we link none.
struct OpenMp {
  void (*set)(int) = nullptr;
  int (*get)() = nullptr;

  OpenMp() {
    set = reinterpret_cast<void (*)(int)>(::dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
    get = reinterpret_cast<int (*)()>(::dlsym(RTLD_DEFAULT, "omp_get_max_threads"));
    if (!set || !get) set = nullptr, get = nullptr;
  }
};

const OpenMp& openmp() {
  static const OpenMp found;
  return found;
}

}  // namespace

bool has_openmp() { return openmp().set != nullptr; }

// The number is a variable of each thread.
void stay_out_of_openmp() {
  if (has_openmp()) openmp().set(1);
}

NoOpenMpTeams::NoOpenMpTeams() {
  if (!has_openmp()) return;
  before_ = openmp().get();
  openmp().set(1);
}

NoOpenMpTeams::~NoOpenMpTeams() {
  if (before_ > 0) openmp().set(before_);
}

}  // namespace sinter::runtime::threads
