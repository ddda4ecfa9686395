// SPDX-License-Identifier: Apache-2.0
// Whether norms after a matmul make its rows equal, whatever their sizes.
#pragma once

#include "fusion/context.h"

namespace sinter::fusion {

/// True if everything computed from `product`, with rows along its last dimension, passes through a
/// norm over elements of one row: LayerNorm, RmsNorm, or a division of a row by its own size.
/// Residual sums, pointwise operators, views, selected rows and matmuls of rows may come in
/// between. Operators that mix rows (attention's values), a Softmax and outputs depend on a row's
/// size.
bool are_rows_made_equal(const Graph& graph, ValueId product);

}  // namespace sinter::fusion
