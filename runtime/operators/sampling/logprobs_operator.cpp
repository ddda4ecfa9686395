// SPDX-License-Identifier: Apache-2.0
// Of row r of the logits, unless wanted[r] is below 0 or tokens[r] is none of its tokens, the log
// probabilities of tokens[r] and of the wanted[r] likeliest tokens, as SampleTokens of
// ir/ops/sampling.cpp has them.
#include "runtime/plan/operators/operator_def.h"

namespace sinter::plan {

const OperatorDef& logprobs_operator() {
  static const OperatorDef def = {
      .name = "logprobs",
      .inputs = {{"logits",
                  {DType::kFloat32, DType::kFloat16, DType::kBFloat16},
                  "rows vocabulary"},
                 {"tokens", {DType::kInt32}, "rows"},
                 {"wanted", {DType::kInt32}, "rows"}},
      .outputs = {{"likeliest", {DType::kInt32}, "rows most"},
                  {"logprobs", {DType::kFloat32}, "rows most+1"}},
      .limits = {{"vocabulary", 1, INT32_MAX}, {"most", 1, 32}},
  };
  return def;
}

}  // namespace sinter::plan
