// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/tiles/tile_walkers.h"

namespace sinter::runtime::cpu {

Strides joined(const Strides& strides) {
  Strides result;
  result.step = strides.step;
  result.linear = strides.linear;
  for (std::size_t d = 0; d < strides.extents.size(); ++d) {
    if (!result.extents.empty() && result.steps.back() == strides.steps[d] * strides.extents[d]) {
      result.extents.back() *= strides.extents[d];
      result.steps.back() = strides.steps[d];
    } else {
      result.extents.push_back(strides.extents[d]);
      result.steps.push_back(strides.steps[d]);
    }
  }
  return result;
}

}  // namespace sinter::runtime::cpu
