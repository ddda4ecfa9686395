// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/host_buffer.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include <fmt/format.h>
#include <sinter/error.h>
#include <sys/mman.h>
#include <unistd.h>

namespace sinter::runtime::cpu {
namespace {

/// Streaming reads are twice as fast from large pages, which Linux provides on request.
constexpr std::size_t kLargePage = std::size_t{2} << 20;
constexpr std::size_t kCacheLine = 64;
/// From here on memory is mapped: zeros that take no memory until they are touched, as caches of
/// tokens that never come.
constexpr std::size_t kMapped = std::size_t{128} << 10;

constexpr std::size_t rounded_up(std::size_t size, std::size_t to) {
  return (size + to - 1) / to * to;
}

std::size_t mapped_size(std::size_t bytes) {
  return rounded_up(bytes, bytes >= kLargePage ? kLargePage : kMapped);
}

/// Pages of zeros, at a large page's address if they may have some; null if there are none.
void* map_zeros(std::size_t bytes) {
  const bool is_large = bytes >= kLargePage;
  const std::size_t size = mapped_size(bytes), whole = is_large ? size + kLargePage : size;
  void* const mapped =
      ::mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  if (!is_large) return mapped;
  auto* const start = static_cast<std::byte*>(mapped);
  const std::size_t before = rounded_up(reinterpret_cast<std::uintptr_t>(start), kLargePage) -
                             reinterpret_cast<std::uintptr_t>(start);
  if (before > 0) ::munmap(start, before);
  if (whole - before > size) ::munmap(start + before + size, whole - before - size);
  ::madvise(start + before, size, MADV_HUGEPAGE);  // a hint; failure is ignored
  return start + before;
}

/// Linux overcommits memory and kills the process that touches too much.
std::size_t physical_memory() {
  const long pages = ::sysconf(_SC_PHYS_PAGES), size = ::sysconf(_SC_PAGESIZE);
  if (pages <= 0 || size <= 0) return SIZE_MAX;
  return static_cast<std::size_t>(pages) * static_cast<std::size_t>(size);
}

}  // namespace

HostBuffer::~HostBuffer() { release(); }

HostBuffer::HostBuffer(HostBuffer&& other) noexcept
    : allocator_(other.allocator_),
      data_(std::exchange(other.data_, nullptr)),
      capacity_(std::exchange(other.capacity_, 0)) {}

HostBuffer& HostBuffer::operator=(HostBuffer&& other) noexcept {
  std::swap(allocator_, other.allocator_);
  std::swap(data_, other.data_);
  std::swap(capacity_, other.capacity_);
  return *this;
}

void* HostBuffer::allocate(std::size_t bytes) const {
  if (allocator_) return allocator_->allocate(Memory::kHost, -1, bytes, kCacheLine);
  if (bytes > physical_memory()) return nullptr;
  if (bytes >= kMapped) return map_zeros(bytes);
  return ::operator new (bytes, std::align_val_t{kCacheLine}, std::nothrow);
}

void HostBuffer::release() {
  if (!data_) return;
  if (allocator_)
    allocator_->deallocate(data_, Memory::kHost, -1, capacity_, kCacheLine);
  else if (capacity_ >= kMapped)
    ::munmap(data_, mapped_size(capacity_));
  else
    ::operator delete (data_, std::align_val_t{kCacheLine});
}

void HostBuffer::reserve(std::size_t bytes, std::string_view what, std::string_view name) {
  if (data_ && bytes <= capacity_) return;
  const std::size_t size = std::max(bytes, kCacheLine);
  void* fresh = allocate(size);
  const double mebibytes = static_cast<double>(size) / (1 << 20);
  const std::string subject = fresh          ? ""
                              : name.empty() ? std::string(what)
                                             : fmt::format("{} '{}'", what, name);
  if (!fresh && allocator_)
    throw Error(ErrorCode::kOutOfMemory,
                fmt::format("{} needs {:.1f} MiB of memory, which the session's allocator has not: "
                            "use a smaller batch or shorter sequences",
                            subject, mebibytes));
  if (!fresh)
    throw Error(
        ErrorCode::kOutOfMemory,
        fmt::format("{} needs {:.1f} MiB of memory, this machine has {:.1f} MiB: use a "
                    "smaller batch or shorter sequences",
                    subject, mebibytes, static_cast<double>(physical_memory()) / (1 << 20)));
  if (capacity_ > 0) std::memcpy(fresh, data_, capacity_);
  if (allocator_ || size < kMapped)
    std::memset(static_cast<std::byte*>(fresh) + capacity_, 0, size - capacity_);
  release();
  data_ = static_cast<std::byte*>(fresh);
  capacity_ = size;
}

}  // namespace sinter::runtime::cpu
