// SPDX-License-Identifier: Apache-2.0
// GEMMs of 8-bit integers widened to 16 bits, for CPUs whose 8-bit instructions are not exact. One
// instruction (since SSE2) adds two 16-bit products, and all sums are exact.
#pragma once

#include <cstddef>
#include <cstdint>

#include <sinter/dtype.h>

namespace sinter::runtime::cpu {

/// to[i] = from[i * stride], for i < count; `type` is kInt8 or kUInt8.
void widen_bytes(DType type, const std::byte* from, std::int64_t stride, std::int64_t count,
                 std::int16_t* to);

/// y[m * y_pitch + n] += sum over i < 2 * pairs of x[m][i] * b[i / 2 * 2 * columns + 2 * n + i %
/// 2], for m < count and n < columns. `columns` is a multiple of kPanelStep (panel_ops.h). Sums
/// wrap.
void add_pair_products(const std::int16_t* const* x, std::int64_t count, const std::int16_t* b,
                       std::int64_t columns, std::int64_t pairs, std::int32_t* y,
                       std::int64_t y_pitch);

/// y[i] = sum over t < taps of x[t][i] * w[t][i], for i < count; x is kInt8 or kUInt8.
void multiply_channels(DType type, const std::byte* const* x, const std::int16_t* const* w,
                       std::int64_t taps, std::int64_t count, std::int32_t* y);

}  // namespace sinter::runtime::cpu
