// What the choices of schedules share.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <sinter/scalar_op.h>

#include "codegen/families/loops/schedule.h"
#include "codegen/families/loops/vector_plan.h"

namespace sinter::codegen {

constexpr int kBlockThreads = 128;  // of blocks that hold several rows
constexpr int kMostCluster = 8;     // blocks: more need an attribute of the kernel

/// Blocks of the largest cluster that the request's device runs; 1: it has no clusters.
int most_cluster(const ProgramAnalysis& analysis);

inline int ceil_div(std::int64_t a, std::int64_t b) { return static_cast<int>((a + b - 1) / b); }
int power_of_two_up(std::int64_t value);
/// Instructions of an element's operations, roughly.
int count_operations(const ProgramAnalysis& analysis);
std::optional<std::int64_t> upper(const ProgramAnalysis& analysis, const ir::Dim& dim);

/// True for operations of many instructions: division, powers, exponentials and the like.
bool is_long_operation(ScalarOp op);

/// How many loads and stores run along `dim` with stride one and also vary with both the rows and
/// the elements of rows: those are what a reduction's memory traffic consists of.
int unit_strides(const ProgramAnalysis& analysis, int dim);

/// Bytes of the widest element, of what rows' elements move, that varies along `dims` too.
int widest_element(const ProgramAnalysis& analysis, DimSet dims);

/// Adds `dim <= max` to the conditions.
void limit(Schedule& schedule, const ProgramAnalysis& analysis, const ir::Dim& dim,
           std::int64_t max);

// What is asked for as text.

/// Throws Error(kUsage).
[[noreturn]] void refuse_schedule(const ProgramAnalysis& analysis, const std::string& text,
                                  const std::string& why);
/// What `requested` says, with its vectors along the last of `dims`, if they fit.
Schedule complete_schedule(const ProgramAnalysis& analysis, const Schedule& requested, DimSet dims,
                           const std::string& text);
/// Refuses a schedule that loops over nothing and whose threads hold fewer than a row's elements.
void require_held(const ProgramAnalysis& analysis, const Schedule& schedule, std::int64_t held,
                  const std::string& text);

}  // namespace sinter::codegen
