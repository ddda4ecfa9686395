// SPDX-License-Identifier: Apache-2.0
// What the kernels of groups of indices share.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/format_error.h"
#include "runtime/operators/operator_kernel.h"

namespace sinter::runtime::cpu {

/// `index` from the front. Throws Error(kUsage) if it is out of range.
inline std::int64_t row_at(std::int64_t index, std::int64_t rows) {
  const std::int64_t row = index < 0 ? index + rows : index;
  if (row < 0 || row >= rows)
    throw usage_error("index {} is out of range: the dimension has {} elements", index, rows);
  return row;
}

/// Indices of 32 or 64 bits.
class Indices {
 public:
  Indices(const Operands& operands, std::size_t input, DType type)
      : narrow_(operands.input<std::int32_t>(input)),
        wide_(operands.input<std::int64_t>(input)),
        is_wide_(type == DType::kInt64) {}
  std::int64_t operator[](std::int64_t i) const { return is_wide_ ? wide_[i] : narrow_[i]; }

 private:
  const std::int32_t* narrow_;
  const std::int64_t* wide_;
  bool is_wide_;
};

}  // namespace sinter::runtime::cpu
