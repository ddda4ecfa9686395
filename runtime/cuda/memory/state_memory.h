// SPDX-License-Identifier: Apache-2.0
// Device memory of a session's states.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <sinter/tensor.h>

#include "graphs/memory.h"

namespace sinter::runtime {

/// One allocation for each state of a plan, of zeros until something is written. All calls queue on
/// the stream that they are given and wait for it; nothing else may be using the memory.
class StateMemory {
 public:
  StateMemory(graphs::ContextPtr context, std::size_t states,
              graphs::DeviceAllocatorPtr allocator = nullptr);

  bool needs_growth(std::span<const std::uint64_t> wanted) const;
  /// Device bytes that reserve(wanted) will add.
  std::uint64_t growth(std::span<const std::uint64_t> wanted) const;
  /// Makes state i hold at least wanted[i] bytes; one that grows moves and is zero. Throws
  /// Error(kOutOfMemory).
  void reserve(std::span<const std::uint64_t> wanted, CUstream stream);

  /// The value of state `index` from host or device memory; there is room for it.
  void write(std::size_t index, const TensorView& view, CUstream stream);
  /// The first `bytes` of state `index` on the host, until the next call for this state.
  const void* read(std::size_t index, std::uint64_t bytes, CUstream stream);
  void clear(CUstream stream);

  CUdeviceptr address(std::size_t index) const { return memory_[index].address(); }
  std::uint64_t size() const;

 private:
  void fill_with_zeros(std::size_t index, CUstream stream);
  void wait(CUstream stream) const;

  graphs::ContextPtr context_;
  graphs::DeviceAllocatorPtr allocator_;
  std::vector<graphs::DeviceMemory> memory_;
  std::vector<std::vector<std::byte>> copies_;  // on the host, of what was read
};

}  // namespace sinter::runtime
