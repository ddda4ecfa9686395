// SPDX-License-Identifier: Apache-2.0
// Moves of 4-byte or 1-byte elements, with vector instructions chosen at run time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace sinter::runtime::cpu {

/// Range of `step` and `rows` in the moves below.
inline constexpr std::int64_t kLeastStep = 2, kMostStep = 4;

/// target[i] = source[i * step] for i in [0, count); step is in [kLeastStep, kMostStep].
void take_each(const std::uint32_t* source, std::int64_t step, std::uint32_t* target,
               std::int64_t count);

/// target[i * rows + r] = source[r * row_step + i] for i in [0, count) and r in [0, rows); rows is
/// in [kLeastStep, kMostStep]. Elements have `size` bytes, 1 or 4, and are aligned to it.
void interleave(std::size_t size, const std::byte* source, std::int64_t rows, std::int64_t row_step,
                std::byte* target, std::int64_t count);

/// target[r * target_step + c] = source[c * source_step + r]. Elements have `size` bytes: 1, 2, 4
/// or 8.
void transpose(std::size_t size, const std::byte* source, std::int64_t source_step,
               std::byte* target, std::int64_t target_step, std::int64_t rows,
               std::int64_t columns);

/// The bits that any of the bytes has.
std::uint8_t any_bits(const std::uint8_t* bytes, std::int64_t count);

/// target[i] = source[offsets[i]] for i in [0, count). `starts` comes from find_lookups(offsets);
/// `source` has `readable` elements. Blocks of nearby offsets take one vector table lookup.
void look_up(const std::uint32_t* source, std::int64_t readable, const std::int32_t* offsets,
             const std::int32_t* starts, std::int64_t count, std::uint32_t* target);
/// The same for rows of `count`, one after the other, which begin at source[rows[r]].
void look_up_rows(const std::uint32_t* source, std::int64_t readable,
                  std::span<const std::int64_t> rows, const std::int32_t* offsets,
                  const std::int32_t* starts, std::int64_t count, std::uint32_t* target);
/// For each half of a block of nonnegative offsets: the start of a vector that contains all of
/// them; -1: none. `starts` has at most count / kLeastLookup elements.
void find_lookups(const std::int32_t* offsets, std::int64_t count, std::int32_t* starts);
inline constexpr std::int64_t kLeastLookup = 2;

}  // namespace sinter::runtime::cpu
