// SPDX-License-Identifier: Apache-2.0
// The inverse of each square matrix; NaN alone where there is none.
#include "runtime/plan/operators/operator_def.h"

namespace sinter::plan {

const OperatorDef& inverse_operator() {
  static const OperatorDef def = {
      .name = "inverse",
      .inputs = {{"matrices",
                  {DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64},
                  "count n n"}},
      .outputs = {{"inverses", {}, "count n n"}},
      .limits = {{"n", 0, 1 << 20}},
  };
  return def;
}

}  // namespace sinter::plan
