// Copies of weights in the layouts that oneDNN's primitives prefer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "runtime/cpu/host_buffer.h"

namespace sinter::runtime::cpu {

/// Weights in the layouts that primitives prefer, shared by all sessions of one plan and made once
/// for each layout. Safe for several threads.
class PackedWeights {
 public:
  /// Implemented over dnnl::memory; kept out of this header.
  struct Entry;

  /// `plan_bytes`: of the plan's weights, about as much as is to be packed.
  explicit PackedWeights(std::size_t plan_bytes);
  ~PackedWeights();
  PackedWeights(const PackedWeights&) = delete;
  PackedWeights& operator=(const PackedWeights&) = delete;

  /// The entry of weight buffer `buffer` for a layout, made by `make` if it is new.
  template <typename Make>
  std::shared_ptr<const Entry> find_or_make(std::uint32_t buffer, const std::string& layout,
                                            Make&& make) {
    const std::lock_guard lock(mutex_);
    auto& entry = entries_[{buffer, layout}];
    if (!entry) entry = make();
    return entry;
  }
  /// 64-byte aligned memory that lives as long as this. Only for use within `make`.
  std::byte* allocate(std::size_t bytes);
  /// Bytes of all copies.
  std::uint64_t bytes() const;

 private:
  std::size_t chunk_bytes_;
  std::vector<HostBuffer> chunks_;
  std::size_t used_ = 0;  // of the last chunk
  mutable std::mutex mutex_;
  std::map<std::pair<std::uint32_t, std::string>, std::shared_ptr<const Entry>> entries_;
};

}  // namespace sinter::runtime::cpu
