// SPDX-License-Identifier: Apache-2.0
// indices: the row-major numbers of the true flags, in ascending order. Those of row r begin at
// before[r], the number of true flags above it. What would be written beyond `count` is not.
#include "runtime/plan/operators/operator_def.h"

namespace sinter::plan {

const OperatorDef& selection_operator() {
  static const OperatorDef def = {
      .name = "selection",
      .inputs = {{"flags", {DType::kBool}, "tiles tile"}, {"before", {DType::kInt64}, "tiles"}},
      .outputs = {{"indices", {DType::kInt64}, "count"}},
  };
  return def;
}

}  // namespace sinter::plan
