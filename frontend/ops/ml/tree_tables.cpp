// SPDX-License-Identifier: Apache-2.0
#include "frontend/ops/ml/tree_tables.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <set>

#include "frontend/ops/term.h"

namespace sinter::frontend {
namespace {

/// The largest number of the element type up to `value`.
double at_most(DType dtype, double value) {
  if (dtype == DType::kFloat64 || std::isinf(value)) return value;
  const auto near = static_cast<float>(value);
  return near <= value ? near : std::nextafter(near, -std::numeric_limits<float>::infinity());
}

/// The largest number of the element type less than `value`.
double below(DType dtype, double value) {
  if (dtype == DType::kFloat64) return std::nextafter(value, -kInfinity);
  const double near = at_most(dtype, value);
  if (near < value) return near;
  return std::nextafter(static_cast<float>(near), -std::numeric_limits<float>::infinity());
}

/// Writes the node table: a node's two successors are adjacent and follow it.
class TableWriter {
 public:
  TableWriter(NodeContext& node, DType dtype, std::int64_t columns, const TreeModel& model)
      : node_(node),
        dtype_(dtype),
        columns_(columns),
        model_(model),
        seen_(model.branches.size(), false) {}

  void write() {
    for (const TreeEdge& root : model_.roots) {
      roots_.push_back(allocate(1));
      leaves_.emplace_back();
      pending_.push_back({root, roots_.back()});
      while (!pending_.empty()) {
        const auto [edge, slot] = pending_.front();
        pending_.pop_front();
        place(edge, slot);
      }
    }
  }

  std::vector<std::int32_t> nodes_;  // column, first successor, missing
  std::vector<double> thresholds_;
  std::vector<std::int64_t> roots_;
  std::vector<std::set<std::int64_t>> leaves_;  // by tree

 private:
  struct Pending {
    TreeEdge edge;
    std::int64_t slot;
  };

  std::int64_t allocate(std::int64_t count) {
    const auto first = std::ssize(thresholds_);
    if (first + count > std::numeric_limits<std::int32_t>::max())
      node_.unsupported("its trees have more than 2^31 nodes");
    thresholds_.resize(static_cast<std::size_t>(first + count), 0);
    while (nodes_.size() < 3 * thresholds_.size()) nodes_.insert(nodes_.end(), {-1, 0, 0});
    return first;
  }
  void set(std::int64_t slot, std::int64_t column, std::int64_t first, bool missing,
           double threshold) {
    auto* to = &nodes_[static_cast<std::size_t>(3 * slot)];
    to[0] = static_cast<std::int32_t>(column);
    to[1] = static_cast<std::int32_t>(first);
    to[2] = missing ? 1 : 0;
    thresholds_[static_cast<std::size_t>(slot)] = threshold;
  }
  /// A node that sends all rows to `target`.
  void set_jump(std::int64_t slot, std::int64_t target) { set(slot, 0, target, true, kInfinity); }

  void place(const TreeEdge& edge, std::int64_t slot) {
    const auto count = edge.is_leaf ? std::ssize(model_.leaves) : std::ssize(model_.branches);
    if (edge.index < 0 || edge.index >= count)
      node_.invalid("a tree leads to {} {}, but there are {}", edge.is_leaf ? "leaf" : "node",
                    edge.index, count);
    if (edge.is_leaf) {
      leaves_.back().insert(edge.index);
      return set(slot, -1, edge.index, false, 0);
    }
    const auto index = static_cast<std::size_t>(edge.index);
    if (seen_[index])
      node_.invalid("node {} is reached twice: trees have no cycles and share no nodes", index);
    seen_[index] = true;
    const TreeBranch& branch = model_.branches[index];
    if (branch.column < 0 || branch.column >= columns_)
      node_.invalid("node {} asks for column {}, but the rows have {} columns", index,
                    branch.column, columns_);
    if (branch.mode != BranchMode::kMember && std::isnan(branch.split))
      node_.invalid("the split of node {} is NaN, which no number compares with", index);
    switch (branch.mode) {
      case BranchMode::kLeq: return compare(branch, slot, at_most(dtype_, branch.split), true);
      case BranchMode::kLt: return compare(branch, slot, below(dtype_, branch.split), true);
      case BranchMode::kGt: return compare(branch, slot, at_most(dtype_, branch.split), false);
      case BranchMode::kGte: return compare(branch, slot, below(dtype_, branch.split), false);
      case BranchMode::kEq:
        return find(branch, slot, {branch.split}, branch.if_true, branch.if_false,
                    branch.missing_is_true);
      case BranchMode::kNeq:  // NaN is unequal
        return find(branch, slot, {branch.split}, branch.if_false, branch.if_true, false);
      case BranchMode::kMember:
        return find(branch, slot, branch.members, branch.if_true, branch.if_false,
                    branch.missing_is_true);
    }
  }

  /// x <= threshold has the successor of a condition whose truth is `first`.
  void compare(const TreeBranch& branch, std::int64_t slot, double threshold, bool first) {
    const std::int64_t next = allocate(2);
    set(slot, branch.column, next, branch.missing_is_true == first, threshold);
    pending_.push_back({first ? branch.if_true : branch.if_false, next});
    pending_.push_back({first ? branch.if_false : branch.if_true, next + 1});
  }

