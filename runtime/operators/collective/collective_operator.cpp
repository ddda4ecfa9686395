// SPDX-License-Identifier: Apache-2.0
// All ranks of a plan meet: each gives an operand and gets a result (collective_kind.h).
// Combinations are computed in the order of ranks.
#include "runtime/operators/collective/collective_kind.h"
#include "runtime/plan/operators/operator_def.h"

namespace sinter::plan {
namespace {

std::string refuse(const OperatorSizes& s) {
  const std::int64_t ranks = s["ranks"];
  // What the result's b and d are times the ranks, or the operand's.
  bool fits = true;
  switch (static_cast<CollectiveKind>(s["kind"])) {
    case CollectiveKind::kReduce: fits = s["f"] == s["b"] && s["g"] == s["d"]; break;
    case CollectiveKind::kGather: fits = s["f"] == s["b"] * ranks && s["g"] == s["d"]; break;
    case CollectiveKind::kScatter: fits = s["b"] == s["f"] * ranks && s["g"] == s["d"]; break;
    case CollectiveKind::kSplitFirst:
      fits = s["b"] == s["f"] * ranks && s["g"] == s["d"] * ranks;
      break;
    case CollectiveKind::kSplitLast:
      fits = s["d"] == s["g"] * ranks && s["f"] == s["b"] * ranks;
      break;
  }
  return fits ? "" : "its result has not the size that its ranks make";
}

}  // namespace

const OperatorDef& collective_operator() {
  static const OperatorDef def = {
      .name = "collective",
      .inputs = {{"operand",
                  {DType::kBool, DType::kFloat16, DType::kBFloat16, DType::kFloat32,
                   DType::kFloat64, DType::kInt8, DType::kInt16, DType::kInt32, DType::kInt64,
                   DType::kUInt8, DType::kUInt16, DType::kUInt32, DType::kUInt64,
                   DType::kFloat8E4M3FN, DType::kFloat8E5M2},
                  "a b c d e"}},
      .outputs = {{"result", {}, "a f c g e"}},
      .attributes = {{.name = "kind", .min = 0, .max = 4},
                     {.name = "combine", .min = 0, .max = 3},
                     {.name = "ranks", .min = 2, .max = kMostRanks}},
      .refuse = refuse,
  };
  return def;
}

}  // namespace sinter::plan
