// SPDX-License-Identifier: Apache-2.0
// Decision trees of ai.onnx.ml as the tables of ir's TreeEnsemble.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "frontend/ops/node_context.h"

namespace sinter::frontend {

/// How a node divides rows by the element of a column: by comparing it with the node's split, or by
/// looking for it among the node's members.
enum class BranchMode : std::uint8_t { kLeq, kLt, kGte, kGt, kEq, kNeq, kMember };

/// Where a branch leads: to another branch or to a leaf, by number.
struct TreeEdge {
  bool is_leaf = false;
  std::int64_t index = 0;
};
struct TreeBranch {
  BranchMode mode = BranchMode::kLeq;
  std::int64_t column = 0;
  double split = 0;
  std::vector<double> members;
  bool missing_is_true = false;  // a NaN goes where the condition is true, whatever it says
  TreeEdge if_true, if_false;
};
struct LeafWeight {
  std::int64_t target = 0;
  double weight = 0;
};

/// Trees as a model has them.
struct TreeModel {
  std::vector<TreeEdge> roots;
  std::vector<TreeBranch> branches;
  std::vector<std::vector<LeafWeight>> leaves;
  std::int64_t targets = 1;
  std::string combine = "sum";  // or min, max
};

/// What the trees give for rows `x` [rows, columns] of float32 or float64, of x's type:
/// [rows, targets]. Throws Error(kInvalidModel) for trees with cycles, columns that x lacks, splits
/// that are NaN, and targets that do not exist.
ValueId add_trees(NodeContext& node, ValueId x, const TreeModel& model);

}  // namespace sinter::frontend
