// Where the columns of an activation come from, so that factors of them can be put there.
#pragma once

#include <optional>

#include "fusion/context.h"

namespace sinter::fusion {

/// A product by constant weights [k, n], and a bias of its columns (null: none).
struct ColumnSource {
  const Node* product = nullptr;
  const Node* bias = nullptr;  // an Add
};

/// The product each column of which becomes the same column of `activation` by sums over rows
/// alone, as the values of attention do, and which nothing else reads. Columns divided there are
/// divided in the activation.
std::optional<ColumnSource> column_source(const Graph& graph, ValueId activation);

}  // namespace sinter::fusion
