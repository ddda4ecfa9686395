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

/// One allocation per state of a plan, initially zeros. All calls enqueue on the given stream and
/// wait for it; no other work may use the memory.
class StateMemory {
 public:
  StateMemory(graphs::ContextPtr context, std::size_t states,
              graphs::DeviceAllocatorPtr allocator = nullptr);

  bool needs_growth(std::span<const std::uint64_t> wanted) const;
  /// Device bytes by which reserve(wanted) grows.
  std::uint64_t growth(std::span<const std::uint64_t> wanted) const;
  /// Ensures that state i holds wanted[i] bytes; a state that grows moves and becomes zeros. Throws
  /// Error(kOutOfMemory).
  void reserve(std::span<const std::uint64_t> wanted, CUstream stream);

  /// Sets state `index` from host or device memory; reserve() must have made room.
  void write(std::size_t index, const TensorView& view, CUstream stream);
  /// Copies the first `bytes` of state `index` to the host; valid until the next call for this
  /// state.
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
  std::vector<std::vector<std::byte>> copies_;  // host copies for read()
};

}  // namespace sinter::runtime
