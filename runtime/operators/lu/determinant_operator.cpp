// SPDX-License-Identifier: Apache-2.0
// The determinant of each square matrix; of no rows, 1. As ir/ops/linear_algebra.cpp defines it.
#include "runtime/plan/operators/operator_def.h"

namespace sinter::plan {

const OperatorDef& determinant_operator() {
  static const OperatorDef def = {
      .name = "determinant",
      .inputs = {{"matrices",
                  {DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64},
                  "count n n"}},
      .outputs = {{"determinants", {}, "count"}},
      .limits = {{"n", 0, 1 << 20}},
  };
  return def;
}

}  // namespace sinter::plan
