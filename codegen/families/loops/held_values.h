// What a thread holds in registers from a pass over its elements to a later one.
#pragma once

#include "codegen/families/loops/schedule.h"

namespace sinter::codegen {

/// True if a thread that holds its elements in registers keeps this one of them (the result of an
/// operation) from the reduction stage that computes it to a later one that uses it.
bool keeps_for_later(const ProgramAnalysis& analysis, std::size_t value);

/// True if a lean schedule computes this value again in each stage that uses it: a few short
/// operations on what is held anyway, or on one element that takes half a register. `again`: long
/// operations too.
bool is_cheap_again(const ProgramAnalysis& analysis, std::size_t value, bool again = false);

/// True if a load reads the same for every row, whatever it reads.
bool is_shared_by_rows(const ProgramAnalysis& analysis, std::size_t load);

/// True if a load is not issued ahead: a lean schedule's of what all rows share, and of rows in
/// runs what all of a row's runs share.
bool is_late(const ProgramAnalysis& analysis, const Schedule& schedule, std::size_t load);

/// True if a load can be staged: a whole vector of 4 or more bytes, unconditional, and read by one
/// row alone.
bool can_stage(const ProgramAnalysis& analysis, const Schedule& schedule, std::size_t load);

/// 32-bit words of registers that one element of a row takes while the row's reductions run: what
/// varies along `elements`, if not along all dimensions of a row.
double words_per_element(const ProgramAnalysis& analysis, bool lean = false, bool again = false,
                         DimSet elements = 0);

/// 32-bit words of registers that a thread's elements take.
double held_words(const ProgramAnalysis& analysis, const Schedule& schedule);

}  // namespace sinter::codegen
