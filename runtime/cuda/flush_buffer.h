// Evicts the GPU's L2 cache before a cold measurement.
#pragma once

#include <optional>
#include <utility>

#include "graphs/memory.h"
#include "graphs/module.h"

namespace sinter::runtime {

/// Device memory of several times the L2, which is read to put it in the place of whatever the
/// cache holds. Reading leaves clean lines: those that overwriting leaves have to be written back
/// while the measurement runs, 50 MB on an H200, which takes some ten microseconds. It also keeps
/// the GPU busy for about a hundred microseconds, in which the host can queue what is to be timed.
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

  graphs::ContextPtr context_;
  graphs::DeviceMemory memory_;
  std::optional<graphs::Module> module_;
  CUfunction read_all_ = nullptr;
  bool is_refused_ = false;
};

}  // namespace sinter::runtime
