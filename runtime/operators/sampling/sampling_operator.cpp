// SPDX-License-Identifier: Apache-2.0
// tokens[r] is drawn from row r of the logits, as SampleTokens of ir/ops/sampling.cpp has it.
// What `integers` and `biased` hold may be anything.
#include "runtime/plan/operators/operator_def.h"

namespace sinter::plan {

const OperatorDef& sampling_operator() {
  static const OperatorDef def = {
      .name = "sampling",
      .inputs = {{"logits",
                  {DType::kFloat32, DType::kFloat16, DType::kBFloat16},
                  "rows vocabulary"},
                 {"reals", {DType::kFloat64}, "rows 4"},
                 {"integers", {DType::kInt64}, "rows 6"},
                 {"sets", {DType::kInt32}, "sets vocabulary/32"},
                 {"biased", {DType::kInt32}, "biases"},
                 {"biases", {DType::kFloat32}, "biases"}},
      .outputs = {{"tokens", {DType::kInt32}, "rows"}},
      .limits = {{"vocabulary", 1, INT32_MAX}},
  };
  return def;
}

}  // namespace sinter::plan
