// SPDX-License-Identifier: Apache-2.0
// The positions of indices in ascending order, equal ones in the order of the positions, and the
// places in this order between which the groups are: `bounds` is one more than these. Negative
// indices count from the end.
#include "runtime/plan/operators/operator_def.h"

namespace sinter::plan {

const OperatorDef& group_by_index_operator() {
  static const OperatorDef def = {
      .name = "group_by_index",
      .inputs = {{"indices", {DType::kInt32, DType::kInt64}, "count"}},
      .outputs = {{"order", {DType::kInt32}, "count"}, {"starts", {DType::kInt32}, "bounds"}},
      .attributes = {},
      .limits = {{"count", 0, INT32_MAX}, {"bounds", 1, INT32_MAX}},
  };
  return def;
}

}  // namespace sinter::plan
