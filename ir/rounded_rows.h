// SPDX-License-Identifier: Apache-2.0
// Rows that a model lets targets round.
#pragma once

#include "ir/attributes.h"

namespace sinter::ir {

/// Attribute of a MatMul with scaled weights. 1: targets may round rows of x to 8 bits by blocks
/// (ONNX Runtime's accuracy level 4).
inline constexpr const char* kMayRound = "may_round";

inline bool may_round(const Attrs& attrs) {
  return attrs.has(kMayRound) && attrs.get_int(kMayRound) != 0;
}

}  // namespace sinter::ir
