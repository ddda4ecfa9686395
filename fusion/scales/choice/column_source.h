// SPDX-License-Identifier: Apache-2.0
// The origin of an activation's columns, so that factors can be applied there.
#pragma once

#include <optional>

#include "fusion/context.h"

namespace sinter::fusion {

/// A matmul by constant weights [k, n], and a bias of its columns (null: none).
struct ColumnSource {
  const Node* product = nullptr;
  const Node* bias = nullptr;  // an Add
};

/// The matmul whose columns become the same columns of `activation` by sums over rows only, as
/// attention's values do, with no other reader. Dividing its columns divides the activation's.
std::optional<ColumnSource> column_source(const Graph& graph, ValueId activation);

}  // namespace sinter::fusion