  /// x is in `values`: from the largest on, tests whether x lies between a value and the next
  /// smaller number.
  void find(const TreeBranch& branch, std::int64_t slot, std::vector<double> values,
            const TreeEdge& hit, const TreeEdge& miss, bool missing_hits) {
    std::erase_if(values, [&](double v) { return at_most(dtype_, v) != v; });
    std::ranges::sort(values, std::greater<>());
    values.erase(std::unique(values.begin(), values.end()), values.end());
    std::vector<std::int64_t> hits, misses;
    for (const double value : values) {
      const std::int64_t outer = allocate(2), inner = allocate(2);
      set(slot, branch.column, outer, missing_hits, at_most(dtype_, value));
      set(outer, branch.column, inner, false, below(dtype_, value));
      misses.push_back(outer + 1);
      hits.push_back(inner + 1);
      slot = inner;
    }
    if (values.empty() && missing_hits) {  // only NaN hits
      const std::int64_t next = allocate(2);
      set(slot, branch.column, next, false, kInfinity);
      misses.push_back(next);
      hits.push_back(next + 1);
    } else {
      misses.push_back(slot);
    }
    lead(hits, hit);
    lead(misses, miss);
  }

  /// Sends several nodes to one successor, which must follow them.
  void lead(const std::vector<std::int64_t>& slots, const TreeEdge& edge) {
    if (slots.empty()) return;
    if (edge.is_leaf || slots.size() == 1) {
      for (const std::int64_t slot : slots) pending_.push_back({edge, slot});
      return;
    }
    const std::int64_t target =
        allocate(2);  // successors are allocated in pairs; the second one is unused
    for (const std::int64_t slot : slots) set_jump(slot, target);
    pending_.push_back({edge, target});
  }

  NodeContext& node_;
  DType dtype_;
  std::int64_t columns_;
  const TreeModel& model_;
  std::vector<bool> seen_;
  std::deque<Pending> pending_;
};

/// The target of each tree, if all leaves of a tree have exactly one weight, for the same target;
/// else empty.
std::vector<std::int64_t> own_targets(const TreeModel& model, const TableWriter& table) {
  std::vector<std::int64_t> targets;
  for (const std::set<std::int64_t>& leaves : table.leaves_) {
    std::set<std::int64_t> found;
    for (const std::int64_t each : leaves) {
      const auto& leaf = model.leaves[static_cast<std::size_t>(each)];
      if (leaf.size() != 1) return {};
      found.insert(leaf[0].target);
    }
    if (found.size() != 1) return {};
    targets.push_back(*found.begin());
  }
  return targets;
}

}  // namespace

ValueId add_trees(NodeContext& node, ValueId x, const TreeModel& model) {
  const DType dtype = node.dtype(x);
  const Dim columns = node.shape(x)[1];
  if (!columns.is_constant())
    node.unsupported(
        "how many columns the rows have, {}, must be a number: give the model's input one (--dim)",
        columns);
  if (model.roots.empty()) node.invalid("it has no trees");
  if (model.targets < 1) node.invalid("it has {} targets", model.targets);
  for (const auto& leaf : model.leaves)
    for (const LeafWeight& each : leaf)
      if (each.target < 0 || each.target >= model.targets)
        node.invalid("a leaf has a weight for target {}, but there are {}", each.target,
                     model.targets);
  TableWriter table(node, dtype, columns.value(), model);
  table.write();

  const std::vector<std::int64_t> own = own_targets(model, table);
  const std::int64_t width = own.empty() ? model.targets : 1;
  const auto leaves = std::ssize(model.leaves);
  node.take_memory(leaves * width * static_cast<std::int64_t>(size_of(dtype)),
                   fmt::format("{} leaves of {} weights", leaves, width));
  // Missing weights must have no effect: 0 for sums; for others they are removed below.
  const double none = model.combine == "sum" ? 0 : model.combine == "min" ? kInfinity : -kInfinity;
  std::vector<double> weights(static_cast<std::size_t>(leaves * width), none);
  bool has_gaps = false;
  for (std::size_t l = 0; l < model.leaves.size(); ++l) {
    std::set<std::int64_t> given;
    for (const LeafWeight& each : model.leaves[l]) {
      double& to = weights[l * static_cast<std::size_t>(width) +
                           static_cast<std::size_t>(width == 1 ? 0 : each.target)];
      if (given.insert(each.target).second)
        to = each.weight;
      else
        to = model.combine == "sum"   ? to + each.weight
             : model.combine == "min" ? std::min(to, each.weight)
                                      : std::max(to, each.weight);
    }
    has_gaps = has_gaps || std::ssize(given) < width;
  }
  std::vector<std::int32_t> trees;
  for (std::size_t t = 0; t < table.roots_.size(); ++t) {
    trees.push_back(static_cast<std::int32_t>(table.roots_[t]));
    trees.push_back(own.empty() ? 0 : static_cast<std::int32_t>(own[t]));
  }
  const auto count = std::ssize(table.thresholds_);
  const auto constant = [&](ir::Tensor tensor) { return node.builder().constant(tensor); };
  const ValueId result =
      node.add("TreeEnsemble",
               {x, constant(ir::Tensor::of(DType::kInt32, {count, 3}, table.nodes_)),
                constant(ir::Tensor::from_doubles(dtype, {count}, table.thresholds_)),
                constant(ir::Tensor::of(DType::kInt32, {std::ssize(table.roots_), 2}, trees)),
                constant(ir::Tensor::from_doubles(dtype, {leaves, width}, weights))},
               {{"targets", model.targets}, {"combine", model.combine}});
  if (model.combine == "sum" || !has_gaps) return result;
  const Term y(node, result);
  return select(y.apply("IsInf"), y.number(0), y).value();
}

}  // namespace sinter::frontend
