// SPDX-License-Identifier: Apache-2.0
// Floats of 8 bits on the CPU: vectors and single elements against the types' definition.
#include <bit>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>
#include <sinter/float8.h>

#include "runtime/cpu/ops/element.h"
#include "runtime/cpu/ops/tile_ops.h"

namespace sinter::testing {
namespace {

using runtime::cpu::OpArgs;

constexpr DType kTypes[] = {DType::kFloat8E4M3FN, DType::kFloat8E5M2, DType::kFloat8E4M3FNUZ,
                            DType::kFloat8E5M2FNUZ};

bool same(double a, double b) {
  return (a == b && std::signbit(a) == std::signbit(b)) || (std::isnan(a) && std::isnan(b));
}

/// One float32 of 8,209, NaN and infinities among them: a prime, so that all mantissas come.
std::vector<float> sample() {
  std::vector<float> numbers;
  for (std::uint64_t bits = 0; bits < (std::uint64_t{1} << 32); bits += 8209)
    numbers.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  for (const float x : {448.0F, 464.0F, 464.01F, 61439.9F, 61440.0F, 0x1p-17F, 0x1p-10F, -0.0F})
    numbers.push_back(x);
  return numbers;
}

TEST(CpuFloat8, EveryCodeIsItsNumber) {
  for (const DType type : kTypes) {
    std::vector<std::byte> codes;
    for (int code = 0; code < 256; ++code) codes.push_back(static_cast<std::byte>(code));
    std::vector<float> wide(256), floats(256);
    runtime::cpu::widen(type, codes.data(), wide.data(), 256);
    runtime::cpu::load_floats(type, codes.data(), 1, 256, floats.data());
    for (std::size_t code = 0; code < 256; ++code) {
      const double expected = decode_float8(type, static_cast<std::uint8_t>(code));
      EXPECT_TRUE(same(wide[code], expected)) << to_string(type) << " " << code;
      EXPECT_TRUE(same(floats[code], expected)) << to_string(type) << " " << code;
      EXPECT_TRUE(same(runtime::cpu::load_double(type, &codes[code]), expected));
    }
  }
}

TEST(CpuFloat8, NumbersRoundToTheNearest) {
  const std::vector<float> x = sample();
  std::vector<std::uint8_t> narrow(x.size()), stored(x.size());
  for (const DType type : kTypes) {
    runtime::cpu::narrow(type, x.data(), narrow.data(), std::ssize(x));
    runtime::cpu::store_floats(type, x.data(), reinterpret_cast<std::byte*>(stored.data()), 1,
                               std::ssize(x));
    for (std::size_t i = 0; i < x.size(); ++i) {
      const std::uint8_t expected = encode_float8(type, x[i]);
      ASSERT_EQ(narrow[i], expected) << to_string(type) << " of " << x[i];
      ASSERT_EQ(stored[i], expected) << to_string(type) << " of " << x[i];
    }
  }
}

template <typename T>
void check_rounding(const std::vector<T>& x, DType compute) {
  std::vector<T> y(x.size());
  for (const DType type : kTypes) {
    OpArgs args{1, std::ssize(x), y.data(), 0, {{x.data(), 0, true}, {}, {}}};
    runtime::cpu::find_op_kernel(float8_rounding(type), compute, compute)(args);
    for (std::size_t i = 0; i < x.size(); ++i)
      ASSERT_TRUE(same(y[i], round_to_float8(type, x[i])))
          << to_string(type) << " of " << x[i] << ": " << y[i];
  }
}

TEST(CpuFloat8, RoundedNumbersAreThoseOfTheType) {
  const std::vector<float> x = sample();
  check_rounding(x, DType::kFloat32);
  check_rounding(std::vector<double>(x.begin(), x.end()), DType::kFloat64);
}

}  // namespace
}  // namespace sinter::testing
