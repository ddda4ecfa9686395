// SPDX-License-Identifier: Apache-2.0
// Tree ensembles of ai.onnx.ml: both older forms, with node ids per tree, and the form of opset 5.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "frontend/ops/ml/scores.h"
#include "frontend/ops/ml/tree_tables.h"
#include "frontend/ops/table/op_table.h"

namespace sinter::frontend {
namespace {

constexpr std::pair<std::string_view, BranchMode> kModes[] = {
    {"BRANCH_LEQ", BranchMode::kLeq}, {"BRANCH_LT", BranchMode::kLt},
    {"BRANCH_GTE", BranchMode::kGte}, {"BRANCH_GT", BranchMode::kGt},
    {"BRANCH_EQ", BranchMode::kEq},   {"BRANCH_NEQ", BranchMode::kNeq}};

/// The required integer attribute `name`.
Ints need_ints(const NodeContext& node, std::string_view name) {
  std::optional<Ints> values = node.attr_ints(name);
  if (!values) node.invalid("attribute '{}' is missing", name);
  return *std::move(values);
}

/// Attribute `name` of floats, or tensor `name`_as_tensor; nullopt if both are missing.
std::optional<std::vector<double>> numbers(const NodeContext& node, const std::string& name) {
  if (const auto tensor = node.attr_tensor(name + "_as_tensor"); tensor && tensor->element_count())
    return tensor->to_doubles();
  return node.attr_floats(name);
}
std::vector<double> need_numbers(const NodeContext& node, const std::string& name) {
  std::optional<std::vector<double>> values = numbers(node, name);
  if (!values) node.invalid("attribute '{}' is missing", name);
  return *std::move(values);
}

template <typename Values>
void check_length(const NodeContext& node, std::string_view name, const Values& values,
                  std::string_view other, std::size_t length) {
  if (values.size() != length)
    node.invalid("'{}' has {} elements, but '{}' has {}: each node has one of each", name,
                 values.size(), other, length);
}

/// The trees of TreeEnsembleRegressor and -Classifier. Attributes of leaf weights start with
/// `prefix`; attribute `ids` has the targets' indices.
TreeModel read_numbered_trees(const NodeContext& node, const std::string& prefix,
                              const std::string& ids) {
  const Ints trees = need_ints(node, "nodes_treeids"),
             numbers_in_tree = need_ints(node, "nodes_nodeids"),
             columns = need_ints(node, "nodes_featureids"),
             if_true = need_ints(node, "nodes_truenodeids"),
             if_false = need_ints(node, "nodes_falsenodeids"),
             missing = node.attr_ints("nodes_missing_value_tracks_true").value_or(Ints());
  const std::vector<double> splits = need_numbers(node, "nodes_values");
  const auto modes = node.attr_strings("nodes_modes");
  if (!modes) node.invalid("attribute 'nodes_modes' is missing");
  const auto has_all = [&](std::string_view name, const auto& values) {
    check_length(node, name, values, "nodes_treeids", trees.size());
  };
  has_all("nodes_nodeids", numbers_in_tree);
  has_all("nodes_featureids", columns);
  has_all("nodes_truenodeids", if_true);
  has_all("nodes_falsenodeids", if_false);
  has_all("nodes_values", splits);
  has_all("nodes_modes", *modes);
  if (!missing.empty()) has_all("nodes_missing_value_tracks_true", missing);

  TreeModel model;
  using Key = std::pair<std::int64_t, std::int64_t>;
  std::map<Key, TreeEdge> edges;
  std::vector<std::size_t> branches;  // their indices among the nodes
  std::set<std::int64_t> known;       // ids of trees
  for (std::size_t i = 0; i < trees.size(); ++i) {
    TreeEdge edge{(*modes)[i] == "LEAF", 0};
    edge.index = edge.is_leaf ? std::ssize(model.leaves) : std::ssize(branches);
    if (edge.is_leaf)
      model.leaves.emplace_back();
    else
      branches.push_back(i);
    if (!edges.emplace(Key{trees[i], numbers_in_tree[i]}, edge).second)
      node.invalid("tree {} has two nodes {}", trees[i], numbers_in_tree[i]);
    // A tree's first node is its root.
    if (known.insert(trees[i]).second) model.roots.push_back(edge);
  }
  for (const std::size_t i : branches) {
    TreeBranch branch;
    const auto* mode =
        std::ranges::find(kModes, (*modes)[i], &std::pair<std::string_view, BranchMode>::first);
    if (mode == std::end(kModes))
      node.invalid("node {} of tree {} has mode '{}', which does not exist", numbers_in_tree[i],
                   trees[i], (*modes)[i]);
    branch.mode = mode->second;
    branch.column = columns[i];
    branch.split = splits[i];
    branch.missing_is_true = !missing.empty() && missing[i] != 0;
    const auto edge_to = [&](std::int64_t to) {
      const auto found = edges.find({trees[i], to});
      if (found == edges.end())
        node.invalid("node {} of tree {} leads to node {}, which the tree does not have",
                     numbers_in_tree[i], trees[i], to);
      return found->second;
    };
    branch.if_true = edge_to(if_true[i]);
    branch.if_false = edge_to(if_false[i]);
    model.branches.push_back(std::move(branch));
  }

  const Ints leaf_trees = need_ints(node, prefix + "_treeids"),
             leaf_nodes = need_ints(node, prefix + "_nodeids"), targets = need_ints(node, ids);
  const std::vector<double> weights = need_numbers(node, prefix + "_weights");
  check_length(node, prefix + "_nodeids", leaf_nodes, prefix + "_treeids", leaf_trees.size());
  check_length(node, ids, targets, prefix + "_treeids", leaf_trees.size());
  check_length(node, prefix + "_weights", weights, prefix + "_treeids", leaf_trees.size());
  for (std::size_t i = 0; i < leaf_trees.size(); ++i) {
    const auto found = edges.find({leaf_trees[i], leaf_nodes[i]});
    if (found == edges.end())
      node.invalid("a weight is for node {} of tree {}, which does not exist", leaf_nodes[i],
                   leaf_trees[i]);
    // Ignores weights of inner nodes.
    if (found->second.is_leaf)
      model.leaves[static_cast<std::size_t>(found->second.index)].push_back(
          {targets[i], weights[i]});
  }
  return model;
}

/// Sets how targets combine the trees' results; returns true for the mean.
bool set_combination(const NodeContext& node, const std::string& name, TreeModel& model) {
  if (name == "MIN")
    model.combine = "min";
  else if (name == "MAX")
    model.combine = "max";
  else if (name != "SUM" && name != "AVERAGE")
    node.invalid("aggregate_function '{}' is none of SUM, AVERAGE, MIN and MAX", name);
  return name == "AVERAGE";
}

Term mean_of_trees(const Term& scores, const TreeModel& model) {
  return scores / static_cast<double>(model.roots.size());
}

/// Adds `base`, one number per target, to a sum: as a last tree with a single leaf.
void add_base(TreeModel& model, const std::vector<double>& base) {
  for (std::size_t target = 0; target < base.size(); ++target) {
    model.roots.push_back({true, std::ssize(model.leaves)});
    model.leaves.push_back({{static_cast<std::int64_t>(target), base[target]}});
  }
}

void tree_ensemble_regressor(NodeContext& node) {
  TreeModel model = read_numbered_trees(node, "target", "target_ids");
  model.targets = node.attr_int("n_targets", 1);
  const bool is_mean = set_combination(node, node.attr_string("aggregate_function", "SUM"), model);
  const std::vector<double> base = numbers(node, "base_values").value_or(std::vector<double>());
  if (!base.empty() && std::ssize(base) != model.targets)
    node.invalid("it has {} base_values for {} targets", base.size(), model.targets);
  const bool is_sum = model.combine == "sum" && !is_mean;
  if (is_sum) add_base(model, base);
  Term y(node, add_trees(node, read_rows(node).value(), model));
  if (is_mean) y = mean_of_trees(y, model);
  if (!is_sum && !base.empty())
    y = y + Term(node, node.builder().constant(
                           ir::Tensor::from_doubles(y.dtype(), {1, std::ssize(base)}, base)));
  node.output(transform_scores(y, read_post_transform(node)).cast(DType::kFloat32).value());
}

/// Two classes with leaf weights for only one: follows ONNX Runtime's rules.
void output_binary(NodeContext& node, const TreeModel& model, const Ints& labels,
                   PostTransform transform, const std::vector<double>& base) {
  TreeModel single = model;
  single.targets = 1;
  bool all_positive = true;
  for (auto& leaf : single.leaves)
    for (LeafWeight& each : leaf) {
      each.target = 0;
      all_positive = all_positive && each.weight >= 0;
    }
  if (!base.empty()) add_base(single, {base.back()});
  Term score(node, add_trees(node, read_rows(node).value(), single));
  const Term label = binary_label(score.with("Greater", all_positive ? 0.5 : 0), labels);
  Term scores = score;
  if (transform == PostTransform::kProbit)
    node.unsupported(
        "PROBIT of two classes with weights for one has no second score: give both classes "
        "weights");
  if (transform == PostTransform::kLogistic)
    scores = side_by_side(score.apply("Neg").apply("Sigmoid"), score.apply("Sigmoid"));
  else if (all_positive)
    scores = side_by_side(1 - score, score);
  else
    scores = side_by_side(score.apply("Neg"), score);
  node.output(0, label.value());
  node.output(1, scores.cast(DType::kFloat32).value());
}

void tree_ensemble_classifier(NodeContext& node) {
  TreeModel model = read_numbered_trees(node, "class", "class_ids");
  const Ints labels = read_labels(node, "classlabels_int64s", "classlabels_strings");
  model.targets = std::ssize(labels);
  if (labels.size() < 2)
    node.unsupported("it has {} classes; a classifier needs two or more", labels.size());
  const PostTransform transform = read_post_transform(node);
  const std::vector<double> base = numbers(node, "base_values").value_or(std::vector<double>());
  if (base.size() > labels.size() || (base.size() < labels.size() && base.size() > 1))
    node.invalid("it has {} base_values for {} classes", base.size(), labels.size());
  std::set<std::int64_t> used;
  for (const auto& leaf : model.leaves)
    for (const LeafWeight& each : leaf) used.insert(each.target);
  if (labels.size() == 2 && used.size() == 1 && *used.begin() >= 0 && *used.begin() < 2)
    return output_binary(node, model, labels, transform, base);
  if (base.size() == 1) node.invalid("it has one of base_values for {} classes", labels.size());
  add_base(model, base);
  const Term scores(node, add_trees(node, read_rows(node).value(), model));
  node.output(0, best_label(scores, labels).value());
  node.output(1, transform_scores(scores, transform).cast(DType::kFloat32).value());
}

/// Attribute `name` of small integers as a tensor.
Ints need_tensor(const NodeContext& node, std::string_view name) {
  const auto tensor = node.attr_tensor(name);
  if (!tensor) node.invalid("attribute '{}' is missing", name);
  return tensor->to_ints();
}
std::vector<double> need_float_tensor(const NodeContext& node, std::string_view name) {
  const auto tensor = node.attr_tensor(name);
  if (!tensor) node.invalid("attribute '{}' is missing", name);
  return tensor->to_doubles();
}

void tree_ensemble(NodeContext& node) {
  constexpr std::string_view kAggregates[] = {"AVERAGE", "SUM", "MIN", "MAX"};
  const Ints modes = need_tensor(node, "nodes_modes"),
             columns = need_ints(node, "nodes_featureids"),
             if_true = need_ints(node, "nodes_truenodeids"),
             if_false = need_ints(node, "nodes_falsenodeids"),
             true_is_leaf = need_ints(node, "nodes_trueleafs"),
             false_is_leaf = need_ints(node, "nodes_falseleafs"),
             missing = node.attr_ints("nodes_missing_value_tracks_true").value_or(Ints());
  const std::vector<double> splits = need_float_tensor(node, "nodes_splits");
  const auto has_all = [&](std::string_view name, const auto& values) {
    check_length(node, name, values, "nodes_modes", modes.size());
  };
  has_all("nodes_featureids", columns);
  has_all("nodes_truenodeids", if_true);
  has_all("nodes_falsenodeids", if_false);
  has_all("nodes_trueleafs", true_is_leaf);
  has_all("nodes_falseleafs", false_is_leaf);
  has_all("nodes_splits", splits);
  if (!missing.empty()) has_all("nodes_missing_value_tracks_true", missing);
  std::vector<double> members;
  if (const auto tensor = node.attr_tensor("membership_values")) members = tensor->to_doubles();

  TreeModel model;
  model.targets = node.attr_int("n_targets", 1);
  std::size_t member = 0;
  for (std::size_t i = 0; i < modes.size(); ++i) {
    if (modes[i] < 0 || modes[i] > static_cast<std::int64_t>(BranchMode::kMember))
      node.invalid("node {} has mode {}; there are 0 to 6", i, modes[i]);
    TreeBranch branch;
    branch.mode = static_cast<BranchMode>(modes[i]);
    branch.column = columns[i];
    branch.split = splits[i];
    branch.missing_is_true = !missing.empty() && missing[i] != 0;
    branch.if_true = {true_is_leaf[i] != 0, if_true[i]};
    branch.if_false = {false_is_leaf[i] != 0, if_false[i]};
    if (branch.mode == BranchMode::kMember) {  // NaN separates the nodes' sets
      while (member < members.size() && !std::isnan(members[member]))
        branch.members.push_back(members[member++]);
      if (member == members.size())
        node.invalid("membership_values end before the set of node {} does, which a NaN ends", i);
      ++member;
    }
    model.branches.push_back(std::move(branch));
  }
  const Ints targets = need_ints(node, "leaf_targetids");
  const std::vector<double> weights = need_float_tensor(node, "leaf_weights");
  check_length(node, "leaf_weights", weights, "leaf_targetids", targets.size());
  for (std::size_t i = 0; i < targets.size(); ++i)
    model.leaves.push_back({{targets[i], weights[i]}});
  for (const std::int64_t root : need_ints(node, "tree_roots")) {
    // A tree of one leaf is encoded as a node whose two edges lead to it.
    model.roots.push_back({false, root});
    if (root < 0 || root >= std::ssize(model.branches)) continue;
    const TreeBranch& branch = model.branches[static_cast<std::size_t>(root)];
    if (branch.if_true.is_leaf && branch.if_false.is_leaf &&
        branch.if_true.index == branch.if_false.index)
      model.roots.back() = branch.if_true;
  }
  const std::int64_t aggregate = node.attr_int("aggregate_function", 1);
  if (aggregate < 0 || aggregate > 3)
    node.invalid("aggregate_function is {}; there are 0 to 3", aggregate);
  const bool is_mean =
      set_combination(node, std::string(kAggregates[static_cast<std::size_t>(aggregate)]), model);
  const std::int64_t transform = node.attr_int("post_transform", 0);
  if (transform < 0 || transform > 4)
    node.invalid("post_transform is {}; there are 0 to 4", transform);
  const Term x = read_rows(node);
  Term y(node, add_trees(node, x.value(), model));
  if (is_mean) y = mean_of_trees(y, model);
  node.output(transform_scores(y, static_cast<PostTransform>(transform))
                  .cast(node.dtype(node.input(0, "X")))
                  .value());
}

}  // namespace

const OpRows kTreeOps = {
    {"TreeEnsembleRegressor", 1, tree_ensemble_regressor,
     "aggregate_function base_values base_values_as_tensor:3- n_targets nodes_falsenodeids "
     "nodes_featureids nodes_hitrates nodes_hitrates_as_tensor:3- nodes_missing_value_tracks_true "
     "nodes_modes nodes_nodeids nodes_treeids nodes_truenodeids nodes_values "
     "nodes_values_as_tensor:3- post_transform target_ids target_nodeids target_treeids "
     "target_weights target_weights_as_tensor:3-",
     kMl, Types::kNumbers, FourBits::kRefuses, kMlHoldsUntil},
    {"TreeEnsembleClassifier", 1, tree_ensemble_classifier,
     "base_values base_values_as_tensor:3- class_ids class_nodeids class_treeids class_weights "
     "class_weights_as_tensor:3- classlabels_int64s classlabels_strings nodes_falsenodeids "
     "nodes_featureids nodes_hitrates nodes_hitrates_as_tensor:3- nodes_missing_value_tracks_true "
     "nodes_modes nodes_nodeids nodes_treeids nodes_truenodeids nodes_values "
     "nodes_values_as_tensor:3- post_transform",
     kMl, Types::kNumbers, FourBits::kRefuses, kMlHoldsUntil},
    {"TreeEnsemble", 5, tree_ensemble,
     "aggregate_function leaf_targetids leaf_weights membership_values n_targets "
     "nodes_falseleafs nodes_falsenodeids nodes_featureids nodes_hitrates "
     "nodes_missing_value_tracks_true nodes_modes nodes_splits nodes_trueleafs nodes_truenodeids "
     "post_transform tree_roots",
     kMl, Types::kFloats, FourBits::kRefuses, kMlHoldsUntil},
};

}  // namespace sinter::frontend
