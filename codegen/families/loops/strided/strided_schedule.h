// SPDX-License-Identifier: Apache-2.0
// Rows of strided runs: common to their schedule and emitter.
#pragma once

#include <optional>

#include "codegen/families/loops/loop_schedule.h"

namespace sinter::codegen {

/// Layout of such rows. Runs of adjacent rows are adjacent: a block takes several rows to access
/// whole sectors.
struct Runs {
  int row_dim = -1;         // adjacent rows
  int run_dim = -1;         // elements of a run
  DimSet steps = 0;         // between runs of a row
  std::int64_t length = 0;  // of a run
};

/// Nothing if the program's rows have another layout, or unknown sizes.
std::optional<Runs> runs_of(const ProgramAnalysis& analysis);

}  // namespace sinter::codegen
