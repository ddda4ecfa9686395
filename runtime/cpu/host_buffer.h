// SPDX-License-Identifier: Apache-2.0
// Aligned host memory that grows.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include <sinter/allocator.h>

namespace sinter::runtime::cpu {

class HostBuffer {
 public:
  HostBuffer() = default;
  /// Allocates from `allocator`; null: from the system.
  explicit HostBuffer(std::shared_ptr<Allocator> allocator) : allocator_(std::move(allocator)) {}
  ~HostBuffer();
  HostBuffer(HostBuffer&& other) noexcept;
  HostBuffer& operator=(HostBuffer&& other) noexcept;

  /// Grows to `bytes`, 64-byte aligned, and keeps the contents; new bytes are zeros. The system's
  /// pages come as they are touched, so that caches take memory as they fill. Throws
  /// Error(kOutOfMemory) without a change; its text names `what`, `name` if given, and the size.
  void reserve(std::size_t bytes, std::string_view what, std::string_view name = {});

  /// Never null after reserve(), even for 0 bytes.
  std::byte* data() const { return data_; }
  std::size_t capacity() const { return capacity_; }

 private:
  void* allocate(std::size_t bytes) const;
  void release();

  std::shared_ptr<Allocator> allocator_;
  std::byte* data_ = nullptr;
  std::size_t capacity_ = 0;
};

}  // namespace sinter::runtime::cpu
