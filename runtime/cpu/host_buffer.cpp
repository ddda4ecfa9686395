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

std::align_val_t alignment_for(std::size_t size) {
  return std::align_val_t{size >= kLargePage ? kLargePage : kCacheLine};
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
  void* data = ::operator new(bytes, alignment_for(bytes), std::nothrow);
  if (data && bytes >= kLargePage)
    ::madvise(data, bytes, MADV_HUGEPAGE);  // a hint; failure is ignored
  return data;
}

void HostBuffer::release() {
  if (!data_) return;
  if (allocator_)
    allocator_->deallocate(data_, Memory::kHost, -1, capacity_, kCacheLine);
  else
    ::operator delete(data_, alignment_for(capacity_));
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
  std::memset(static_cast<std::byte*>(fresh) + capacity_, 0, size - capacity_);
  release();
  data_ = static_cast<std::byte*>(fresh);
  capacity_ = size;
}

}  // namespace sinter::runtime::cpu
