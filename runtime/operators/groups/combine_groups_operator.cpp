// SPDX-License-Identifier: Apache-2.0
// Row r is data[r], or the only element of data, combined with values[order[i]] * factors[i] for
// starts[r] <= i < starts[r + 1], in this order. No factors: there are none to multiply by.
#include "runtime/plan/operators/operator_def.h"

namespace sinter::plan {
namespace {

const std::vector<DType> kNumbers = {DType::kFloat16, DType::kBFloat16, DType::kFloat32,
                                     DType::kFloat64, DType::kInt8,     DType::kInt16,
                                     DType::kInt32,   DType::kInt64,    DType::kUInt8,
                                     DType::kUInt16,  DType::kUInt32,   DType::kUInt64};

}  // namespace

const OperatorDef& combine_groups_operator() {
  static const OperatorDef def = {
      .name = "combine_groups",
      .inputs = {{"data", kNumbers, "data_rows data_width"},
                 {"values", {}, "sources width"},
                 {"order", {DType::kInt32, DType::kInt64}, "count"},
                 {"starts", {DType::kInt32}, "bounds"},
                 {"factors", {}, "factors"}},
      .outputs = {{"rows", {}, "rows width"}},
      .attributes = {{.name = "combine", .min = 0, .max = 3}},
      .limits = {{"count", 0, INT32_MAX}},
      .refuse = [](const OperatorSizes& sizes) -> std::string {
        if (sizes["bounds"] != sizes["rows"] + 1)
          return "its starts are not one more than its rows";
        const std::int64_t rows = sizes["data_rows"], width = sizes["data_width"];
        if ((rows != sizes["rows"] || width != sizes["width"]) && (rows != 1 || width != 1))
          return "its data are neither rows nor one element";
        const std::int64_t factors = sizes["factors"];
        return factors == 0 || factors == sizes["count"] ? "" : "its factors are not one for each";
      },
  };
  return def;
}

}  // namespace sinter::plan
