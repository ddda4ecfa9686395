// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "fusion/context.h"

namespace sinter::fusion::mixtures {

inline ValueId cast(GraphBuilder& b, ValueId value, DType type) {
  // Indices that were i32 before they became i64 still fit.
  const Node* wider = type == DType::kInt32 ? b.producer(value) : nullptr;
  if (wider != nullptr && wider->op->name == "Cast" && b.type(value).dtype == DType::kInt64 &&
      b.type(wider->inputs[0]).dtype == type)
    return wider->inputs[0];
  return b.type(value).dtype == type ? value : b.add("Cast", {value}, {{"to", type}});
}
inline ValueId reshape(GraphBuilder& b, ValueId value, const Shape& shape) {
  return b.type(value).shape == shape ? value : b.add("Reshape", {value}, {{"shape", shape}});
}

/// Constants of the same shape, of each expert, as one [experts, rows, columns]. `matrix` is
/// [rows, columns]; empty: that of the constants.
ValueId stacked(GraphBuilder& b, const Graph& graph, const std::vector<ValueId>& values,
                const Ints& matrix = {});

}  // namespace sinter::fusion::mixtures
