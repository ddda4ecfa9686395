// SPDX-License-Identifier: Apache-2.0
#include "tests/support/elements.h"

#include "ir/tensor.h"

namespace sinter::testing {

double element(DType type, const std::vector<std::byte>& bytes, std::int64_t index) {
  const std::byte* at = bytes.data() + static_cast<std::size_t>(index) * size_of(type);
  return is_float(type) ? ir::load_as_double(type, at)
                        : static_cast<double>(ir::load_as_int(type, at));
}

void set_element(DType type, std::vector<std::byte>& bytes, std::int64_t index, double value) {
  std::byte* at = bytes.data() + static_cast<std::size_t>(index) * size_of(type);
  if (is_float(type))
    ir::store_double(type, at, value);
  else
    ir::store_int(type, at, static_cast<std::int64_t>(value));
}

}  // namespace sinter::testing
