// Aligned host memory that grows.
#pragma once

#include <cstddef>
#include <string_view>

namespace sinter::runtime::cpu {

class HostBuffer {
 public:
  HostBuffer() = default;
  ~HostBuffer();
  HostBuffer(HostBuffer&& other) noexcept;
  HostBuffer& operator=(HostBuffer&& other) noexcept;

  /// Makes room for `bytes`, keeping what is there, 64-byte aligned and with every page touched, so
  /// that the first run pays for none. Throws Error(kOutOfMemory), changing nothing, that says how
  /// much `what` needs.
  void reserve(std::size_t bytes, std::string_view what);

  /// Never null once something was reserved, be it nothing.
  std::byte* data() const { return data_; }
  std::size_t capacity() const { return capacity_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t capacity_ = 0;
};

}  // namespace sinter::runtime::cpu
