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
/// target[i] = source[offsets[i]] for i in [0, count), where `starts` has been found for `offsets`
/// and `source` has `readable` elements: blocks of neighbours are looked up in one vector.
void look_up(const std::uint32_t* source, std::int64_t readable, const std::int32_t* offsets,
             const std::int32_t* starts, std::int64_t count, std::uint32_t* target);
/// Of each half of a block of offsets, which are not negative, where the vector begins that has
/// them all; -1: there is none. There are at most count / kLeastLookup of them.
void find_lookups(const std::int32_t* offsets, std::int64_t count, std::int32_t* starts);
inline constexpr std::int64_t kLeastLookup = 2;

}  // namespace sinter::runtime::cpu
