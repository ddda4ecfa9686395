// SPDX-License-Identifier: Apache-2.0
// Views of dense tensors in host or device memory.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <ranges>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <sinter/dtype.h>
#include <sinter/export.h>

namespace sinter {

/// A float16 element (IEEE binary16) as its bits.
struct Float16 {
  std::uint16_t bits = 0;
};
/// A bfloat16 element (the upper half of a float) as its bits.
struct BFloat16 {
  std::uint16_t bits = 0;
};
/// 8-bit elements as their codes; sinter/float8.h gives the values.
struct Float8E4M3FN {
  std::uint8_t bits = 0;
};
struct Float8E5M2 {
  std::uint8_t bits = 0;
};
struct Float8E4M3FNUZ {
  std::uint8_t bits = 0;
};
struct Float8E5M2FNUZ {
  std::uint8_t bits = 0;
};

namespace detail {

template <typename T>
concept PlainInteger = std::same_as<T, signed char> || std::same_as<T, unsigned char> ||
    std::same_as<T, short> || std::same_as<T, unsigned short> || std::same_as<T, int> ||
    std::same_as<T, unsigned> || std::same_as<T, long> || std::same_as<T, unsigned long> ||
    std::same_as<T, long long> || std::same_as<T, unsigned long long>;

template <PlainInteger T>
consteval DType integer_dtype() {
  if constexpr (sizeof(T) == 1) return std::is_signed_v<T> ? DType::kInt8 : DType::kUInt8;
  if constexpr (sizeof(T) == 2) return std::is_signed_v<T> ? DType::kInt16 : DType::kUInt16;
  if constexpr (sizeof(T) == 4) return std::is_signed_v<T> ? DType::kInt32 : DType::kUInt32;
  if constexpr (sizeof(T) == 8) return std::is_signed_v<T> ? DType::kInt64 : DType::kUInt64;
}

}  // namespace detail

/// The C++ types of elements: bool, the integers, float, double, and the structures above.
template <typename T>
concept Element = std::same_as<T, bool> || detail::PlainInteger<T> || std::same_as<T, float> ||
    std::same_as<T, double> || std::same_as<T, Float16> || std::same_as<T, BFloat16> ||
    std::same_as<T, Float8E4M3FN> || std::same_as<T, Float8E5M2> ||
    std::same_as<T, Float8E4M3FNUZ> || std::same_as<T, Float8E5M2FNUZ>;

template <Element T>
consteval DType dtype_of() {
  if constexpr (std::same_as<T, bool>)
    return DType::kBool;
  else if constexpr (std::same_as<T, float>)
    return DType::kFloat32;
  else if constexpr (std::same_as<T, double>)
    return DType::kFloat64;
  else if constexpr (std::same_as<T, Float16>)
    return DType::kFloat16;
  else if constexpr (std::same_as<T, BFloat16>)
    return DType::kBFloat16;
  else if constexpr (std::same_as<T, Float8E4M3FN>)
    return DType::kFloat8E4M3FN;
  else if constexpr (std::same_as<T, Float8E5M2>)
    return DType::kFloat8E5M2;
  else if constexpr (std::same_as<T, Float8E4M3FNUZ>)
    return DType::kFloat8E4M3FNUZ;
  else if constexpr (std::same_as<T, Float8E5M2FNUZ>)
    return DType::kFloat8E5M2FNUZ;
  else
    return detail::integer_dtype<T>();
}

/// A contiguous range of elements: std::vector<float>, std::span<const long>.
template <typename R>
concept ElementRange = std::ranges::contiguous_range<R> && std::ranges::sized_range<R> &&
    Element<std::remove_cv_t<std::ranges::range_value_t<R>>>;

enum class Memory : std::uint8_t { kHost = 0, kDevice = 1 };

namespace detail {

/// Number of elements, and of bytes, of a shape. Throw Error(kUsage) for a negative dimension and
/// on overflow of 64 bits.
SINTER_API std::int64_t element_count(std::span<const std::int64_t> shape);
SINTER_API std::size_t byte_count(std::span<const std::int64_t> shape, DType dtype);
/// Throws Error(kUsage) unless a view of `dtype` in `memory` can be read as `wanted` on the host.
SINTER_API void check_read(DType dtype, Memory memory, DType wanted);
/// Throws Error(kUsage) unless `shape` has `count` elements.
SINTER_API void check_count(std::span<const std::int64_t> shape, std::size_t count);

}  // namespace detail

/// A view of dense row-major elements that it does not own.
struct TensorView {
  DType dtype = DType::kFloat32;
  std::vector<std::int64_t> shape;
  const void* data = nullptr;
  Memory memory = Memory::kHost;
  int device = -1;  // GPU of device memory; -1: the session's, or host memory

  /// A view of a host range that is no temporary. Throws Error(kUsage) unless the number of values
  /// is the element count of `shape`.
  template <ElementRange R>
  requires std::ranges::borrowed_range<R>
  static TensorView of(std::vector<std::int64_t> shape, R&& values) {
    detail::check_count(shape, std::ranges::size(values));
    return {dtype_of<std::remove_cv_t<std::ranges::range_value_t<R>>>(), std::move(shape),
            std::ranges::data(values)};
  }

  /// Both throw Error(kUsage) for an invalid shape.
  std::int64_t element_count() const { return detail::element_count(shape); }
  std::size_t byte_count() const { return detail::byte_count(shape, dtype); }

  /// The elements. Throws Error(kUsage) if they are of another type or in device memory.
  template <Element T>
  std::span<const T> as() const {
    detail::check_read(dtype, memory, dtype_of<T>());
    return {static_cast<const T*>(data), static_cast<std::size_t>(element_count())};
  }
};

/// The same for writable memory.
struct MutableTensorView {
  DType dtype = DType::kFloat32;
  std::vector<std::int64_t> shape;
  void* data = nullptr;
  Memory memory = Memory::kHost;
  int device = -1;

  template <ElementRange R>
  requires std::ranges::borrowed_range<R>
  static MutableTensorView of(std::vector<std::int64_t> shape, R&& values) {
    detail::check_count(shape, std::ranges::size(values));
    return {dtype_of<std::remove_cv_t<std::ranges::range_value_t<R>>>(), std::move(shape),
            std::ranges::data(values)};
  }

  std::int64_t element_count() const { return detail::element_count(shape); }
  std::size_t byte_count() const { return detail::byte_count(shape, dtype); }

  template <Element T>
  std::span<T> as() const {
    detail::check_read(dtype, memory, dtype_of<T>());
    return {static_cast<T*>(data), static_cast<std::size_t>(element_count())};
  }

  operator TensorView() const { return {dtype, shape, data, memory, device}; }
};

}  // namespace sinter
