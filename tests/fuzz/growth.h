// SPDX-License-Identifier: Apache-2.0
// Memory that one input takes: more than so much is a finding, as a crash is.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdio>
#include <cstdlib>

extern "C" {
int __sanitizer_install_malloc_and_free_hooks(void (*malloc_hook)(const volatile void*,
                                                                  std::size_t),
                                              void (*free_hook)(const volatile void*));
std::size_t __sanitizer_get_allocated_size(const volatile void* pointer);
}

namespace sinter::tests {

inline std::atomic<std::ptrdiff_t> live_bytes = 0;
inline std::ptrdiff_t bytes_at_begin = 0;
inline std::ptrdiff_t most_growth = std::ptrdiff_t{64} << 20;

/// Aborts where what is allocated has grown by more than 64 MB since grows_from_here().
inline void watch_growth() {
  __sanitizer_install_malloc_and_free_hooks(
      [](const volatile void*, std::size_t size) {
        const auto now = live_bytes += static_cast<std::ptrdiff_t>(size);
        if (now - bytes_at_begin <= most_growth) return;
        std::fprintf(stderr, "an input takes more than %td MB\n", most_growth >> 20);
        std::abort();
      },
      [](const volatile void* pointer) {
        if (pointer != nullptr)
          live_bytes -= static_cast<std::ptrdiff_t>(__sanitizer_get_allocated_size(pointer));
      });
}
inline void grows_from_here() { bytes_at_begin = live_bytes; }

}  // namespace sinter::tests
