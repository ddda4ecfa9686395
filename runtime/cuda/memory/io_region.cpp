// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/memory/io_region.h"

#include <cstring>
#include <numeric>
#include <utility>

#include <sinter/error.h>

namespace sinter::runtime {
namespace {

constexpr std::uint64_t kAlignment = 256;

std::uint64_t round_up(std::uint64_t bytes) {
  if (bytes > std::uint64_t{1} << 60)
    throw Error(ErrorCode::kOutOfMemory, "an input or output is too large for any GPU");
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

std::uint64_t sum(std::span<const std::uint64_t> sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::uint64_t{0});
}

}  // namespace

IoRegion::IoRegion(graphs::ContextPtr context, std::size_t slots, bool pinned,
                   graphs::DeviceAllocatorPtr allocator)
    : context_(std::move(context)),
      allocator_(std::move(allocator)),
      has_host_(pinned),
      capacities_(slots),
      offsets_(slots) {}

bool IoRegion::needs_growth(std::span<const std::uint64_t> wanted) const {
  for (std::size_t i = 0; i < wanted.size(); ++i)
    if (wanted[i] > capacities_[i]) return true;
  return false;
}

std::vector<std::uint64_t> IoRegion::grown(std::span<const std::uint64_t> wanted) const {
  std::vector<std::uint64_t> sizes = capacities_;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i] <= sizes[i]) continue;
    // Grows by at least half, so that slowly rising shapes rarely move the slot.
    const std::uint64_t least = sizes[i] + sizes[i] / 2;
    sizes[i] = round_up(std::max(wanted[i], least));
  }
  return sizes;
}

std::uint64_t IoRegion::size_after(std::span<const std::uint64_t> wanted) const {
  return sum(grown(wanted));
}

bool IoRegion::reserve(std::span<const std::uint64_t> wanted, CUstream stream) {
  if (!needs_growth(wanted)) return false;
  const std::vector<std::uint64_t> sizes = grown(wanted);
  std::vector<std::uint64_t> offsets(sizes.size());
  for (std::size_t i = 1; i < sizes.size(); ++i) offsets[i] = offsets[i - 1] + sizes[i - 1];
  const std::uint64_t total = sum(sizes);

  graphs::PinnedMemory pinned;
  if (has_host_) pinned = graphs::PinnedMemory(context_, total);
  graphs::DeviceMemory device(context_, total, allocator_);
  for (std::size_t i = 0; i < sizes.size() && has_host_; ++i)
    if (capacities_[i] > 0) std::memcpy(pinned.data() + offsets[i], host(i), capacities_[i]);
  pinned_ = std::move(pinned);
  device_ = std::move(device);
  capacities_ = sizes;
  offsets_ = std::move(offsets);
  // Library algorithms are timed on this memory: zeros, not another owner's data.
  context_->driver().memset_d8_async(device_.address(), 0, total, stream);
  return true;
}

std::vector<RegionCopy> IoRegion::copies(std::span<const std::uint64_t> used) const {
  // Copying a gap of this size costs less than another copy (about 2 us at 25 GB/s).
  constexpr std::uint64_t kMostGap = 32u << 10;
  std::vector<RegionCopy> result;
  for (std::size_t i = 0; i < used.size(); ++i) {
    if (used[i] == 0) continue;
    if (!result.empty()) {
      RegionCopy& last = result.back();
      if (offsets_[i] - (last.offset + last.bytes) <= kMostGap) {
        last.bytes = offsets_[i] + used[i] - last.offset;
        continue;
      }
    }
    result.push_back({offsets_[i], used[i]});
  }
  return result;
}

}  // namespace sinter::runtime
