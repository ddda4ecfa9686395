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

/// A plan's weights, and copies of them in the layouts that primitives prefer, shared by all
/// sessions of one plan and made once for each layout. Safe for several threads.
class PackedWeights {
 public:
  /// Implemented over dnnl::memory; kept out of this header.
  struct Entry;

  explicit PackedWeights(std::shared_ptr<const plan::PlanData> plan);
  ~PackedWeights();
  PackedWeights(const PackedWeights&) = delete;
  PackedWeights& operator=(const PackedWeights&) = delete;

  /// Those of `plan` that somebody holds, or new ones.
  static std::shared_ptr<PackedWeights> of(const std::shared_ptr<const plan::PlanData>& plan);
  /// Held while the weights or copies of them are read, or copies made.
  using Lock = std::shared_lock<std::shared_mutex>;
  Lock lock() { return Lock(values_mutex_); }
  /// Makes all copies again, where they are, of the weights of `plan`, which differs in nothing
  /// else. Waits for whoever holds a lock.
  static void replace(const std::shared_ptr<PackedWeights>& weights,
                      const std::shared_ptr<const plan::PlanData>& plan);

  /// Whose the weights are; where they begin, and where behind that `data` is. Under a lock.
  const plan::PlanData& plan() const { return *plan_; }
  const std::byte* section() const { return plan_->weights.data(); }
  std::ptrdiff_t place_of(const void* data) const {
    return static_cast<const std::byte*>(data) - section();
  }

  /// The entry of weight buffer `buffer` for a layout, made by `make` if it is new.
  template <typename Make>
  std::shared_ptr<const Entry> find_or_make(std::uint32_t buffer, const std::string& layout,
                                            Make&& make) {
    const std::lock_guard lock(mutex_);
    auto& entry = entries_[{buffer, layout}];
    if (!entry) entry = make();
    return entry;
  }
  /// 64-byte aligned memory that lives as long as this. Only for use within `make`, as the next.
  std::byte* allocate(std::size_t bytes);
  /// `fill` makes a copy of the weights, which begin at its argument: now, and when they are
  /// replaced.
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
