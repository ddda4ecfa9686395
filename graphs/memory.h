// Device and pinned host memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "graphs/device.h"

namespace sinter::graphs {

/// Owned device memory, aligned to 256 bytes. Freed with its owner.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  /// Throws Error(kOutOfMemory) saying how much was asked for and is free. Zero bytes: no memory.
  DeviceMemory(ContextPtr context, std::uint64_t bytes);
  ~DeviceMemory();
  DeviceMemory(DeviceMemory&& other) noexcept;
  DeviceMemory& operator=(DeviceMemory&& other) noexcept;

  CUdeviceptr address() const { return address_; }
  std::uint64_t size() const { return size_; }

 private:
  ContextPtr context_;
  CUdeviceptr address_ = 0;
  std::uint64_t size_ = 0;
};

/// Owned page-locked host memory that the GPU copies from and to without staging.
class PinnedMemory {
 public:
  PinnedMemory() = default;
  /// Throws Error(kOutOfMemory). Zero bytes: no memory.
  PinnedMemory(ContextPtr context, std::uint64_t bytes);
  ~PinnedMemory();
  PinnedMemory(PinnedMemory&& other) noexcept;
  PinnedMemory& operator=(PinnedMemory&& other) noexcept;

  std::byte* data() const { return data_; }
  std::uint64_t size() const { return size_; }

 private:
  ContextPtr context_;
  std::byte* data_ = nullptr;
  std::uint64_t size_ = 0;
};

}  // namespace sinter::graphs
