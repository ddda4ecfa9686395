// SPDX-License-Identifier: Apache-2.0
// Element types. Standard library only: every folder may include this header.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace sinter {

/// Storage type of a tensor's elements. The numbers are part of the plan format: only append.
enum class DType : std::uint8_t {
  kBool = 0,
  kInt8 = 1,
  kInt16 = 2,
  kInt32 = 3,
  kInt64 = 4,
  kUInt8 = 5,
  kUInt16 = 6,
  kUInt32 = 7,
  kUInt64 = 8,
  kFloat16 = 9,
  kBFloat16 = 10,
  kFloat32 = 11,
  kFloat64 = 12,
  kFloat8E4M3FN = 13,
  kFloat8E5M2 = 14,
  kFloat8E4M3FNUZ = 15,
  kFloat8E5M2FNUZ = 16,
};

inline constexpr int kDTypeCount = 17;
inline constexpr DType kFirstFloat8 = DType::kFloat8E4M3FN;

/// Bytes of one element.
constexpr std::size_t size_of(DType type) {
  constexpr std::uint8_t sizes[kDTypeCount] = {1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 4, 8, 1, 1, 1, 1};
  return sizes[static_cast<std::uint8_t>(type)];
}

constexpr bool is_float(DType type) { return type >= DType::kFloat16; }
/// 8-bit floats. Sinter stores and converts them; sinter/float8.h describes their formats.
constexpr bool is_float8(DType type) { return type >= kFirstFloat8; }
constexpr bool is_integer(DType type) { return type >= DType::kInt8 && type <= DType::kUInt64; }
constexpr bool is_signed_integer(DType type) {
  return type >= DType::kInt8 && type <= DType::kInt64;
}

/// Floats with arithmetic of their own; 8-bit floats are cast before computing.
constexpr bool is_arithmetic_float(DType type) { return is_float(type) && !is_float8(type); }
/// Floats of fewer than 32 bits.
constexpr bool is_narrow_float(DType type) {
  return type == DType::kFloat16 || type == DType::kBFloat16 || is_float8(type);
}

/// The type in which values are computed inside a fused region: narrow floats widen to float32,
/// everything else keeps its own type.
constexpr DType compute_type(DType type) { return is_narrow_float(type) ? DType::kFloat32 : type; }

/// Short name as printed in graph text and on the command line ("f32", "i64", "bool").
constexpr std::string_view to_string(DType type) {
  constexpr std::string_view names[kDTypeCount] = {
      "bool", "i8",   "i16", "i32", "i64",      "u8",     "u16",        "u32",       "u64",
      "f16",  "bf16", "f32", "f64", "f8e4m3fn", "f8e5m2", "f8e4m3fnuz", "f8e5m2fnuz"};
  return names[static_cast<std::uint8_t>(type)];
}

/// The inverse of to_string; nullopt if `name` is no type.
constexpr std::optional<DType> dtype_from_string(std::string_view name) {
  for (int i = 0; i < kDTypeCount; ++i)
    if (to_string(static_cast<DType>(i)) == name) return static_cast<DType>(i);
  return std::nullopt;
}

}  // namespace sinter
