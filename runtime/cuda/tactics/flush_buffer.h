// SPDX-License-Identifier: Apache-2.0
// Evicts the GPU's L2 cache before a cold measurement; timing of candidates, which cuBLASLt's
// algorithms and a step's tactics are chosen by.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "graphs/device.h"
#include "graphs/memory.h"
#include "graphs/module.h"

namespace sinter::runtime {

/// Device memory of several times the L2, which is read to put it in the place of whatever the
/// cache holds: a first quarter with the wish to be kept, which alone evicts others' lines with
/// that wish and is then taken back, and the rest. Reading leaves clean lines: those that
/// overwriting leaves are written back while the measurement runs, 7 to 9 us of it on an H200. It
/// also keeps the GPU busy for about a tenth of a millisecond, in which the host can queue what is
/// to be timed.
class FlushBuffer {
 public:
  explicit FlushBuffer(graphs::ContextPtr context) : context_(std::move(context)) {}

  /// Reads the buffer on `stream`. Memory and kernel are made at first use, where it throws
  /// Error(kOutOfMemory) or, if the driver cannot assemble the kernel, Error(kDevice).
  void flush(CUstream stream);
  /// The same where a cold cache is only better, not needed: does nothing if they cannot be made.
  void flush_if_possible(CUstream stream);
  /// Gives the memory back.
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

/// Median time in microseconds of what `launch` puts on `stream`, caches cold, after one run that
/// loads what is loaded at first use; nothing if `launch` returns false.
std::optional<double> cold_time(const graphs::ContextPtr& context, CUstream stream,
                                FlushBuffer& flush, const std::function<bool()>& launch);

}  // namespace sinter::runtime
