// SPDX-License-Identifier: Apache-2.0
// Encodes decision trees of ai.onnx.ml as tables of ir's TreeEnsemble.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "frontend/ops/node_context.h"

namespace sinter::frontend {

/// How a node tests a column's element: by comparison with its split, or by membership in its set.
enum class BranchMode : std::uint8_t { kLeq, kLt, kGte, kGt, kEq, kNeq, kMember };

/// An edge to another branch or to a leaf, by index.
struct TreeEdge {
  bool is_leaf = false;
  std::int64_t index = 0;
};
struct TreeBranch {
  BranchMode mode = BranchMode::kLeq;
  std::int64_t column = 0;
  double split = 0;
  std::vector<double> members;
  bool missing_is_true = false;  // NaN follows the true edge, whatever the condition
  TreeEdge if_true, if_false;
};
struct LeafWeight {
  std::int64_t target = 0;
  double weight = 0;
};

/// Trees as in the model.
struct TreeModel {
  std::vector<TreeEdge> roots;
  std::vector<TreeBranch> branches;
  std::vector<std::vector<LeafWeight>> leaves;
  std::int64_t targets = 1;
  std::string combine = "sum";  // or min, max
};

/// Evaluates the trees on `x` [rows, columns], float32 or float64; the result [rows, targets] has
/// x's type. Throws Error(kInvalidModel) for cycles, columns that x lacks, NaN splits, and invalid
/// targets.
ValueId add_trees(NodeContext& node, ValueId x, const TreeModel& model);

}  // namespace sinter::frontend
