// Evicts the GPU's L2 cache before a cold measurement.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "graphs/memory.h"

namespace sinter::runtime {

/// Device memory of several times the L2, allocated at first use. Overwriting it also keeps the GPU
/// busy for some tens of microseconds, in which the host can queue what is to be timed.
class FlushBuffer {
 public:
  explicit FlushBuffer(graphs::ContextPtr context) : context_(std::move(context)) {}

  /// Overwrites the buffer on `stream`. Throws Error(kOutOfMemory) at first use.
  void flush(CUstream stream) {
    if (!memory_.address()) {
      constexpr std::uint64_t kTimesL2 = 4;
      constexpr std::uint64_t kLeast = 1u << 20;
      memory_ = graphs::DeviceMemory(context_,
                                     std::max(kLeast, kTimesL2 * context_->properties().l2_bytes));
    }
    context_->driver().memset_d8_async(memory_.address(), value_++, memory_.size(), stream);
  }
  /// The same where a cold cache is only better, not needed: does nothing if memory is short.
  void flush_if_possible(CUstream stream) {
    if (is_refused_) return;
    try {
      flush(stream);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kOutOfMemory) throw;
      is_refused_ = true;
    }
  }
  /// Gives the memory back.
  void release() {
    memory_ = {};
    is_refused_ = false;
  }

 private:
  graphs::ContextPtr context_;
  graphs::DeviceMemory memory_;
  unsigned char value_ = 0;
  bool is_refused_ = false;
};

}  // namespace sinter::runtime
