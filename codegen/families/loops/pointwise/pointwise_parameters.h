// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codegen/families/loops/schedule_word.h"

namespace sinter::codegen {

/// No reduction: threads along all elements.
struct PointwiseParameters {
  bool tail = false;  // elements after the last whole vector are processed one by one

  static constexpr const char* kName = "pointwise";
  static constexpr std::tuple kWords{Word{"tail", &PointwiseParameters::tail, false}};
};

}  // namespace sinter::codegen
