// SPDX-License-Identifier: Apache-2.0
// Counts the tokens of a mask when a session gets one.
#pragma once

#include <cstdint>
#include <string>

#include <sinter/tensor.h>

namespace sinter::runtime {

/// The number of rows of a packed batch: the ones of `mask` (in host memory), rounded up by
/// packed_rows. Throws Error(kUsage) naming the index of an element that is neither 0 nor 1 and, if
/// `first`, of a sequence whose first element is 0. `name`: the input's.
std::int64_t count_tokens(const TensorView& mask, const std::string& name, bool first);

}  // namespace sinter::runtime
