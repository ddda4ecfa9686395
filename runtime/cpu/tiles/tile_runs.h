// SPDX-License-Identifier: Apache-2.0
// Runs of elements between memory and tiles, with conversion between storage and compute type.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include <sinter/dtype.h>

namespace sinter::runtime::cpu {

/// memcpy, without a call for 4 to 64 bytes: rows of a few elements are most of what is copied.
inline void copy_bytes(std::byte* to, const std::byte* from, std::size_t bytes) {
  constexpr std::size_t kPiece = 16, kHalf = 8, kQuarter = 4;
  if (bytes > 4 * kPiece || bytes < kQuarter) {
    std::memcpy(to, from, bytes);
    return;
  }
  // The last pieces may overlap the first ones.
  if (bytes < kPiece) {
    const auto ends = [&]<std::size_t kSize>(std::integral_constant<std::size_t, kSize>) {
      std::memcpy(to, from, kSize);
      std::memcpy(to + bytes - kSize, from + bytes - kSize, kSize);
    };
    return bytes < kHalf ? ends(std::integral_constant<std::size_t, kQuarter>())
                         : ends(std::integral_constant<std::size_t, kHalf>());
  }
  const auto copy = [&](std::size_t at) { std::memcpy(to + at, from + at, kPiece); };
  copy(0);
  if (bytes > 2 * kPiece) {
    copy(kPiece);
    copy(bytes - 2 * kPiece);
  }
  copy(bytes - kPiece);
}

/// target[i] = source[i * step], converted to the compute type, for i in [0, count).
void load_run(DType storage, const std::byte* source, std::int64_t step, std::byte* target,
              std::int64_t count);
/// target[i * step] = source[i * source_step], converted to the storage type; source_step is 0 or
/// 1.
void store_run(DType storage, const std::byte* source, std::int64_t source_step, std::byte* target,
               std::int64_t step, std::int64_t count);
/// target[i] = value, in compute type `compute`.
void fill_run(DType compute, double value, std::byte* target, std::int64_t count);
/// The integer at source[index].
std::int64_t read_int(DType type, const void* source, std::int64_t index);
/// target[i] = first + i * step, in integer type `type`.
void index_run(DType type, std::int64_t first, std::int64_t step, std::byte* target,
               std::int64_t count);

}  // namespace sinter::runtime::cpu
