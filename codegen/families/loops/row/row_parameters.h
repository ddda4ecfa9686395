// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codegen/families/loops/reduction_parameters.h"
#include "codegen/families/loops/schedule_word.h"

namespace sinter::codegen {

/// `threads_x` threads share a row and reduce by shuffles, then by shared memory; a block has
/// `threads_y` rows.
struct RowParameters : ReductionParameters {
  bool tail = false;    // looped: elements after the last whole vector are processed one by one
  bool staged = false;  // first loads go to shared memory instead of registers

  static constexpr const char* kName = "row";
  static constexpr std::tuple kWords{
      Word{"cluster", &RowParameters::cluster}, Word{"blocks", &RowParameters::blocks},
      Word{"ahead", &RowParameters::ahead},     Word{"tail", &RowParameters::tail, false},
      Word{"staged", &RowParameters::staged},   Word{"lean", &RowParameters::lean},
      Word{"again", &RowParameters::again}};
};

}  // namespace sinter::codegen
