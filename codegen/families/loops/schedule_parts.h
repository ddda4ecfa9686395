// What the choices of schedules share.
#pragma once

#include <cstdint>
#include <optional>

#include "codegen/families/loops/schedule.h"

namespace sinter::codegen {

constexpr std::int64_t kProcessors = 132;   // of an H100 or H200: fewer blocks leave some idle
constexpr std::int64_t kRegisters = 65536;  // of a multiprocessor
constexpr int kBlockThreads = 128;          // of blocks that hold several rows

/// Of those, how many clusters of so many blocks fill on any such GPU: which multiprocessors are
/// neighbours differs from one to the next, and where blocks of more than two leave some over, the
/// last clusters wait for all others.
inline double processors_filled_by(int cluster) {
  return cluster <= 2 ? static_cast<double>(kProcessors) : 120.0;
}

inline int ceil_div(std::int64_t a, std::int64_t b) { return static_cast<int>((a + b - 1) / b); }
int power_of_two_up(std::int64_t value);
/// Instructions of an element's operations, roughly.
int count_operations(const ProgramAnalysis& analysis);
std::optional<std::int64_t> upper(const ProgramAnalysis& analysis, const ir::Dim& dim);
Schedule with_vectors(const VectorPlan& plan, Family family);
VectorPlan no_vectors(const ProgramAnalysis& analysis);

/// How many loads and stores run along `dim` with stride one and also vary with both the rows and
/// the elements of rows: those are what a reduction's memory traffic consists of.
int unit_strides(const ProgramAnalysis& analysis, int dim);

/// Adds `dim <= max` to the conditions.
void limit(Schedule& schedule, const ProgramAnalysis& analysis, const ir::Dim& dim,
           std::int64_t max);

}  // namespace sinter::codegen
