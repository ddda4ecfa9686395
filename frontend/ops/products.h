// SPDX-License-Identifier: Apache-2.0
// Shared by operators that multiply matrices.
#pragma once

#include <optional>

#include "frontend/ops/node_context.h"

namespace sinter::frontend {

/// numpy.matmul(a, b).
ValueId multiply_matrices(NodeContext& node, ValueId a, ValueId b);

/// The result of a Gemm node: alpha * A' * B' + beta * C, where A' and B' may be transposed.
ValueId import_gemm(NodeContext& node);

/// x * weights in float32. x is quantized to uint8 as by DynamicQuantizeLinear. The weights are
/// 8-bit [k, n], with a scale and possibly a zero point, each a scalar or per column.
ValueId multiply_dynamic(NodeContext& node, ValueId x, ValueId weights, ValueId scale,
                         std::optional<ValueId> zero_point);

/// Repeats every element of `parameter` (scales or zero points, of the rank of `shape`) `block`
/// times along `axis`, cut to `shape`.
ValueId spread_blocks(NodeContext& node, ValueId parameter, const Shape& shape, std::int64_t axis,
                      std::int64_t block);

}  // namespace sinter::frontend
