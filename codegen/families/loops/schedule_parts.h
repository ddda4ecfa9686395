// SPDX-License-Identifier: Apache-2.0
// Common code of the schedules' rules.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <sinter/scalar_op.h>

#include "codegen/families/loops/schedule.h"
#include "codegen/families/loops/vector_plan.h"

namespace sinter::codegen {

constexpr int kBlockThreads = 128;  // threads of blocks with several rows
constexpr int kMostCluster = 8;     // blocks; more need a kernel attribute

/// Blocks of the largest cluster on the request's device; 1: no clusters.
int most_cluster(const ProgramAnalysis& analysis);

inline int ceil_div(std::int64_t a, std::int64_t b) { return static_cast<int>((a + b - 1) / b); }
int power_of_two_up(std::int64_t value);
/// Approximate instructions of an element's operations.
int count_operations(const ProgramAnalysis& analysis);
std::optional<std::int64_t> upper(const ProgramAnalysis& analysis, const ir::Dim& dim);

/// True for operations of many instructions, such as division, powers and exponentials.
bool is_long_operation(ScalarOp op);

/// Number of loads and stores with stride one along `dim` that vary with rows and with their
/// elements, adjacent ones at least: the memory traffic of a reduction.
int unit_strides(const ProgramAnalysis& analysis, int dim);

/// Bytes of the widest element accessed for each element of a row that also varies along `dims`.
int widest_element(const ProgramAnalysis& analysis, DimSet dims);

/// Adds `dim <= max` to the conditions.
void limit(Schedule& schedule, const ProgramAnalysis& analysis, const ir::Dim& dim,
           std::int64_t max);

// Requested schedules, as text.

/// Throws Error(kUsage).
[[noreturn]] void refuse_schedule(const ProgramAnalysis& analysis, const std::string& text,
                                  const std::string& why);
/// `requested` completed, with vectors along the last of `dims`, if it fits.
Schedule complete_schedule(const ProgramAnalysis& analysis, const Schedule& requested, DimSet dims,
                           const std::string& text);
/// Refuses a schedule without a loop whose threads hold fewer elements than a row has.
void require_held(const ProgramAnalysis& analysis, const Schedule& schedule, std::int64_t held,
                  const std::string& text);

}  // namespace sinter::codegen
