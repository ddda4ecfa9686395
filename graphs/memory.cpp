// SPDX-License-Identifier: Apache-2.0
#include "graphs/memory.h"

#include <utility>

#include <fmt/format.h>

namespace sinter::graphs {

DeviceMemory::DeviceMemory(ContextPtr context, std::uint64_t bytes, DeviceAllocatorPtr allocator)
    : context_(std::move(context)), allocator_(std::move(allocator)) {
  if (bytes == 0) return;
  const Context::Scope scope(*context_);
  if (allocator_) {
    address_ = allocator_->allocate(bytes);
    if (address_ == 0)
      throw Error(ErrorCode::kOutOfMemory,
                  fmt::format("the session's allocator has no {} bytes of memory of GPU {} ({})",
                              bytes, context_->properties().index, context_->properties().name));
    size_ = bytes;
    return;
  }
  const Driver& driver = context_->driver();
  const CUresult result = driver.mem_alloc.raw(&address_, bytes);
  if (result == CUDA_ERROR_OUT_OF_MEMORY) {
    std::size_t free_bytes = 0;
    std::size_t total_bytes = 0;
    driver.mem_get_info.raw(&free_bytes, &total_bytes);
    throw Error(ErrorCode::kOutOfMemory,
                fmt::format("GPU {} ({}) has no {} bytes of memory left: {} of {} bytes are free",
                            context_->properties().index, context_->properties().name, bytes,
                            free_bytes, total_bytes));
  }
  if (result != CUDA_SUCCESS) fail(driver, result, "cuMemAlloc");
  size_ = bytes;
}

DeviceMemory::~DeviceMemory() {
  if (!address_) return;
  const auto scope = context_->scope_nothrow();
  if (allocator_)
    allocator_->deallocate(address_, size_);
  else
    context_->driver().mem_free.raw(address_);
}

DeviceMemory::DeviceMemory(DeviceMemory&& other) noexcept
    : context_(std::move(other.context_)),
      allocator_(std::move(other.allocator_)),
      address_(std::exchange(other.address_, 0)),
      size_(std::exchange(other.size_, 0)) {}

DeviceMemory& DeviceMemory::operator=(DeviceMemory&& other) noexcept {
  std::swap(context_, other.context_);
  std::swap(allocator_, other.allocator_);
  std::swap(address_, other.address_);
  std::swap(size_, other.size_);
  if (this != &other) DeviceMemory(std::move(other));
  return *this;
}

PinnedMemory::PinnedMemory(ContextPtr context, std::uint64_t bytes)
    : data_(std::move(context)), size_(bytes) {
  if (bytes == 0) return;
  const Context::Scope scope(*data_.context());
  const Driver& driver = data_.driver();
  const CUresult result = driver.mem_host_alloc.raw(data_.put(), bytes, CU_MEMHOSTALLOC_PORTABLE);
  if (result == CUDA_ERROR_OUT_OF_MEMORY)
    throw Error(ErrorCode::kOutOfMemory,
                fmt::format("the machine has no {} bytes of page-locked host memory left (see "
                            "ulimit -l and free)",
                            bytes));
  if (result != CUDA_SUCCESS) fail(driver, result, "cuMemHostAlloc");
}

}  // namespace sinter::graphs
