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

/// What is streamed through is read twice as fast from large pages, which Linux gives on request.
constexpr std::size_t kLargePage = std::size_t{2} << 20;

std::align_val_t alignment_for(std::size_t size) {
  return std::align_val_t{size >= kLargePage ? kLargePage : 64};
}

/// Linux hands out more memory than there is and kills who touches it.
std::size_t physical_memory() {
  const long pages = ::sysconf(_SC_PHYS_PAGES), size = ::sysconf(_SC_PAGESIZE);
  if (pages <= 0 || size <= 0) return SIZE_MAX;
  return static_cast<std::size_t>(pages) * static_cast<std::size_t>(size);
}

}  // namespace

HostBuffer::~HostBuffer() {
  if (data_) ::operator delete(data_, alignment_for(capacity_));
}

HostBuffer::HostBuffer(HostBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), capacity_(std::exchange(other.capacity_, 0)) {}

HostBuffer& HostBuffer::operator=(HostBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(capacity_, other.capacity_);
  return *this;
}

void HostBuffer::reserve(std::size_t bytes, std::string_view what) {
  if (data_ && bytes <= capacity_) return;
  const std::size_t size = std::max<std::size_t>(bytes, 64);
  const std::size_t physical = physical_memory();
  void* fresh =
      size <= physical ? ::operator new(size, alignment_for(size), std::nothrow) : nullptr;
  if (!fresh)
    throw Error(ErrorCode::kOutOfMemory,
                fmt::format("{} needs {:.1f} MiB of memory, this machine has {:.1f} MiB: use a "
                            "smaller batch or shorter sequences",
                            what, static_cast<double>(size) / (1 << 20),
                            static_cast<double>(physical) / (1 << 20)));
  if (size >= kLargePage) ::madvise(fresh, size, MADV_HUGEPAGE);  // a wish: it may be refused
  if (capacity_ > 0) std::memcpy(fresh, data_, capacity_);
  std::memset(static_cast<std::byte*>(fresh) + capacity_, 0, size - capacity_);
  if (data_) ::operator delete(data_, alignment_for(capacity_));
  data_ = static_cast<std::byte*>(fresh);
  capacity_ = size;
}

}  // namespace sinter::runtime::cpu
