// Masks that hide the keys behind each query.
#pragma once

#include "ir/graph.h"

namespace sinter::fusion {

/// What counts as minus infinity in a causal mask: no row is masked as a whole, and next to a score
/// above kHidden + 104 the weight of one below it is zero in float32.
constexpr double kHidden = -1e4;

/// If `mask` lets row i of scores [.., m, n] see the keys j <= i: 1; the keys j <= i + n - m: 2;
/// else 0. A bool mask is true for what is seen (`negated`: for what is hidden), a float mask zero
/// there and at most kHidden elsewhere. The mask is a constant, or a part of one, as exporters keep
/// it.
int causal_of(const ir::Graph& graph, ir::ValueId mask, const ir::Shape& scores, bool negated);

}  // namespace sinter::fusion
