// SPDX-License-Identifier: Apache-2.0
// Moves of elements of 4 bytes, or of one, for the CPU's own vector instructions, chosen at run
// time.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sinter::runtime::cpu {

/// Fewest and most elements that the moves below take at a step.
inline constexpr std::int64_t kLeastStep = 2, kMostStep = 4;

/// target[i] = source[i * step] for i in [0, count); step is in [kLeastStep, kMostStep].
void take_each(const std::uint32_t* source, std::int64_t step, std::uint32_t* target,
               std::int64_t count);

/// target[i * rows + r] = source[r * row_step + i] for i in [0, count) and r in [0, rows); rows is
/// in [kLeastStep, kMostStep]. Elements have `size` bytes, 1 or 4, by which pointers are aligned.
void interleave(std::size_t size, const std::byte* source, std::int64_t rows, std::int64_t row_step,
                std::byte* target, std::int64_t count);

/// target[r * target_step + c] = source[c * source_step + r].
void transpose(const std::uint32_t* source, std::int64_t source_step, std::uint32_t* target,
               std::int64_t target_step, std::int64_t rows, std::int64_t columns);

}  // namespace sinter::runtime::cpu
