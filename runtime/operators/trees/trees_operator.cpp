// SPDX-License-Identifier: Apache-2.0
// results[r, target] combines what trees give row r of x. A node is (column, first, missing): a row
// goes on to node `first` if its element of `column` is at most the node's threshold, or is NaN and
// `missing` is 1; else to `first` + 1. Both lie behind the node. A leaf has column -1; `first` is
// its row of weights. A tree is (root, target): the weights of its leaf go to the targets from
// `target` on. The kernel checks what the tables hold when it packs them.
#include <fmt/format.h>
#include <sinter/scalar_op.h>

#include "runtime/plan/operators/operator_def.h"

namespace sinter::plan {
namespace {

constexpr std::int64_t kMost = std::int64_t{1} << 30;

std::string refuse(const OperatorSizes& sizes) {
  if (sizes["width"] > sizes["targets"])
    return fmt::format("its leaves have {} weights for {} targets", sizes["width"],
                       sizes["targets"]);
  const auto combine = static_cast<Combine>(sizes["combine"]);
  return combine == Combine::kProd ? "it multiplies what its trees give" : "";
}

}  // namespace

const OperatorDef& trees_operator() {
  static const OperatorDef def = {
      .name = "trees",
      .inputs = {{"rows", {DType::kFloat32, DType::kFloat64}, "rows columns"},
                 {"nodes", {DType::kInt32}, "nodes 3", OperandMemory::kTable},
                 {"thresholds", {}, "nodes", OperandMemory::kWeight},
                 {"trees", {DType::kInt32}, "trees 2", OperandMemory::kTable},
                 {"weights", {}, "leaves width", OperandMemory::kWeight}},
      .outputs = {{"results", {}, "rows targets"}},
      .attributes = {{.name = "combine", .min = 0, .max = kCombineCount - 1}},
      .limits = {{"columns", 0, kMost}, {"targets", 0, kMost}, {"width", 1, kMost}},
      .refuse = refuse,
  };
  return def;
}

}  // namespace sinter::plan
