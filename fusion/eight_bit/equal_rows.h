// Whether norms behind a product make its rows equal, however large each of them is.
#pragma once

#include "fusion/context.h"

namespace sinter::fusion {

/// True if all that the model makes of `product`, rows along its last dimension, goes through a
/// norm over elements of one row: LayerNorm, RmsNorm, or whatever divides a row by a size of its
/// own. Sums with other values (residuals), pointwise operators, views, selected rows and products
/// of rows may lie between; what mixes rows (attention's values), a Softmax and outputs see how
/// large a row is.
bool are_rows_made_equal(const Graph& graph, ValueId product);

}  // namespace sinter::fusion
