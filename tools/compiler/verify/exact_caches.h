// SPDX-License-Identifier: Apache-2.0
// Dequantizes 8-bit caches, so that a plan with such caches can be compared with its model.
#pragma once

#include <vector>

#include "fusion/context.h"

namespace sinter::tools {

/// `tensors`, inputs or outputs of a plan, without the scales of `caches`, and with the caches
/// dequantized to the model's type. `names`: the bindings in order; `is_input`: which of a cache's
/// two bindings they are.
std::vector<ir::Tensor> with_exact_caches(std::vector<ir::Tensor> tensors,
                                          const std::vector<std::string>& names,
                                          const std::vector<fusion::QuantizedCache>& caches,
                                          bool is_input);

}  // namespace sinter::tools
