// SPDX-License-Identifier: Apache-2.0
// Row r is data[r], or the only element of data, combined with values[i] (4: replaced by it)
// wherever indices[i] is r, in the order of i; or element by element, if these have indices of
// their own. Negative indices count from the end.
#include "runtime/plan/operators/operator_def.h"

namespace sinter::plan {

const OperatorDef& combine_table_operator() {
  static const OperatorDef def = {
      .name = "combine_table",
      .inputs = {{"data",
                  {DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64,
                   DType::kInt8, DType::kInt16, DType::kInt32, DType::kInt64, DType::kUInt8,
                   DType::kUInt16, DType::kUInt32, DType::kUInt64, DType::kBool},
                  "data_rows data_width"},
                 {"values", {}, "count width"},
                 {"indices", {DType::kInt32, DType::kInt64}, "count index_width"}},
      .outputs = {{"rows", {}, "rows width"}},
      .attributes = {{.name = "combine", .min = 0, .max = 4}},
      .refuse = [](const OperatorSizes& sizes) -> std::string {
        const std::int64_t indices = sizes["index_width"];
        if (indices != 1 && indices != sizes["width"])
          return "its indices fit neither rows nor elements";
        const std::int64_t rows = sizes["data_rows"], width = sizes["data_width"];
        return (rows == sizes["rows"] && width == sizes["width"]) || (rows == 1 && width == 1)
                   ? ""
                   : "its data are neither rows nor one element";
      },
  };
  return def;
}

}  // namespace sinter::plan
