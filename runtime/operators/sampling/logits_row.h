// SPDX-License-Identifier: Apache-2.0
// Rows of logits as floats.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <sinter/dtype.h>

#include "runtime/cpu/ops/tile_ops.h"
#include "runtime/operators/operator_kernel.h"

namespace sinter::runtime::cpu {

struct LogitRows {
  DType dtype;
  std::int64_t rows, vocabulary;

  /// Of a call whose first input are logits "rows vocabulary".
  explicit LogitRows(const OperatorCall& call)
      : dtype(call.type_of_input(0)),
        rows(call.sizes["rows"]),
        vocabulary(call.sizes["vocabulary"]) {}

  /// About what a draw from a row takes.
  double nanoseconds() const {
    constexpr double kLogitsPerNanosecond = 2;
    return static_cast<double>(vocabulary) / kLogitsPerNanosecond;
  }

  std::size_t workspace_bytes() const {
    return dtype == DType::kFloat32
               ? 0
               : whole_lines(sizeof(float) * static_cast<std::size_t>(vocabulary));
  }

  /// In `workspace`, unless they are floats where they lie.
  std::span<const float> row(const Operands& operands, std::int64_t row,
                             std::byte* workspace) const {
    const std::byte* const from =
        operands.input<std::byte>(0) + row * vocabulary * static_cast<std::int64_t>(size_of(dtype));
    const auto count = static_cast<std::size_t>(vocabulary);
    if (dtype == DType::kFloat32) return {reinterpret_cast<const float*>(from), count};
    auto* const wide = reinterpret_cast<float*>(workspace);
    widen(dtype, from, wide, vocabulary);
    return {wide, count};
  }
};

}  // namespace sinter::runtime::cpu
