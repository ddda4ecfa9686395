// SPDX-License-Identifier: Apache-2.0
#include "compare_buffers.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "ir/tensor.h"

namespace sinter::test {

std::string first_difference(DType type, std::span<const std::byte> found,
                             std::span<const std::byte> expected, const Allowed& allowed) {
  const std::size_t size = size_of(type);
  if (found.size() < expected.size())
    return fmt::format(" has {} bytes, not {}", found.size(), expected.size());
  for (std::size_t i = 0; i < expected.size() / size; ++i) {
    const std::byte *a = found.data() + i * size, *e = expected.data() + i * size;
    if (!is_float(type)) {
      const auto x = ir::load_as_int(type, a), y = ir::load_as_int(type, e);
      if (x != y) return fmt::format("[{}] is {}, not {}", i, x, y);
      continue;
    }
    const double x = ir::load_as_double(type, a), y = ir::load_as_double(type, e);
    const bool equal =
        std::isnan(y)
            ? std::isnan(x)
            : x == y || std::abs(x - y) <= allowed.relative * (std::abs(y) + allowed.floor);
    if (!equal) return fmt::format("[{}] is {}, not {}", i, x, y);
  }
  return "";
}

double largest_magnitude(DType type, std::span<const std::byte> elements) {
  double largest = 0;
  const std::size_t size = size_of(type);
  for (std::size_t i = 0; is_float(type) && i < elements.size() / size; ++i) {
    const double value = std::abs(ir::load_as_double(type, elements.data() + i * size));
    if (std::isfinite(value)) largest = std::max(largest, value);
  }
  return largest;
}

}  // namespace sinter::test
