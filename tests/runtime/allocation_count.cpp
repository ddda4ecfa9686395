#include "allocation_count.h"

#include <atomic>
#include <cstdlib>
#include <new>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SINTER_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SINTER_SANITIZED 1
#endif
#endif

namespace {
std::atomic<std::size_t> count{0};
}

namespace sinter::testing {

bool counts_allocations() {
#ifdef SINTER_SANITIZED
  return false;
#else
  return true;
#endif
}
std::size_t allocations() { return count; }

}  // namespace sinter::testing

#ifndef SINTER_SANITIZED

// The other forms call these.
void* operator new(std::size_t bytes) {
  ++count;
  if (void* data = std::malloc(bytes > 0 ? bytes : 1)) return data;
  throw std::bad_alloc();
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  ++count;
  const auto align = static_cast<std::size_t>(alignment);
  if (void* data = std::aligned_alloc(align, (bytes + align) / align * align)) return data;
  throw std::bad_alloc();
}
void operator delete(void* data) noexcept { std::free(data); }
void operator delete(void* data, std::size_t) noexcept { std::free(data); }
void operator delete(void* data, std::align_val_t) noexcept { std::free(data); }
void operator delete(void* data, std::size_t, std::align_val_t) noexcept { std::free(data); }

#endif
