// SPDX-License-Identifier: Apache-2.0
#include "ir/constants/fourier.h"

#include <cmath>
#include <numbers>

namespace sinter::ir {

Dft::Dft(const Attrs& attrs)
    : length(attrs.get_int("length")),
      count(attrs.get_int("count")),
      step(attrs.get_int("step")),
      complex(attrs.get_int("complex") == 1),
      half(attrs.get_int("half") == 1),
      inverse(attrs.get_int("inverse") == 1) {}

std::vector<int> transform_radices(std::int64_t length) {
  if (length < 2 || length > kLongestTransform) return {};
  std::vector<int> radices;
  for (const int radix : {16, 8, 7, 5, 4, 3, 2})
    for (; length % radix == 0; length /= radix) radices.push_back(radix);
  return length == 1 ? radices : std::vector<int>{};
}

Tensor roots_of_unity(std::int64_t length) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < length; ++i) {
    const double angle =
        2 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(length);
    values.push_back(std::cos(angle));
    values.push_back(-std::sin(angle));
  }
  return Tensor::from_doubles(DType::kFloat32, {length, 2}, values);
}

}  // namespace sinter::ir
