// SPDX-License-Identifier: Apache-2.0
#include "library_check.h"

#include <cmath>
#include <cstring>
#include <random>
#include <stdexcept>

#include <gtest/gtest.h>

#include "tests/support/elements.h"

namespace sinter::testing {

Bytes random_bytes(DType type, std::int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> uniform(-1, 1);
  Bytes bytes(static_cast<std::size_t>(count) * size_of(type));
  for (std::int64_t i = 0; i < count; ++i) set_element(type, bytes, i, uniform(random));
  return bytes;
}

void add_special(DType type, Bytes& bytes, plan::fb::Activation activation) {
  using plan::fb::Activation;
  // Some are products with x, which have none for the least.
  const bool has_infinities = activation == Activation::None || activation == Activation::Relu ||
                              activation == Activation::Clip ||
                              activation == Activation::HardSigmoid ||
                              activation == Activation::Sigmoid;
  const auto count = static_cast<std::int64_t>(bytes.size() / size_of(type));
  set_element(type, bytes, count / 3, NAN);
  set_element(type, bytes, count - 1, NAN);
  if (!has_infinities) return;
  set_element(type, bytes, count / 9, INFINITY);
  set_element(type, bytes, count * 3 / 4, -INFINITY);
}

double activate(plan::fb::Activation activation, double x, double a, double b) {
  const double hard = std::max(std::min(a * x + b, 1.0), 0.0);
  switch (activation) {
    case plan::fb::Activation::None: return x;
    case plan::fb::Activation::Relu: return std::max(x, 0.0);
    case plan::fb::Activation::GeluErf: return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
    case plan::fb::Activation::GeluTanh:
      return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case plan::fb::Activation::Sigmoid: return 1 / (1 + std::exp(-x));
    case plan::fb::Activation::Tanh: return std::tanh(x);
    case plan::fb::Activation::Silu: return x / (1 + std::exp(-x));
    case plan::fb::Activation::HardSigmoid: return hard;
    case plan::fb::Activation::HardSwish: return x * hard;
    case plan::fb::Activation::LeakyRelu: return x < 0 ? a * x : x;
    case plan::fb::Activation::Clip: return std::min(std::max(x, a), b);
  }
  throw std::logic_error("no definition of this activation");
}

void expect_close(DType type, const Bytes& expected, const TensorView& actual) {
  Bytes got(actual.byte_count());
  if (!got.empty()) std::memcpy(got.data(), actual.data, got.size());
  const std::int64_t count = actual.element_count();
  double largest = 1e-30;
  for (std::int64_t i = 0; i < count; ++i)
    if (const double size = std::abs(element(type, expected, i)); std::isfinite(size))
      largest = std::max(largest, size);
  const double tolerance = type == DType::kFloat16    ? 2e-3
                           : type == DType::kBFloat16 ? 1.6e-2
                                                      : 5e-6;
  for (std::int64_t i = 0; i < count; ++i) {
    const double wanted = element(type, expected, i), found = element(type, got, i);
    if (std::isnan(wanted))
      ASSERT_TRUE(std::isnan(found)) << found << " instead of NaN, element " << i;
    else if (std::isinf(wanted))
      ASSERT_EQ(found, wanted) << "element " << i;
    else
      ASSERT_NEAR(found, wanted, tolerance * largest) << "element " << i;
  }
}

}  // namespace sinter::testing
