// SPDX-License-Identifier: Apache-2.0
// Like grouped_matmul, with weights [n, k] of each group in codes of `bits` bits, as Quantization
// of plan.fbs describes them. Zero points, factors and offsets of groups of k are absent where they
// have no elements. `low` and `high` are the 16 numbers of codes of 4 bits, the first in the least
// byte; both 0: the codes are integers.
#include "runtime/plan/operators/operator_def.h"

namespace sinter::plan {
namespace {

const std::vector<DType> kScales = {DType::kFloat16, DType::kBFloat16, DType::kFloat32,
                                    DType::kFloat8E4M3FN, DType::kUInt8};

bool is_absent_or(std::int64_t a, std::int64_t b, std::int64_t c, const OperatorSizes& sizes,
                  std::int64_t last) {
  const bool is_absent = a == 0 && b == 0 && c == 0;
  return is_absent || (a == sizes["groups"] && b == sizes["n"] && c == last);
}

std::string refuse(const OperatorSizes& sizes) {
  const std::int64_t k = sizes["k"], bits = sizes["bits"], depth = sizes["depth"];
  if (sizes["bounds"] <= sizes["groups"]) return "its offsets are not one more than groups";
  if (bits != 4 && bits != 8) return "its codes have neither 4 nor 8 bits";
  if (sizes["pitch"] != (bits == 8 ? k : k / 2 + k % 2)) return "its weights have not k codes";
  const std::int64_t blocks = k == 0 ? 0 : (k - 1) / depth + 1;
  if (sizes["blocks"] != blocks) return "its scales are not one for each group of k";
  if (!is_absent_or(sizes["zero_groups"], sizes["zero_n"], sizes["zero_blocks"], sizes, blocks) ||
      !is_absent_or(sizes["offset_groups"], sizes["offset_n"], sizes["offset_blocks"], sizes,
                    blocks) ||
      !is_absent_or(sizes["factor_groups"], sizes["factor_n"], sizes["factor_ones"], sizes, 1))
    return "its zero points, factors or offsets are not those of its weights";
  return "";
}

}  // namespace

const OperatorDef& grouped_matmul_quantized_operator() {
  std::vector<DType> any = kScales;
  any.push_back(DType::kInt8);
  static const OperatorDef def = {
      .name = "grouped_matmul_quantized",
      .inputs =
          {{"x", {DType::kFloat16, DType::kBFloat16, DType::kFloat32}, "rows k"},
           {"weights", {DType::kInt8, DType::kUInt8}, "groups n pitch", OperandMemory::kWeight},
           {"offsets", {DType::kInt32}, "bounds"},
           {"scales", kScales, "groups n blocks", OperandMemory::kWeight},
           {"zero_points", any, "zero_groups zero_n zero_blocks", OperandMemory::kWeight},
           {"factors", any, "factor_groups factor_n factor_ones", OperandMemory::kWeight},
           {"block_offsets", any, "offset_groups offset_n offset_blocks", OperandMemory::kWeight}},
      .outputs = {{"y", {}, "rows n"}},
      .attributes = {{.name = "bits", .min = 4, .max = 8},
                     {.name = "depth", .min = 1},
                     {.name = "low"},
                     {.name = "high"},
                     {.name = "unit", .is_float = true}},
      .limits = {{"rows", 0, INT32_MAX}, {"groups", 1, INT32_MAX}},
      .refuse = refuse,
  };
  return def;
}

}  // namespace sinter::plan
