#pragma once

#include "codegen/families/loops/reduction_parameters.h"
#include "codegen/families/loops/schedule_word.h"

namespace sinter::codegen {

/// Rows whose elements lie in runs, a stride apart, the runs of neighbouring rows side by side:
/// GroupNorm with channels last. `threads_x` threads take the vectors of as many runs, `threads_y`
/// of them share them.
struct StridedParameters : ReductionParameters {
  static constexpr const char* kName = "strided";
  static constexpr std::tuple kWords{
      Word{"cluster", &StridedParameters::cluster}, Word{"ahead", &StridedParameters::ahead},
      Word{"lean", &StridedParameters::lean}, Word{"again", &StridedParameters::again}};
};

}  // namespace sinter::codegen
