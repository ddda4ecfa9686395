// SPDX-License-Identifier: Apache-2.0
// What neighbouring windows share.
#pragma once

#include <vector>

#include "codegen/emit/program_analysis.h"
#include "codegen/families/loops/window/window_parameters.h"

namespace sinter::codegen {

/// The loads and operations that the rows of `overlap` share: Overlap::shared.
std::vector<bool> shared_values(const ProgramAnalysis& analysis, const Overlap& overlap);

/// Whether rows along `d` all have separate results.
bool separates_rows(const ProgramAnalysis& analysis, int d);

}  // namespace sinter::codegen
