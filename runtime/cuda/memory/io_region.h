// SPDX-License-Identifier: Apache-2.0
// Pinned host and device memory for a plan's inputs or outputs, at equal offsets.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graphs/memory.h"

namespace sinter::runtime {

/// One copy between the host part and the device part, at the same offset.
struct RegionCopy {
  std::uint64_t offset = 0, bytes = 0;
};

/// One slot per binding, at the same offset of a pinned and a device allocation, so that one copy
/// moves several neighbours. Slots only grow; growth moves the whole region.
class IoRegion {
 public:
  /// `pinned`: whether there is a host part. `allocator` provides the device part; null: the
  /// driver.
  IoRegion(graphs::ContextPtr context, std::size_t slots, bool pinned,
           graphs::DeviceAllocatorPtr allocator = nullptr);

  /// Ensures that slot i holds wanted[i] bytes. On growth, keeps the host part's contents and sets
  /// the device part to zeros on `stream`. True if addresses changed. No run may be in flight if
  /// needs_growth(wanted). Throws Error(kOutOfMemory); the region is then unchanged or empty, but
  /// usable.
  bool reserve(std::span<const std::uint64_t> wanted, CUstream stream);
  bool needs_growth(std::span<const std::uint64_t> wanted) const;
  bool holds(std::size_t slot, std::uint64_t bytes) const { return bytes <= capacities_[slot]; }
  /// Device bytes that reserve(wanted) will hold.
  std::uint64_t size_after(std::span<const std::uint64_t> wanted) const;

  CUdeviceptr device(std::size_t slot) const { return device_.address() + offsets_[slot]; }
  std::byte* host(std::size_t slot) const { return pinned_.data() + offsets_[slot]; }
  CUdeviceptr device_base() const { return device_.address(); }
  std::byte* host_base() const { return pinned_.data(); }
  std::uint64_t size() const { return device_.size(); }

  /// Copies that move the first used[i] bytes of each slot; joins neighbours with small gaps.
  std::vector<RegionCopy> copies(std::span<const std::uint64_t> used) const;

 private:
  std::vector<std::uint64_t> grown(std::span<const std::uint64_t> wanted) const;

  graphs::ContextPtr context_;
  graphs::DeviceAllocatorPtr allocator_;
  bool has_host_ = false;
  std::vector<std::uint64_t> capacities_, offsets_;
  graphs::PinnedMemory pinned_;
  graphs::DeviceMemory device_;
};

}  // namespace sinter::runtime
