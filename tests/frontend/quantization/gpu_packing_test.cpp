// SPDX-License-Identifier: Apache-2.0
// Orders of bytes for GPU kernels. Source of the places: the packer of onnxruntime-genai 0.18.
#include "frontend/ops/quantization/gpu_packing.h"

#include <gtest/gtest.h>

namespace sinter::frontend {
namespace {

struct Place {
  std::int64_t row, column, packed;
};
struct Packed {
  WeightPacking packing;
  std::int64_t bits;
  std::vector<Place> places;
};

constexpr std::int64_t kRows = 16, kColumns = 128;

/// Matrices of zeros with one number.
ir::Tensor with_one(std::int64_t at, std::int64_t bits) {
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(2 * kRows * kColumns * bits / 8), 0);
  const std::int64_t of_byte = 8 / bits;
  bytes[static_cast<std::size_t>(at / of_byte)] =
      static_cast<std::uint8_t>(5 << (at % of_byte * bits));
  return ir::Tensor::of(DType::kUInt8, {std::ssize(bytes)}, bytes);
}

TEST(GpuPacking, NumbersComeToTheirRows) {
  const Packed all[] = {
      {WeightPacking::kMixedSm80,
       4,
       {{0, 0, 0},
        {0, 1, 4},
        {1, 2, 72},
        {3, 9, 197},
        {7, 66, 968},
        {14, 37, 1716},
        {15, 127, 2047}}},
      {WeightPacking::kMixedSm80,
       8,
       {{0, 0, 0},
        {0, 1, 2},
        {1, 2, 68},
        {3, 9, 323},
        {7, 66, 964},
        {14, 37, 1834},
        {15, 127, 2047}}},
      {WeightPacking::kMixedSm90,
       4,
       {{0, 0, 0},
        {0, 1, 4},
        {1, 2, 136},
        {3, 9, 389},
        {7, 66, 968},
        {14, 37, 1844},
        {15, 127, 2047}}},
      {WeightPacking::kColumns, 4, {{0, 0, 0}, {1, 0, 1}, {3, 9, 147}}},
  };
  for (const Packed& each : all)
    for (const Place& place : each.places) {
      const std::int64_t matrix = kRows * kColumns;  // the second one's numbers
      const ir::Tensor found = packed_by_rows(with_one(matrix + place.packed, each.bits),
                                              each.packing, 2, kRows, kColumns, each.bits);
      const ir::Tensor wanted = with_one(matrix + place.row * kColumns + place.column, each.bits);
      EXPECT_TRUE(std::ranges::equal(found.bytes(), wanted.bytes()))
          << each.bits << " bits, row " << place.row << ", column " << place.column;
    }
}

TEST(GpuPacking, SizesThatItCannotHave) {
  EXPECT_TRUE(fits_packing(WeightPacking::kMixedSm80, 4, 64, 4));
  EXPECT_FALSE(fits_packing(WeightPacking::kMixedSm80, 4, 96, 4));
  EXPECT_FALSE(fits_packing(WeightPacking::kMixedSm80, 2, 64, 4));
  EXPECT_FALSE(fits_packing(WeightPacking::kMixedSm90, 2, 32, 4));
  EXPECT_FALSE(fits_packing(WeightPacking::kColumns, 3, 64, 4));
  EXPECT_FALSE(fits_packing(WeightPacking::kRows, 4, 64, 2));
}

}  // namespace
}  // namespace sinter::frontend
