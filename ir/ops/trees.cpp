// SPDX-License-Identifier: Apache-2.0
// TreeEnsemble(x, nodes, thresholds, trees, weights) {targets, combine} -> y
//
// x: T [rows, columns], T f32 or f64; nodes: i32 [n, 3]; thresholds: T [n]; trees: i32 [t, 2];
// weights: T [leaves, width]; y: T [rows, targets].
//
// A node is (column, first, missing). At an inner node a row continues at node `first` if its
// element of `column` is at most the node's threshold, otherwise at node `first` + 1; a NaN
// continues at `first` if `missing` is 1. Nodes precede their children, so every path ends. A
// leaf has column -1, and its `first` is its row of `weights`. A tree is (root, target): its
// nodes are those from its root to the next tree's root. Its leaf's weights go to the targets
// from `target` on. "combine" (sum, min or max) combines a target's trees. A target without trees
// is zero.
#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "ir/ops/ops.h"

namespace sinter::ir::ops {
namespace {

std::vector<TensorType> infer_trees(const Attrs& attrs, Types inputs) {
  const auto is = [&](std::size_t i, DType dtype, std::size_t rank) {
    return inputs[i].dtype == dtype && inputs[i].shape.size() == rank;
  };
  const DType dtype = inputs[0].dtype;
  if ((dtype != DType::kFloat32 && dtype != DType::kFloat64) || !is(0, dtype, 2) ||
      !is(1, DType::kInt32, 2) || !is(2, dtype, 1) || !is(3, DType::kInt32, 2) || !is(4, dtype, 2))
    invalid(
        "needs rows T[rows, columns], nodes i32[n, 3], thresholds T[n], trees i32[t, 2] and "
        "weights T[leaves, width] of f32 or f64, found " +
        list_types(inputs));
  const Dim& nodes = inputs[1].shape[0];
  const std::int64_t targets = attrs.get_int("targets");
  const bool width_fits = inputs[4].shape[1].is_constant() &&
                          inputs[4].shape[1].value() <= targets && inputs[0].shape[1].is_constant();
  if (inputs[1].shape[1] != Dim(3) || inputs[2].shape[0] != nodes || inputs[3].shape[1] != Dim(2) ||
      !width_fits)
    invalid(fmt::format("tables of a tree ensemble with {} targets do not fit: {}", targets,
                        list_types(inputs)));
  if (combine_attr(attrs, false) == Combine::kProd)
    invalid("trees are combined by sum, min or max");
  return {{dtype, {inputs[0].shape[0], Dim(targets)}}};
}

std::vector<Tensor> evaluate_trees(const Attrs& attrs, Tensors inputs, Types outputs) {
  const Tensor &x = inputs[0], &nodes = inputs[1], &thresholds = inputs[2], &trees = inputs[3],
               &weights = inputs[4];
  const Combine combine = *combine_attr(attrs, false);
  const std::int64_t rows = x.shape()[0], columns = x.shape()[1],
                     targets = attrs.get_int("targets"), width = weights.shape()[1];
  const auto bad = [](const char* what) { invalid(fmt::format("a tree ensemble's {}", what)); };
  std::vector<double> results(static_cast<std::size_t>(rows * targets), 0);
  std::vector<bool> given(results.size(), false);
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t tree = 0; tree < trees.shape()[0]; ++tree) {
      std::int64_t at = trees.at_int(2 * tree);
      const auto node = [&](int part) { return nodes.at_int(3 * at + part); };
      const std::int64_t end =
          tree + 1 < trees.shape()[0] ? trees.at_int(2 * tree + 2) : nodes.shape()[0];
      if (at < 0 || at >= end || end > nodes.shape()[0]) bad("tree has no nodes of its own");
      while (node(0) >= 0) {
        if (node(0) >= columns) bad("node asks for a column that the rows do not have");
        const double value = x.at(row * columns + node(0));
        const bool first = value <= thresholds.at(at) || (value != value && node(2) == 1);
        const std::int64_t next = node(1) + (first ? 0 : 1);
        if (next <= at || next >= end) bad("node leads to none of its tree behind it");
        at = next;
      }
      const std::int64_t leaf = node(1), target = trees.at_int(2 * tree + 1);
      if (leaf < 0 || leaf >= weights.shape()[0] || target < 0 || target + width > targets)
        bad("leaf has no weights or no target");
      for (std::int64_t w = 0; w < width; ++w) {
        const auto to = static_cast<std::size_t>(row * targets + target + w);
        const double weight = weights.at(leaf * width + w);
        if (!given[to])
          results[to] = weight;
        else if (combine == Combine::kSum)
          results[to] += weight;
        else
          results[to] = combine == Combine::kMin ? std::min(results[to], weight)
                                                 : std::max(results[to], weight);
        given[to] = true;
      }
    }
  return {Tensor::from_doubles(outputs[0].dtype, {rows, targets}, results)};
}

}  // namespace

std::vector<OpDef> tree_ops() {
  OpDef trees;
  trees.name = "TreeEnsemble";
  trees.kind = OpKind::kLibrary;
  trees.kernel = "trees";
  trees.min_inputs = trees.max_inputs = 5;
  trees.attrs = {{"targets", AttrKind::kInt, std::nullopt},
                 {"combine", AttrKind::kString, std::string("sum")}};
  trees.infer = infer_trees;
  trees.evaluate = evaluate_trees;
  trees.numerics = {.operands = {Rounding::kIndex}, .own_types = true};
  return {trees};
}

}  // namespace sinter::ir::ops
