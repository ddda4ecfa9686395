// SPDX-License-Identifier: Apache-2.0
#include "runtime/threads/openmp.h"

#include <atomic>
#include <initializer_list>

#include <dlfcn.h>

namespace sinter::runtime::threads {
namespace {

/// The OpenMP runtime that a library brought along (libgomp, libomp and libiomp5 share these
/// names); Sinter links none.
struct OpenMp {
  void (*set)(int) = nullptr;
  int (*get)() = nullptr;

  explicit OpenMp(void* library) {
    set = reinterpret_cast<void (*)(int)>(::dlsym(library, "omp_set_num_threads"));
    get = reinterpret_cast<int (*)()>(::dlsym(library, "omp_get_max_threads"));
  }
  bool is_whole() const { return set != nullptr && get != nullptr; }
};

std::atomic<const OpenMp*> found = nullptr;

/// Finds an OpenMP runtime in the global scope, or one opened with RTLD_LOCAL.
const OpenMp* look() {
  const auto take = [](void* library) {
    const OpenMp openmp(library);
    if (!openmp.is_whole()) return false;
    const OpenMp* expected = nullptr;
    const auto* kept = new OpenMp(openmp);  // never freed: threads read it during static
                                            // destruction
    if (!found.compare_exchange_strong(expected, kept)) delete kept;
    return true;
  };
  if (take(RTLD_DEFAULT)) return found.load();
  for (const char* name : {"libgomp.so.1", "libomp.so.5", "libiomp5.so"})
    if (void* library = ::dlopen(name, RTLD_LAZY | RTLD_NOLOAD);
        library != nullptr && take(library))
      return found.load();
  return nullptr;
}

/// A thread's request. OpenMP's number of threads is also a thread-local variable.
struct Wish {
  int wanted = 0;  // nesting depth
  bool holds = false;
  int before = 0;
};
thread_local Wish wish;

void want() {
  [[maybe_unused]] static const bool looked = has_openmp();
  ++wish.wanted;
  keep_openmp_out();
}

}  // namespace

bool has_openmp() { return found.load() != nullptr || look() != nullptr; }

void keep_openmp_out() {
  if (wish.wanted == 0 || wish.holds) return;
  const OpenMp* openmp = found.load(std::memory_order_acquire);
  if (openmp == nullptr) return;
  wish.before = openmp->get();
  openmp->set(1);
  wish.holds = true;
}

void stay_out_of_openmp() { want(); }

NoOpenMpTeams::NoOpenMpTeams() { want(); }

NoOpenMpTeams::~NoOpenMpTeams() {
  if (--wish.wanted > 0 || !wish.holds) return;
  found.load()->set(wish.before);
  wish.holds = false;
}

}  // namespace sinter::runtime::threads
