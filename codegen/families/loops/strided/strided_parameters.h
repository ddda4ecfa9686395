// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codegen/families/loops/reduction_parameters.h"
#include "codegen/families/loops/schedule_word.h"

namespace sinter::codegen {

/// Rows that are sets of runs, a stride apart, with adjacent runs of adjacent rows: GroupNorm with
/// channels last. `threads_x` threads cover the vectors of these runs, `threads_y` divide the
/// strides.
struct StridedParameters : ReductionParameters {
  static constexpr const char* kName = "strided";
  static constexpr std::tuple kWords{
      Word{"cluster", &StridedParameters::cluster}, Word{"ahead", &StridedParameters::ahead},
      Word{"lean", &StridedParameters::lean}, Word{"again", &StridedParameters::again}};
};

}  // namespace sinter::codegen
