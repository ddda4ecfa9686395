// Rows whose elements lie in runs, a stride apart: what their schedule and their emitter share.
#pragma once

#include <optional>

#include "codegen/families/loops/loop_schedule.h"

namespace sinter::codegen {

/// How such rows lie. The runs of neighbouring rows touch, so that a block takes several rows to
/// move whole sectors of memory.
struct Runs {
  int row_dim = -1;         // neighbouring rows
  int run_dim = -1;         // the elements of a run
  DimSet steps = 0;         // from run to run of a row
  std::int64_t length = 0;  // elements of a run
};

/// Nothing if the program's rows do not lie so, or their sizes are not known.
std::optional<Runs> runs_of(const ProgramAnalysis& analysis);

}  // namespace sinter::codegen
