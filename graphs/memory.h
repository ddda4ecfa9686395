// SPDX-License-Identifier: Apache-2.0
// Device and pinned host memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "graphs/device.h"

namespace sinter::graphs {

constexpr std::uint64_t kDeviceAlignment = 256;

/// A source of device memory other than the driver; called with its context current.
class DeviceAllocator {
 public:
  virtual ~DeviceAllocator() = default;
  /// `bytes` aligned to kDeviceAlignment; 0: out of memory.
  virtual CUdeviceptr allocate(std::uint64_t bytes) noexcept = 0;
  virtual void deallocate(CUdeviceptr address, std::uint64_t bytes) noexcept = 0;
};
using DeviceAllocatorPtr = std::shared_ptr<DeviceAllocator>;

/// Owned device memory, aligned to kDeviceAlignment; freed by the destructor.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  /// Allocates from `allocator`, or from the driver if it is null. Throws Error(kOutOfMemory) with
  /// the requested and the free size. 0 bytes: no memory.
  DeviceMemory(ContextPtr context, std::uint64_t bytes, DeviceAllocatorPtr allocator = nullptr);
  ~DeviceMemory();
  DeviceMemory(DeviceMemory&& other) noexcept;
  DeviceMemory& operator=(DeviceMemory&& other) noexcept;

  CUdeviceptr address() const { return address_; }
  std::uint64_t size() const { return size_; }

 private:
  ContextPtr context_;
  DeviceAllocatorPtr allocator_;
  CUdeviceptr address_ = 0;
  std::uint64_t size_ = 0;
};

/// Owned page-locked host memory, which the GPU copies without staging.
class PinnedMemory {
 public:
  PinnedMemory() = default;
  /// Throws Error(kOutOfMemory). 0 bytes: no memory.
  PinnedMemory(ContextPtr context, std::uint64_t bytes);

  std::byte* data() const { return static_cast<std::byte*>(data_.get()); }
  std::uint64_t size() const { return size_; }

 private:
  Owned<void*, &Driver::mem_free_host> data_;
  std::uint64_t size_ = 0;
};

}  // namespace sinter::graphs
