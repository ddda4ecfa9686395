// What operators that multiply matrices share.
#pragma once

#include <optional>

#include "frontend/ops/node_context.h"

namespace sinter::frontend {

/// numpy.matmul(a, b).
ir::ValueId multiply_matrices(NodeContext& node, ir::ValueId a, ir::ValueId b);

/// What a Gemm node computes: alpha * A' * B' + beta * C, where A' and B' may be transposed.
ir::ValueId import_gemm(NodeContext& node);

/// x * weights, where x is quantized to uint8 as DynamicQuantizeLinear does and weights are [k, n]
/// of 8 bits, with a scale and perhaps a zero point: one, or one for each column. Float32.
ir::ValueId multiply_dynamic(NodeContext& node, ir::ValueId x, ir::ValueId weights,
                             ir::ValueId scale, std::optional<ir::ValueId> zero_point);

/// `parameter` (scales or zero points, of the rank of `shape`) with every element of dimension
/// `axis` repeated `block` times, cut to `shape`'s.
ir::ValueId spread_blocks(NodeContext& node, ir::ValueId parameter, const ir::Shape& shape,
                          std::int64_t axis, std::int64_t block);

}  // namespace sinter::frontend
