// SPDX-License-Identifier: Apache-2.0
// Copies of weights in the layouts that oneDNN's primitives prefer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <utility>
#include <vector>

#include "runtime/cpu/host_buffer.h"
#include "runtime/plan/plan_data.h"

namespace sinter::runtime::cpu {

/// A plan's weights and their copies in the layouts that primitives prefer. Shared by all sessions
/// of the plan; one copy for each layout. Thread-safe.
class PackedWeights {
 public:
  /// Wraps dnnl::memory, which stays out of this header.
  struct Entry;

  explicit PackedWeights(std::shared_ptr<const plan::PlanData> plan);
  ~PackedWeights();
  PackedWeights(const PackedWeights&) = delete;
  PackedWeights& operator=(const PackedWeights&) = delete;

  /// The instance in use for `plan`, or a new one.
  static std::shared_ptr<PackedWeights> of(const std::shared_ptr<const plan::PlanData>& plan);
  /// Hold it while reading weights or copies, or making copies.
  using Lock = std::shared_lock<std::shared_mutex>;
  Lock lock() { return Lock(values_mutex_); }
  /// Refills all copies in place from the weights of `plan`, which must not differ otherwise. Waits
  /// until no lock is held.
  static void replace(const std::shared_ptr<PackedWeights>& weights,
                      const std::shared_ptr<const plan::PlanData>& plan);

  /// The plan that owns the weights, the start of its weights, and the offset of `data` from there.
  /// Requires a lock.
  const plan::PlanData& plan() const { return *plan_; }
  const std::byte* section() const { return plan_->weights.data(); }
  std::ptrdiff_t place_of(const void* data) const {
    return static_cast<const std::byte*>(data) - section();
  }

  /// The entry of weight buffer `buffer` for a layout, made by `make` on first use.
  template <typename Make>
  std::shared_ptr<const Entry> find_or_make(std::uint32_t buffer, const std::string& layout,
                                            Make&& make) {
    const std::lock_guard lock(mutex_);
    auto& entry = entries_[{buffer, layout}];
    if (!entry) entry = make();
    return entry;
  }
  /// 64-byte aligned memory with the lifetime of this object. Call it and fill_by() only within
  /// `make`.
  std::byte* allocate(std::size_t bytes);
  /// Runs `fill` now and at each replacement. It copies the weights, whose start is its argument.
  void fill_by(std::function<void(const std::byte* section)> fill);
  /// Bytes of all copies.
  std::uint64_t bytes() const;

 private:
  std::shared_ptr<const plan::PlanData> plan_;
  std::shared_mutex values_mutex_;
  std::vector<std::function<void(const std::byte*)>> fills_;
  std::size_t chunk_bytes_;
  std::vector<HostBuffer> chunks_;
  std::size_t used_ = 0;  // of the last chunk
  mutable std::mutex mutex_;
  std::map<std::pair<std::uint32_t, std::string>, std::shared_ptr<const Entry>> entries_;
};

}  // namespace sinter::runtime::cpu
