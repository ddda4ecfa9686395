// SPDX-License-Identifier: Apache-2.0
// Rows offsets[g] to offsets[g + 1] of x times matrix g, [k, n] or, `transposed`, [n, k]; rows of
// no group are zero. Offsets may be any numbers: those that descend or are out of range give empty
// groups.
#include "runtime/plan/operators/operator_def.h"

namespace sinter::plan {

const OperatorDef& grouped_matmul_operator() {
  static const OperatorDef def = {
      .name = "grouped_matmul",
      .inputs = {{"x",
                  {DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64},
                  "rows k"},
                 {"weights", {}, "groups first second"},
                 {"offsets", {DType::kInt32}, "bounds"}},
      .outputs = {{"y", {}, "rows n"}},
      .attributes = {{.name = "transposed", .min = 0, .max = 1}},
      .limits = {{"rows", 0, INT32_MAX}, {"groups", 1, INT32_MAX}},
      .refuse = [](const OperatorSizes& sizes) -> std::string {
        if (sizes["bounds"] <= sizes["groups"]) return "its offsets are not one more than groups";
        const bool transposed = sizes["transposed"] != 0;
        return sizes[transposed ? "second" : "first"] == sizes["k"] &&
                       sizes[transposed ? "first" : "second"] == sizes["n"]
                   ? ""
                   : "its weights are not matrices of k and n";
      },
  };
  return def;
}

}  // namespace sinter::plan
