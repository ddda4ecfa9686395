// SPDX-License-Identifier: Apache-2.0
// Weights of few bits in bytes, whose blocks of elements share a scale: as com.microsoft's
// operators have them.
#pragma once

#include <optional>

#include "frontend/ops/term.h"

namespace sinter::frontend {

/// A matrix [rows, columns] of numbers of `bits`, a row of `blocks` blocks of `block` elements.
struct BlockedWeights {
  std::int64_t rows, columns, bits, block, blocks;
  /// The middle of the numbers' range, which stands for zero unless the model says otherwise.
  int middle() const { return 1 << (bits - 1); }
  /// Bytes of a row.
  std::int64_t pitch() const { return blocks * (block * bits / 8); }
};

/// Number `i` of a row of `bits`-bit numbers, the first ones in the low bits of each byte.
int packed_number(std::span<const std::byte> row, std::int64_t i, std::int64_t bits);

/// The bytes of `packed`, which hold the numbers, as a format has them: less the middle;
/// of each row column order[i] is the i-th, if there is an order.
ir::Tensor scaled_values(const ir::Tensor& packed, const BlockedWeights& w, const Ints& order = {});
/// Zero points [rows, blocks], packed as the numbers are (u8) or floats, less the middle.
ir::Tensor scaled_zeros(const ir::Tensor& zeros, const BlockedWeights& w);

/// x [.., m, columns] times the transpose of weights in a format: `values` of the
/// function above, scales and zero points (less the middle) [rows, blocks].
ValueId scaled_matmul(NodeContext& node, ValueId x, const BlockedWeights& w,
                      const ir::Tensor& values, const ir::Tensor& scales,
                      const std::optional<ir::Tensor>& zero_points);

/// The numbers of `x` [.., n], bytes of 8 / `bits` each, as [.., count]; of 8 bits `x` itself.
Term unpacked_bits(NodeContext& node, const Term& x, std::int64_t bits, const Dim& count);

/// Throws Error(kUnsupported) unless `bits` is 2, 4 or 8.
void check_bits(const NodeContext& node, std::int64_t bits);

}  // namespace sinter::frontend
