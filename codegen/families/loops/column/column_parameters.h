// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codegen/families/loops/reduction_parameters.h"
#include "codegen/families/loops/schedule_word.h"

namespace sinter::codegen {

/// Threads along rows, `threads_x` of a block; `threads_y` threads share a row and reduce by shared
/// memory.
struct ColumnParameters : ReductionParameters {
  static constexpr const char* kName = "column";
  static constexpr std::tuple kWords{Word{"ahead", &ColumnParameters::ahead},
                                     Word{"lean", &ColumnParameters::lean},
                                     Word{"again", &ColumnParameters::again}};
};

}  // namespace sinter::codegen
