// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/tiles/tile_runs.h"

#include <algorithm>
#include <cstring>

#include "runtime/cpu/ops/element.h"
#include "runtime/cpu/ops/tile_ops.h"
#include "runtime/cpu/ops/vectors/vector_moves.h"

namespace sinter::runtime::cpu {
namespace {

/// Elements converted in one piece, through a buffer on the stack.
constexpr std::int64_t kRunPiece = 256;

template <typename T>
void strided_load(const std::byte* source, std::int64_t step, std::byte* target,
                  std::int64_t count) {
  const T* from = reinterpret_cast<const T*>(source);
  T* to = reinterpret_cast<T*>(target);
  if (step == 0) {
    std::fill_n(to, count, *from);
    return;
  }
  for (std::int64_t i = 0; i < count; ++i) to[i] = from[i * step];
}

template <typename T>
void strided_store(const std::byte* source, std::int64_t source_step, std::byte* target,
                   std::int64_t step, std::int64_t count) {
  const T* from = reinterpret_cast<const T*>(source);
  T* to = reinterpret_cast<T*>(target);
  if (source_step == 0 && step == 1) {
    std::fill_n(to, count, *from);
    return;
  }
  for (std::int64_t i = 0; i < count; ++i) to[i * step] = from[i * source_step];
}

void copy_in(std::size_t size, const std::byte* source, std::int64_t step, std::byte* target,
             std::int64_t count) {
  if (step == 1) return copy_bytes(target, source, static_cast<std::size_t>(count) * size);
  constexpr std::int64_t kShort = 8;
  if (size == 4 && step >= kLeastStep && step <= kMostStep && count >= kShort)
    return take_each(reinterpret_cast<const std::uint32_t*>(source), step,
                     reinterpret_cast<std::uint32_t*>(target), count);
  switch (size) {
    case 1: return strided_load<std::uint8_t>(source, step, target, count);
    case 2: return strided_load<std::uint16_t>(source, step, target, count);
    case 4: return strided_load<std::uint32_t>(source, step, target, count);
    default: return strided_load<std::uint64_t>(source, step, target, count);
  }
}

void copy_out(std::size_t size, const std::byte* source, std::int64_t source_step,
              std::byte* target, std::int64_t step, std::int64_t count) {
  if (step == 1 && source_step == 1)
    return copy_bytes(target, source, static_cast<std::size_t>(count) * size);
  switch (size) {
    case 1: return strided_store<std::uint8_t>(source, source_step, target, step, count);
    case 2: return strided_store<std::uint16_t>(source, source_step, target, step, count);
    case 4: return strided_store<std::uint32_t>(source, source_step, target, step, count);
    default: return strided_store<std::uint64_t>(source, source_step, target, step, count);
  }
}

}  // namespace

void load_run(DType storage, const std::byte* source, std::int64_t step, std::byte* target,
              std::int64_t count) {
  const std::size_t size = size_of(storage);
  if (!is_narrow_float(storage)) return copy_in(size, source, step, target, count);
  auto* to = reinterpret_cast<float*>(target);
  if (step == 1) return widen(storage, source, to, count);
  alignas(std::uint16_t) std::byte piece[kRunPiece * sizeof(std::uint16_t)];
  for (std::int64_t i = 0; i < count; i += kRunPiece) {
    const std::int64_t n = std::min(kRunPiece, count - i);
    copy_in(size, source + i * step * static_cast<std::int64_t>(size), step, piece, n);
    widen(storage, piece, to + i, n);
  }
}

void store_run(DType storage, const std::byte* source, std::int64_t source_step, std::byte* target,
               std::int64_t step, std::int64_t count) {
  const std::size_t size = size_of(storage);
  if (!is_narrow_float(storage)) return copy_out(size, source, source_step, target, step, count);
  const auto* from = reinterpret_cast<const float*>(source);
  if (step == 1 && source_step == 1) return narrow(storage, from, target, count);
  alignas(std::uint16_t) std::byte piece[kRunPiece * sizeof(std::uint16_t)];
  if (source_step == 0) {
    narrow(storage, from, piece, 1);
    return copy_out(size, piece, 0, target, step, count);
  }
  for (std::int64_t i = 0; i < count; i += kRunPiece) {
    const std::int64_t n = std::min(kRunPiece, count - i);
    narrow(storage, from + i, piece, n);
    copy_out(size, piece, 1, target + i * step * static_cast<std::int64_t>(size), step, n);
  }
}

void fill_run(DType compute, double value, std::byte* target, std::int64_t count) {
  with_compute_type(compute, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    std::fill_n(reinterpret_cast<T*>(target), count, from_double<T>(value));
  });
}

std::int64_t read_int(DType type, const void* source, std::int64_t index) {
  std::int64_t result = 0;
  with_compute_type(type, [&](auto* kind) {
    using T = std::remove_pointer_t<decltype(kind)>;
    result = static_cast<std::int64_t>(static_cast<const T*>(source)[index]);
  });
  return result;
}

void index_run(DType type, std::int64_t first, std::int64_t step, std::byte* target,
               std::int64_t count) {
  with_compute_type(type, [&](auto* kind) {
    using T = std::remove_pointer_t<decltype(kind)>;
    T* to = reinterpret_cast<T*>(target);
    if (step == 0) {
      std::fill_n(to, count, static_cast<T>(first));
      return;
    }
    auto value = static_cast<std::uint64_t>(first);
    for (std::int64_t i = 0; i < count; ++i, value += static_cast<std::uint64_t>(step))
      to[i] = static_cast<T>(static_cast<std::int64_t>(value));
  });
}

}  // namespace sinter::runtime::cpu
