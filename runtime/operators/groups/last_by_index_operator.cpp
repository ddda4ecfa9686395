// SPDX-License-Identifier: Apache-2.0
// For each of `rows` numbers the last position at which an index is that number, or -1. Negative
// indices count from the end.
#include "runtime/plan/operators/operator_def.h"

namespace sinter::plan {

const OperatorDef& last_by_index_operator() {
  static const OperatorDef def = {
      .name = "last_by_index",
      .inputs = {{"indices", {DType::kInt32, DType::kInt64}, "count"}},
      .outputs = {{"last", {DType::kInt32}, "rows"}},
      .limits = {{"count", 0, INT32_MAX}, {"rows", 0, INT32_MAX - 1}},
  };
  return def;
}

}  // namespace sinter::plan
