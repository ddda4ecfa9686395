// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/ops/element.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "runtime/cpu/ops/float8_ops.h"
#include "runtime/cpu/ops/vectors/vector_moves.h"

namespace sinter::runtime::cpu {
namespace {

template <typename T>
T read(const std::byte* p) {
  T value;
  std::memcpy(&value, p, sizeof value);
  return value;
}

template <typename T>
void write(std::byte* p, T value) {
  std::memcpy(p, &value, sizeof value);
}

}  // namespace

// Integer arithmetic, because not every compiler supports _Float16. Moves exponent and mantissa to
// their float positions; a multiplication by a power of two corrects the bias, exactly even for
// subnormals.
float half_to_float(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000U) << 16, rest = bits & 0x7fffU;
  std::uint32_t result = 0;
  if (rest >= 0x7c00U)
    result = 0x7f800000U | (rest & 0x3ffU) << 13;
  else
    result = __builtin_bit_cast(std::uint32_t, __builtin_bit_cast(float, rest << 13) * 0x1p112F);
  return __builtin_bit_cast(float, sign | result);
}

std::uint16_t float_to_half(float value) {
  const auto bits = __builtin_bit_cast(std::uint32_t, value);
  const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000U);
  const std::uint32_t rest = bits & 0x7fffffffU;
  const auto make = [sign](std::uint32_t magnitude) {
    return static_cast<std::uint16_t>(sign | magnitude);
  };
  if (rest > 0x7f800000U) return make(0x7e00U | (rest >> 13 & 0x3ffU));
  if (rest >= 0x47800000U) return make(0x7c00U);  // 65536 or more becomes infinity
  if (rest < 0x38800000U) {
    // Below 2^-14 halves are multiples of 2^-24, which is the ulp of 0.5: adding 0.5 rounds to
    // them.
    const float aligned = __builtin_bit_cast(float, rest) + 0.5F;
    return make(__builtin_bit_cast(std::uint32_t, aligned) - 0x3f000000U);
  }
  // Rounds to nearest even; a carry increments the exponent, up to infinity.
  return make((rest - 0x38000000U + 0xfffU + (rest >> 13 & 1U)) >> 13);
}

std::uint16_t float_to_bfloat(float value) {
  const auto bits = __builtin_bit_cast(std::uint32_t, value);
  if (std::isnan(value)) return static_cast<std::uint16_t>(bits >> 16 | 0x40);
  return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

double load_double(DType dtype, const std::byte* p) {
  switch (dtype) {
    case DType::kFloat16: return half_to_float(read<std::uint16_t>(p));
    case DType::kBFloat16: return bfloat_to_float(read<std::uint16_t>(p));
    case DType::kFloat32: return read<float>(p);
    case DType::kFloat64: return read<double>(p);
    default:
      if (is_float8(dtype)) return decode_float8(dtype, read<std::uint8_t>(p));
      return static_cast<double>(load_int(dtype, p));
  }
}

void store_double(DType dtype, std::byte* p, double value) {
  switch (dtype) {
    case DType::kFloat16: write(p, float_to_half(round_to_odd(value))); return;
    case DType::kBFloat16: write(p, float_to_bfloat(round_to_odd(value))); return;
    case DType::kFloat32: write(p, static_cast<float>(value)); return;
    case DType::kFloat64: write(p, value); return;
    default:
      if (is_float8(dtype)) return write(p, encode_float8(dtype, value));
      store_int(dtype, p, from_double<std::int64_t>(value));
  }
}

std::int64_t load_int(DType dtype, const std::byte* p) {
  if (dtype == DType::kBool) return read<std::uint8_t>(p) != 0 ? 1 : 0;
  if (is_float(dtype)) return from_double<std::int64_t>(load_double(dtype, p));
  return with_number_type(
      dtype, [&](auto type) { return static_cast<std::int64_t>(read<decltype(type)>(p)); });
}

void store_int(DType dtype, std::byte* p, std::int64_t value) {
  if (dtype == DType::kBool) return write(p, static_cast<std::uint8_t>(value != 0));
  if (is_float(dtype)) return store_double(dtype, p, static_cast<double>(value));
  with_number_type(dtype, [&](auto type) { write(p, static_cast<decltype(type)>(value)); });
}

bool are_plain_bools(std::span<const std::byte> bools) {
  return any_bits(reinterpret_cast<const std::uint8_t*>(bools.data()),
                  static_cast<std::int64_t>(bools.size())) <= 1;
}

void make_bools_plain(std::span<std::byte> bools) {
  for (std::byte& value : bools) value = value == std::byte{0} ? std::byte{0} : std::byte{1};
}

float round_to_odd(double value) {
  const auto nearest = static_cast<float>(value);
  if (std::isnan(value) || static_cast<double>(nearest) == value) return nearest;
  auto bits = __builtin_bit_cast(std::uint32_t, nearest);
  if (std::abs(static_cast<double>(nearest)) > std::abs(value)) --bits;  // now towards zero
  return __builtin_bit_cast(float, bits | 1U);
}

void load_floats(DType dtype, const std::byte* from, std::int64_t step, std::int64_t count,
                 float* to) {
  const auto each = [&](auto pointer, auto convert) {
    for (std::int64_t i = 0; i < count; ++i) to[i] = convert(pointer[i * step]);
  };
  switch (dtype) {
    case DType::kFloat16: return each(reinterpret_cast<const std::uint16_t*>(from), half_to_float);
    case DType::kBFloat16:
      return each(reinterpret_cast<const std::uint16_t*>(from), bfloat_to_float);
    default:
      if (is_float8(dtype))
        return with_float8(dtype, [&]<DType kType>() {
          each(reinterpret_cast<const std::uint8_t*>(from), float8_to_float<kType>);
        });
      if (step == 1)
        std::copy_n(reinterpret_cast<const float*>(from), count, to);
      else
        each(reinterpret_cast<const float*>(from), [](float x) { return x; });
  }
}

void store_floats(DType dtype, const float* from, std::byte* to, std::int64_t step,
                  std::int64_t count) {
  const auto each = [&](auto pointer, auto convert) {
    for (std::int64_t i = 0; i < count; ++i) pointer[i * step] = convert(from[i]);
  };
  switch (dtype) {
    case DType::kFloat16: return each(reinterpret_cast<std::uint16_t*>(to), float_to_half);
    case DType::kBFloat16: return each(reinterpret_cast<std::uint16_t*>(to), float_to_bfloat);
    default:
      if (is_float8(dtype))
        return with_float8(dtype, [&]<DType kType>() {
          each(reinterpret_cast<std::uint8_t*>(to), float_to_float8<kType>);
        });
      if (step == 1)
        std::copy_n(from, count, reinterpret_cast<float*>(to));
      else
        each(reinterpret_cast<float*>(to), [](float x) { return x; });
  }
}

}  // namespace sinter::runtime::cpu
