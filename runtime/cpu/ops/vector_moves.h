// Moves of 4-byte elements for the CPU's own vector instructions, chosen at run time.
#pragma once

#include <cstdint>

namespace sinter::runtime::cpu {

/// Fewest and most elements that the moves below take at a step.
inline constexpr std::int64_t kLeastStep = 2, kMostStep = 4;

/// target[i] = source[i * step] for i in [0, count); step is in [kLeastStep, kMostStep].
void take_each(const std::uint32_t* source, std::int64_t step, std::uint32_t* target,
               std::int64_t count);

/// target[i * rows + r] = source[r * row_step + i] for i in [0, count) and r in [0, rows); rows is
/// in [kLeastStep, kMostStep].
void interleave(const std::uint32_t* source, std::int64_t rows, std::int64_t row_step,
                std::uint32_t* target, std::int64_t count);

}  // namespace sinter::runtime::cpu
