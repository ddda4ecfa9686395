// SPDX-License-Identifier: Apache-2.0
// Registers that a thread keeps across passes over its elements.
#pragma once

#include "codegen/families/loops/schedule.h"

namespace sinter::codegen {

/// True if a thread that keeps its elements in registers also keeps this operation's result: a
/// later reduction stage uses it.
bool keeps_for_later(const ProgramAnalysis& analysis, std::size_t value);

/// True if a lean schedule recomputes this value in each stage that uses it. Applies to a few short
/// operations on values that are kept anyway, or on one element of half a register. `again`: also
/// to long operations.
bool is_cheap_again(const ProgramAnalysis& analysis, std::size_t value, bool again = false);

/// True if a load's address does not depend on the row.
bool is_shared_by_rows(const ProgramAnalysis& analysis, std::size_t load);

/// True if a load is not issued ahead: in a lean schedule, data that all rows share; for rows in
/// runs, data that all runs of a row share.
bool is_late(const ProgramAnalysis& analysis, const Schedule& schedule, std::size_t load);

/// True if a load can be staged: an unconditional vector of 4 bytes or more that only one row
/// reads.
bool can_stage(const ProgramAnalysis& analysis, const Schedule& schedule, std::size_t load);

/// 32-bit registers for one element of a row while the row's reductions run. `elements`: count only
/// what varies along these dimensions; 0: along all dimensions of the row.
double words_per_element(const ProgramAnalysis& analysis, bool lean = false, bool again = false,
                         DimSet elements = 0);

/// 32-bit registers for a thread's elements.
double held_words(const ProgramAnalysis& analysis, const Schedule& schedule);

}  // namespace sinter::codegen
