// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/ops/vectors/index_ops.h"

#include <type_traits>

#include "runtime/cpu/ops/element.h"
#include "runtime/cpu/ops/vectors/vector_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/cpu/ops/vectors/index_ops.cpp"
#include <hwy/foreach_target.h>
// Highway requires this order: after foreach_target.h.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace sinter::runtime::cpu {
namespace HWY_NAMESPACE {

template <typename T>
HWY_INLINE std::int64_t place_of(T found, std::int64_t extent) {
  const auto index = static_cast<std::int64_t>(found);
  return index + (std::is_signed_v<T> && index < 0 ? extent : 0);
}

template <typename T>
bool add(const T* values, std::int64_t step, std::int64_t extent, std::int64_t stride,
         std::int64_t* offsets, std::int64_t count) {
  // One comparison finds indices below 0, too.
  const auto end = static_cast<std::uint64_t>(extent);
  if (step == 0) {
    if (count == 0) return true;
    const std::int64_t index = place_of(*values, extent), offset = index * stride;
    for (std::int64_t i = 0; offset != 0 && i < count; ++i) offsets[i] += offset;
    return static_cast<std::uint64_t>(index) < end;
  }
  std::uint64_t outside = 0;
  if (step != 1) {
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t index = place_of(values[i * step], extent);
      outside |= static_cast<std::uint64_t>(index) < end ? 0U : 1U;
      offsets[i] += index * stride;
    }
    return outside == 0;
  }
#pragma omp simd reduction(| : outside)
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t index = place_of(values[i], extent);
    outside |= static_cast<std::uint64_t>(index) < end ? 0U : 1U;
    offsets[i] += index * stride;
  }
  return outside == 0;
}

bool add_any(DType type, const void* values, std::int64_t step, std::int64_t extent,
             std::int64_t stride, std::int64_t* offsets, std::int64_t count) {
  bool inside = true;
  with_compute_type(type, [&](auto* kind) {
    using T = std::remove_pointer_t<decltype(kind)>;
    if constexpr (std::is_integral_v<T>)
      inside = add(static_cast<const T*>(values), step, extent, stride, offsets, count);
  });
  return inside;
}

void fill(std::int64_t first, std::int64_t step, std::int64_t* offsets, std::int64_t count) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) offsets[i] = first + i * step;
}

void narrow(const std::int64_t* offsets, std::int32_t* to, std::int64_t count) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<std::int32_t>(offsets[i]);
}

void bounds_of(const std::int32_t* values, std::int64_t count, std::int32_t& least,
               std::int32_t& most) {
  std::int32_t low = values[0], high = values[0];
#pragma omp simd reduction(min : low) reduction(max : high)
  for (std::int64_t i = 0; i < count; ++i) {
    low = values[i] < low ? values[i] : low;
    high = values[i] > high ? values[i] : high;
  }
  least = low;
  most = high;
}

}  // namespace HWY_NAMESPACE
}  // namespace sinter::runtime::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sinter::runtime::cpu {

HWY_EXPORT(add_any);
HWY_EXPORT(bounds_of);
HWY_EXPORT(fill);
HWY_EXPORT(narrow);

void fill_offsets(std::int64_t first, std::int64_t step, std::int64_t* offsets,
                  std::int64_t count) {
  HWY_DYNAMIC_DISPATCH(fill)(first, step, offsets, count);
}

void narrow_offsets(const std::int64_t* offsets, std::int32_t* to, std::int64_t count) {
  HWY_DYNAMIC_DISPATCH(narrow)(offsets, to, count);
}

void find_bounds(const std::int32_t* values, std::int64_t count, std::int32_t& least,
                 std::int32_t& most) {
  HWY_DYNAMIC_DISPATCH(bounds_of)(values, count, least, most);
}

bool add_indices(DType type, const void* values, std::int64_t step, std::int64_t extent,
                 std::int64_t stride, std::int64_t* offsets, std::int64_t count) {
  return HWY_DYNAMIC_DISPATCH(add_any)(type, values, step, extent, stride, offsets, count);
}

}  // namespace sinter::runtime::cpu
#endif
