// SPDX-License-Identifier: Apache-2.0
// Sample operands for timing: with zeros a GPU draws less power and clocks higher, so timings would
// favour other algorithms than real data.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include <sinter/dtype.h>

#include "graphs/device.h"
#include "graphs/memory.h"

namespace sinter::runtime {

/// Whether values of a type are numeric data, not indices.
constexpr bool is_sampled(DType type) {
  return is_float(type) || type == DType::kInt8 || type == DType::kUInt8;
}

/// Fills the operands that a step reads, before its tactics are timed. Not thread-safe.
class OperandSamples {
 public:
  struct Operand {
    CUdeviceptr address = 0;
    std::uint64_t bytes = 0;
    bool is_number = false;       // others may be indices and are set to zero
    std::size_t index_bytes = 0;  // of integers that ascend from 0 to `last`; 0: not such
    std::int64_t last = 0;
  };

  explicit OperandSamples(graphs::ContextPtr context) : context_(std::move(context)) {}

  /// Sets the operands of the next step; no run needs their contents any more.
  void set(std::vector<Operand> operands) { operands_ = std::move(operands); }
  /// Fills these operands on `stream`, once; floats are finite. Throws Error(kOutOfMemory).
  void fill(CUstream stream);
  /// Frees the memory.
  void release() {
    operands_.clear();
    pattern_ = {};
  }

 private:
  graphs::ContextPtr context_;
  std::vector<Operand> operands_;
  graphs::DeviceMemory pattern_;
};

}  // namespace sinter::runtime
