// SPDX-License-Identifier: Apache-2.0
// Block-quantized weights of few bits, packed in bytes: the format of com.microsoft's operators.
#pragma once

#include <optional>

#include "frontend/ops/term.h"

namespace sinter::frontend {

/// A matrix [rows, columns] of `bits`-bit numbers; a row has `blocks` blocks of `block` elements.
struct BlockedWeights {
  std::int64_t rows, columns, bits, block, blocks;
  /// The middle of the numbers' range: the default zero point.
  int middle() const { return 1 << (bits - 1); }
  /// Bytes per row.
  std::int64_t pitch() const { return blocks * (block * bits / 8); }
};

/// Number `i` of a row of `bits`-bit numbers; the first ones are in the low bits of each byte.
int packed_number(std::span<const std::byte> row, std::int64_t i, std::int64_t bits);

/// The numbers in the bytes `packed`, minus the middle, as ScaleFormat stores them. If `order` is
/// not empty, column i of the result is column order[i].
ir::Tensor scaled_values(const ir::Tensor& packed, const BlockedWeights& w, const Ints& order = {});
/// Zero points [rows, blocks] minus the middle; the input is packed like the numbers (u8), or
/// floats.
ir::Tensor scaled_zeros(const ir::Tensor& zeros, const BlockedWeights& w);

/// x [.., m, columns] times the transpose of the weights: `values` from scaled_values(), scales and
/// zero points (minus the middle) [rows, blocks]. `level`: the node's accuracy_level, of which 4
/// lets targets round x to 8 bits; 0 to 3 are types, of which x keeps its own.
ValueId scaled_matmul(NodeContext& node, ValueId x, const BlockedWeights& w,
                      const ir::Tensor& values, const ir::Tensor& scales,
                      const std::optional<ir::Tensor>& zero_points, std::int64_t level);

/// Unpacks `x` [.., n], bytes of 8 / `bits` numbers, to [.., count]; for 8 bits returns `x`.
Term unpacked_bits(NodeContext& node, const Term& x, std::int64_t bits, const Dim& count);

/// Throws Error(kUnsupported) unless `bits` is 2, 4 or 8.
void check_bits(const NodeContext& node, std::int64_t bits);
/// The most that a model may say of a matrix's or a block's size.
constexpr std::int64_t kMostBlockedSize = 1 << 24;
/// `rows` rows as attributes K, bits and block_size (`block` where it is absent) say; refuses what
/// are not sizes of a matrix.
BlockedWeights blocked_weights(const NodeContext& node, std::int64_t rows, std::int64_t block = 0);

}  // namespace sinter::frontend
