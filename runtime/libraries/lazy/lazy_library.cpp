// SPDX-License-Identifier: Apache-2.0
#include "runtime/libraries/lazy/lazy_library.h"

#include <dlfcn.h>

#include "runtime/format_error.h"

namespace sinter::libraries {

void* LazyLibrary::find(const char* function) {
  void* handle = handle_.load();
  if (handle == nullptr) {
    handle = ::dlopen(file_, RTLD_NOW | RTLD_LOCAL);  // concurrent calls get the same library
    if (handle == nullptr) {
      const char* reason = ::dlerror();
      throw device_error("{} cannot be loaded ({}): {}", what_,
                         reason != nullptr ? reason : "no reason is given", install_);
    }
    handle_.store(handle);
  }
  void* found = ::dlsym(handle, function);
  if (found == nullptr)
    throw device_error("{} has no function '{}': {} is another version than this was built for",
                       what_, function, file_);
  return found;
}

}  // namespace sinter::libraries
