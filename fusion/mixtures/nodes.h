// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fusion/context.h"

namespace sinter::fusion::mixtures {

inline ValueId cast(GraphBuilder& b, ValueId value, DType type) {
  return b.type(value).dtype == type ? value : b.add("Cast", {value}, {{"to", type}});
}
inline ValueId reshape(GraphBuilder& b, ValueId value, const Shape& shape) {
  return b.type(value).shape == shape ? value : b.add("Reshape", {value}, {{"shape", shape}});
}

}  // namespace sinter::fusion::mixtures
