// One element of any type, converted from and to double or int64.
#pragma once

#include <cstddef>
#include <cstdint>

#include <sinter/dtype.h>

namespace sinter::runtime::cpu {

/// `p` need not be aligned. Floats round to nearest even when stored; integers wrap.
double load_double(DType dtype, const std::byte* p);
void store_double(DType dtype, std::byte* p, double value);
std::int64_t load_int(DType dtype, const std::byte* p);
void store_int(DType dtype, std::byte* p, std::int64_t value);

float half_to_float(std::uint16_t bits);
std::uint16_t float_to_half(float value);
inline float bfloat_to_float(std::uint16_t bits) {
  return __builtin_bit_cast(float, static_cast<std::uint32_t>(bits) << 16);
}
std::uint16_t float_to_bfloat(float value);

}  // namespace sinter::runtime::cpu
