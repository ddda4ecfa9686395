// SPDX-License-Identifier: Apache-2.0
// Flushes the GPU's L2 cache for cold measurements, and times candidates: cuBLASLt's algorithms and
// a step's tactics.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "graphs/device.h"
#include "graphs/memory.h"
#include "graphs/module.h"

namespace sinter::runtime {

/// Device memory of several times the L2's size; reading it evicts everything else. The first
/// quarter is read with evict-last priority, because only such reads evict lines of that priority;
/// then the priority is reset. Reading leaves clean lines; dirty lines would be written back during
/// the measurement (7 to 9 us on an H200). The flush also keeps the GPU busy for about 0.1 ms, in
/// which the host can enqueue the work to time.
class FlushBuffer {
 public:
  explicit FlushBuffer(graphs::ContextPtr context) : context_(std::move(context)) {}

  /// Reads the buffer on `stream`. Allocates memory and loads the kernel at first use, which throws
  /// Error(kOutOfMemory) or, if the driver cannot assemble the kernel, Error(kDevice).
  void flush(CUstream stream);
  /// The same where a cold cache is preferred but not required: no effect if allocation or assembly
  /// fails.
  void flush_if_possible(CUstream stream);
  /// Frees the memory.
  void release() {
    memory_ = {};
    is_refused_ = false;
  }

 private:
  void make(CUstream stream);
  void launch(CUfunction kernel, std::uint64_t begin, std::uint64_t end, CUstream stream) const;

  graphs::ContextPtr context_;
  graphs::DeviceMemory memory_;
  std::optional<graphs::Module> reading_, keeping_;
  CUfunction read_all_ = nullptr, keep_all_ = nullptr, let_go_ = nullptr;
  bool is_refused_ = false;
};

/// Median time in microseconds of the work that `launch` enqueues on `stream`, with cold caches. A
/// warm-up run first loads the kernels. Nullopt if `launch` returns false.
std::optional<double> cold_time(const graphs::ContextPtr& context, CUstream stream,
                                FlushBuffer& flush, const std::function<bool()>& launch);

}  // namespace sinter::runtime
