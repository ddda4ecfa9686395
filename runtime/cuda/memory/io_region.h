// SPDX-License-Identifier: Apache-2.0
// Pinned host and device memory for a plan's inputs or outputs, side by side.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graphs/memory.h"

namespace sinter::runtime {

/// One copy between the host's and the device's part: the same offset in both.
struct RegionCopy {
  std::uint64_t offset = 0, bytes = 0;
};

/// A slot for each binding, at the same offset of a pinned and of a device allocation, so that
/// neighbours travel in one copy. Slots grow; growing moves everything.
class IoRegion {
 public:
  /// `pinned`: whether there is a host part. The device's part is from `allocator`, if there is
  /// one.
  IoRegion(graphs::ContextPtr context, std::size_t slots, bool pinned,
           graphs::DeviceAllocatorPtr allocator = nullptr);

  /// Makes slot i hold at least wanted[i] bytes. The host part's contents are kept; the device's
  /// part is zeros, by `stream`. True if addresses changed. Nothing may be in flight if
  /// needs_growth(wanted). Throws Error(kOutOfMemory), leaving the region as it was or empty, but
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

  /// The copies that move used[i] bytes of each slot i, neighbours with little between them joined.
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
