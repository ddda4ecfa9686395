// SPDX-License-Identifier: Apache-2.0
#include "frontend/ops/quantization/gpu_packing.h"

#include <vector>

#include "frontend/transforms.h"

namespace sinter::frontend {

using ir::Tensor;

namespace {

constexpr std::int64_t kTile = 64;  // columns of a tile: 128 bytes of 16-bit numbers

/// Where number (row, column) of a matrix is in the order of its packing. The conversion of a
/// register's numbers to 16 bits gives first the even, then the odd ones, which the order undoes.
class PackedPlace {
 public:
  PackedPlace(WeightPacking packing, std::int64_t rows, std::int64_t columns, std::int64_t bits)
      : packing_(packing), rows_(rows), columns_(columns), word_(32 / bits), shared_(16 / bits) {}

  std::int64_t operator()(std::int64_t row, std::int64_t column) const {
    if (packing_ == WeightPacking::kRows) return row * columns_ + column;
    if (packing_ == WeightPacking::kColumns) return column * rows_ + row;
    const std::int64_t k = in_fragment(column);
    const std::int64_t place = packing_ == WeightPacking::kMixedSm90
                                   ? row * columns_ + k
                                   : (row / shared_) * shared_ * columns_ +
                                         (k / kTile) * shared_ * kTile + (row % shared_) * kTile +
                                         k % kTile;
    return place / word_ * word_ + in_word(place % word_);
  }

 private:
  /// A thread's numbers of a matrix instruction, two neighbours of each 8 columns, come together.
  std::int64_t in_fragment(std::int64_t column) const {
    const std::int64_t of_fragment = word_ * 4, at = column % of_fragment;
    return column - at + (at % 8) / 2 * word_ + at / 8 * 2 + at % 2;
  }
  /// Of 8 numbers 0 4 1 5 2 6 3 7; of 4 bytes the two in the middle change places.
  std::int64_t in_word(std::int64_t at) const {
    return word_ == 4 ? (at == 1 ? 2 : at == 2 ? 1 : at) : at / 2 + at % 2 * 4;
  }

  WeightPacking packing_;
  std::int64_t rows_, columns_;
  std::int64_t word_;    // numbers of 32 bits
  std::int64_t shared_;  // rows that are interleaved
};

struct PackedSizes {
  WeightPacking packing;
  std::int64_t matrices, rows, columns, bits;
};

PackedSizes sizes_of(const ir::Attrs& attrs) {
  return {static_cast<WeightPacking>(attrs.get_int("packing")), attrs.get_int("matrices"),
          attrs.get_int("rows"), attrs.get_int("columns"), attrs.get_int("bits")};
}

}  // namespace

bool fits_packing(WeightPacking packing, std::int64_t rows, std::int64_t columns,
                  std::int64_t bits) {
  if ((bits != 4 && bits != 8) || rows < 1 || columns < 1) return false;
  const std::int64_t of_byte = 8 / bits;
  switch (packing) {
    case WeightPacking::kRows: return columns % of_byte == 0;
    case WeightPacking::kColumns: return rows % of_byte == 0 && columns % of_byte == 0;
    case WeightPacking::kMixedSm80: return columns % kTile == 0 && rows % (16 / bits) == 0;
    case WeightPacking::kMixedSm90: return columns % kTile == 0;
  }
  return false;
}

const ir::Transform kPackedByRows = {
    "packed_by_rows",
    [](const ir::Attrs& attrs, std::span<const Tensor> inputs) {
      constexpr std::int64_t kMost = std::int64_t{1} << 26;
      const PackedSizes s = sizes_of(attrs);
      if (!ir::has_inputs(inputs, 1) || s.matrices < 1 || s.matrices > kMost || s.rows > kMost ||
          s.columns > kMost || !fits_packing(s.packing, s.rows, s.columns, s.bits))
        return false;
      std::int64_t bits = 0;
      return !__builtin_mul_overflow(s.matrices * s.rows, s.columns * s.bits, &bits) &&
             bits / 8 == static_cast<std::int64_t>(inputs[0].byte_count());
    },
    [](const ir::Attrs& attrs, std::span<const Tensor> inputs) {
      const PackedSizes s = sizes_of(attrs);
      const PackedPlace place(s.packing, s.rows, s.columns, s.bits);
      const std::span<const std::byte> from = inputs[0].bytes();
      const std::int64_t of_byte = 8 / s.bits, pitch = s.columns / of_byte;
      const int mask = (1 << s.bits) - 1;
      std::vector<std::uint8_t> by_rows(from.size());
      for (std::int64_t i = 0; i < s.matrices; ++i)
        for (std::int64_t row = 0; row < s.rows; ++row)
          for (std::int64_t column = 0; column < s.columns; ++column) {
            const std::int64_t at = i * s.rows * s.columns + place(row, column);
            const int byte = std::to_integer<int>(from[static_cast<std::size_t>(at / of_byte)]);
            const int number = (byte >> (at % of_byte * s.bits)) & mask;
            by_rows[static_cast<std::size_t>((i * s.rows + row) * pitch + column / of_byte)] |=
                static_cast<std::uint8_t>(number << (column % of_byte * s.bits));
          }
      return std::vector{Tensor::of(DType::kUInt8, {s.matrices * s.rows, pitch}, by_rows)};
    }};

Tensor packed_by_rows(const Tensor& packed, WeightPacking packing, std::int64_t matrices,
                      std::int64_t rows, std::int64_t columns, std::int64_t bits) {
  if (packing == WeightPacking::kRows)
    return packed.reshaped({matrices * rows, columns * bits / 8});
  const ir::Attrs attrs = {{"packing", static_cast<std::int64_t>(packing)},
                           {"matrices", matrices},
                           {"rows", rows},
                           {"columns", columns},
                           {"bits", bits}};
  return ir::apply(kPackedByRows, attrs, std::span(&packed, 1)).front();
}

}  // namespace sinter::frontend
