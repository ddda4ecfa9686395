// SPDX-License-Identifier: Apache-2.0
// What operators that multiply matrices share.
#pragma once

#include <optional>

#include "frontend/ops/node_context.h"

namespace sinter::frontend {

/// numpy.matmul(a, b).
ValueId multiply_matrices(NodeContext& node, ValueId a, ValueId b);

/// What a Gemm node computes: alpha * A' * B' + beta * C, where A' and B' may be transposed.
ValueId import_gemm(NodeContext& node);

/// x * weights, where x is quantized to uint8 as DynamicQuantizeLinear does and weights are [k, n]
/// of 8 bits, with a scale and perhaps a zero point: one, or one for each column. Float32.
ValueId multiply_dynamic(NodeContext& node, ValueId x, ValueId weights, ValueId scale,
                         std::optional<ValueId> zero_point);

/// `parameter` (scales or zero points, of the rank of `shape`) with every element of dimension
/// `axis` repeated `block` times, cut to `shape`'s.
ValueId spread_blocks(NodeContext& node, ValueId parameter, const Shape& shape, std::int64_t axis,
                      std::int64_t block);

}  // namespace sinter::frontend
