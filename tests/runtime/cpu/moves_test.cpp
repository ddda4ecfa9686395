// SPDX-License-Identifier: Apache-2.0
// Moves of elements by vectors against the loops that they stand for.
#include <cstdint>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "instruction_sets.h"
#include "runtime/cpu/ops/vectors/vector_moves.h"

namespace sinter::testing {
namespace {

using runtime::cpu::kLeastStep;
using runtime::cpu::kMostStep;

std::vector<std::uint32_t> counting(std::int64_t count) {
  std::vector<std::uint32_t> values(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), 1U);
  return values;
}

TEST(CpuMoves, TakeEachStep) {
  for (std::int64_t step = kLeastStep; step <= kMostStep; ++step)
    for (std::int64_t count = 1; count < 80; ++count) {
      // No longer than what must be read, so that a sanitizer sees more.
      const auto source = counting((count - 1) * step + 1);
      std::vector<std::uint32_t> target(static_cast<std::size_t>(count + 1), 0);
      runtime::cpu::take_each(source.data(), step, target.data(), count);
      for (std::int64_t i = 0; i < count; ++i)
        ASSERT_EQ(target[static_cast<std::size_t>(i)], static_cast<std::uint32_t>(1 + i * step))
            << "element " << i << " of " << count << ", step " << step;
      EXPECT_EQ(target.back(), 0U);
    }
}

template <typename T>
void check_interleaved_rows() {
  for (std::int64_t rows = kLeastStep; rows <= kMostStep; ++rows)
    for (std::int64_t count = 1; count < 200; ++count) {
      const std::int64_t row_step = count + 5;
      std::vector<T> source(static_cast<std::size_t>((rows - 1) * row_step + count));
      std::iota(source.begin(), source.end(), T{1});
      std::vector<T> target(static_cast<std::size_t>(rows * count + 1), 0);
      runtime::cpu::interleave(sizeof(T), reinterpret_cast<const std::byte*>(source.data()), rows,
                               row_step, reinterpret_cast<std::byte*>(target.data()), count);
      for (std::int64_t i = 0; i < count; ++i)
        for (std::int64_t r = 0; r < rows; ++r)
          ASSERT_EQ(target[static_cast<std::size_t>(i * rows + r)],
                    static_cast<T>(1 + r * row_step + i))
              << "element " << i << " of " << count << ", row " << r << " of " << rows;
      EXPECT_EQ(target.back(), T{0});
    }
}

template <typename T>
void check_transposes() {
  for (const std::int64_t rows : {1, 3, 4, 11, 16, 17, 33})
    for (std::int64_t columns = 1; columns < 40; columns += 3) {
      SCOPED_TRACE(::testing::Message() << rows << " x " << columns << ", " << sizeof(T));
      std::vector<T> source(static_cast<std::size_t>(columns * (rows + 2)));
      std::iota(source.begin(), source.end(), T{1});
      std::vector<T> target(static_cast<std::size_t>(rows * (columns + 1)), 0);
      runtime::cpu::transpose(sizeof(T), reinterpret_cast<const std::byte*>(source.data()),
                              rows + 2, reinterpret_cast<std::byte*>(target.data()), columns + 1,
                              rows, columns);
      for (std::int64_t r = 0; r < rows; ++r) {
        for (std::int64_t c = 0; c < columns; ++c)
          ASSERT_EQ(target[static_cast<std::size_t>(r * (columns + 1) + c)],
                    static_cast<T>(1 + c * (rows + 2) + r));
        EXPECT_EQ(target[static_cast<std::size_t>(r * (columns + 1) + columns)], T{0});
      }
    }
}

TEST(CpuMoves, Transpose) {
  for_each_instruction_set([] {
    check_transposes<std::uint8_t>();
    check_transposes<std::uint16_t>();
    check_transposes<std::uint32_t>();
    check_transposes<std::uint64_t>();
  });
}

TEST(CpuMoves, AnyBits) {
  for_each_instruction_set([] {
    for (std::size_t count = 0; count < 300; ++count) {
      std::vector<std::uint8_t> bytes(count, 1);
      const auto found = [&] {
        return runtime::cpu::any_bits(bytes.data(), static_cast<std::int64_t>(count));
      };
      EXPECT_EQ(found(), count > 0 ? 1 : 0);
      for (std::size_t at = 0; at < count; at += 7) {
        bytes[at] = 0x82;
        EXPECT_EQ(found(), count > 1 ? 0x83 : 0x82) << at << " of " << count;
        bytes[at] = 1;
      }
    }
  });
}

TEST(CpuMoves, InterleaveRows) {
  check_interleaved_rows<std::uint32_t>();
  check_interleaved_rows<std::uint8_t>();
}

}  // namespace
}  // namespace sinter::testing
