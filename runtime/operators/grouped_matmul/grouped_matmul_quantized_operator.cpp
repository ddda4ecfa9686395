// SPDX-License-Identifier: Apache-2.0
// Like grouped_matmul, with weights [n, k] of each group in codes of `bits` bits, in panels as
// Quantization of plan.fbs describes them, those of each group behind each other. Zero points and
// offsets of groups of `depth` k's are absent where they have no elements. `low` and `high` are the
// 16 numbers of codes of 4 bits, the first in the least byte; both 0: the codes are integers, and
// `zero` is the zero point of all beside `zero_points`. If `block` is not 0, rows of x are rounded
// to 8 bits, with a scale for each `block` elements.
#include "runtime/plan/operators/operator_def.h"
#include "runtime/plan/panels/quant_panels.h"

namespace sinter::plan {
namespace {

constexpr DType kHalf = DType::kFloat16, kFloat = DType::kFloat32, kByte = DType::kInt8;

std::string refuse(const OperatorSizes& sizes) {
  const std::int64_t k = sizes["k"], bits = sizes["bits"], depth = sizes["depth"],
                     block = sizes["block"];
  if (sizes["bounds"] <= sizes["groups"]) return "its offsets are not one more than groups";
  if (bits != 4 && bits != 8) return "its codes have neither 4 nor 8 bits";
  const QuantPanelShape shape{static_cast<int>(bits), sizes["n"], k, depth};
  if (sizes["panels"] != sizes["groups"] * shape.panels() || sizes["units"] != shape.units())
    return "its weights are not the panels of n rows of k codes for each group";
  if (sizes["blocks"] != shape.groups()) return "its scales are not one for each group of k";
  const auto is_absent_or_all = [&](const char* panels, const char* blocks, const char* rows) {
    const std::int64_t a = sizes[panels], b = sizes[blocks], c = sizes[rows];
    return (a == 0 && b == 0 && c == 0) ||
           (a == sizes["panels"] && b == sizes["blocks"] && c == kQuantPanelRows);
  };
  if (!is_absent_or_all("zero_panels", "zero_blocks", "zero_rows") ||
      !is_absent_or_all("offset_panels", "offset_blocks", "offset_rows"))
    return "its zero points or offsets are not those of its weights";
  const bool has_numbers = sizes["low"] != 0 || sizes["high"] != 0;
  if (bits == 8 && (has_numbers || sizes["zero"] != 0))
    return "codes of 8 bits have neither numbers nor one zero point";
  if (has_numbers && sizes["zero_panels"] != 0) return "its codes have numbers and zero points";
  if (block != 0 && ((block != 16 && block != 32) || (depth < k && depth % block != 0)))
    return "its rows are rounded by blocks that do not divide groups of scales";
  return "";
}

}  // namespace

const OperatorDef& grouped_matmul_quantized_operator() {
  static const OperatorDef def = {
      .name = "grouped_matmul_quantized",
      .inputs = {{"x", {DType::kFloat16, DType::kBFloat16, DType::kFloat32}, "rows k"},
                 {"weights", {DType::kUInt8}, "panels units 64", OperandMemory::kWeight},
                 {"offsets", {DType::kInt32}, "bounds"},
                 {"scales", {kHalf, kFloat}, "panels blocks 16", OperandMemory::kWeight},
                 {"zero_points",
                  {kByte, kFloat, kHalf},
                  "zero_panels zero_blocks zero_rows",
                  OperandMemory::kWeight},
                 {"block_offsets",
                  {kHalf, kFloat},
                  "offset_panels offset_blocks offset_rows",
                  OperandMemory::kWeight}},
      .outputs = {{"y", {}, "rows n"}},
      .attributes = {{.name = "groups", .min = 1, .max = INT32_MAX},
                     {.name = "bits", .min = 4, .max = 8},
                     {.name = "depth", .min = 1},
                     {.name = "low"},
                     {.name = "high"},
                     {.name = "zero", .min = -8, .max = 7},
                     {.name = "block", .min = 0, .max = 32}},
      .limits = {{"rows", 0, INT32_MAX}},
      .refuse = refuse,
  };
  return def;
}

}  // namespace sinter::plan
