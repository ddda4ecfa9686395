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
  /// From `allocator` instead of the system; null: from the system.
  explicit HostBuffer(std::shared_ptr<Allocator> allocator) : allocator_(std::move(allocator)) {}
  ~HostBuffer();
  HostBuffer(HostBuffer&& other) noexcept;
  HostBuffer& operator=(HostBuffer&& other) noexcept;

  /// Makes room for `bytes`, keeping what is there, 64-byte aligned and with every page touched, so
  /// that the first run pays for none. Throws Error(kOutOfMemory), changing nothing, that says how
  /// much `what` (of name `name`, if it has one) needs.
  void reserve(std::size_t bytes, std::string_view what, std::string_view name = {});

  /// Never null once something was reserved, be it nothing.
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
