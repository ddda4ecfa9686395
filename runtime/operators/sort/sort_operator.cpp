// SPDX-License-Identifier: Apache-2.0
// The indices of a row's elements in ascending (descending) order, the first `count` of them. Equal
// elements, zeros of either sign among them, stay in the order of their indices; NaN counts as
// larger than all numbers.
#include <fmt/format.h>

#include "runtime/plan/operators/operator_def.h"

namespace sinter::plan {

const OperatorDef& sort_operator() {
  static const OperatorDef def = {
      .name = "sort",
      .inputs = {{"elements",
                  {DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64,
                   DType::kInt8, DType::kInt16, DType::kInt32, DType::kInt64, DType::kUInt8,
                   DType::kUInt16, DType::kUInt32, DType::kUInt64},
                  "outer length inner"}},
      .outputs = {{"indices", {DType::kInt64}, "outer count inner"}},
      .attributes = {{.name = "descending", .min = 0, .max = 1}},
      .limits = {{"length", 0, UINT32_MAX}},
      .refuse =
          [](const OperatorSizes& sizes) {
            return sizes["count"] <= sizes["length"]
                       ? ""
                       : fmt::format("it finds {} indices in rows of {} elements", sizes["count"],
                                     sizes["length"]);
          },
  };
  return def;
}

}  // namespace sinter::plan
