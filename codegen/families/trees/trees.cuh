// SPDX-License-Identifier: Apache-2.0
// Evaluates decision trees: a thread for each row, with blocks of trees in shared memory; or, for
// few rows, a thread for each row and tree. Results of leaves are combined in the trees' order, so
// that they do not depend on the distribution of rows.
#pragma once

#include "math.cuh"

struct TreeNode {
  i32 column, first, missing;  // see ir's TreeEnsemble
};
struct TreeStart {
  i32 root, target;
};

/// Inputs, outputs and sizes of a kernel.
template <class T>
struct TreeProblem {
  const T* x;  // [rows, columns]
  const TreeNode* nodes;
  const T* thresholds;
  const TreeStart* trees;
  const T* weights;  // [leaves, width]
  T* y;              // [rows, targets]
  i64 rows;
  i32 columns, node_count, tree_count, width, targets;
};

/// A node in shared memory, which one load reads.
template <class T>
struct alignas(2 * sizeof(T)) HeldNode {
  union {
    T threshold;  // for a leaf, its weight, if it has one
    i32 leaf;     // for a leaf with several weights, their row
  };
  u32 bits;  // column, 15 bits; missing, 1 bit; distance to the first child, 16 bits: 0 for a leaf
};

enum TreeCombine { kTreeSum, kTreeMin, kTreeMax };

/// Trees that a thread traverses concurrently, so that their loads overlap.
constexpr int kTreeLanes = 4;

template <TreeCombine kCombine, class T>
SINTER_DEVICE T combine_trees(T all, T one) {
  if (kCombine == kTreeSum) return all + one;
  if (kCombine == kTreeMin) return one < all ? one : all;
  return one > all ? one : all;
}

template <class T>
SINTER_DEVICE HeldNode<T> held_node(const TreeProblem<T>& p, i32 number) {
  const TreeNode node = p.nodes[number];
  HeldNode<T> held;
  if (node.column >= 0) {
    held.threshold = p.thresholds[number];
    held.bits =
        u32(node.column) << 17 | (node.missing == 1 ? 1u << 16 : 0u) | u32(node.first - number);
    return held;
  }
  if (p.width == 1)
    held.threshold = p.weights[node.first];
  else
    held.leaf = node.first;
  held.bits = 0;
  return held;
}

/// Traverses from nodes `at` to leaves, for the row whose column c is x[c * stride].
template <class T>
SINTER_DEVICE void walk_held(const HeldNode<T>* nodes, i32 (&at)[kTreeLanes], const T* x,
                             i32 stride, HeldNode<T> (&leaves)[kTreeLanes]) {
  bool moves = true;
  while (moves) {
    moves = false;
#pragma unroll
    for (int lane = 0; lane < kTreeLanes; ++lane) leaves[lane] = nodes[at[lane]];
#pragma unroll
    for (int lane = 0; lane < kTreeLanes; ++lane) {
      const HeldNode<T> node = leaves[lane];
      const i32 ahead = i32(node.bits & 0xffffu);
      // A leaf reads the first column needlessly, which is cheaper than a branch.
      const T value = x[i32(node.bits >> 17) * stride];
      const bool first = value <= node.threshold || (value != value && (node.bits >> 16 & 1u) != 0);
      at[lane] += ahead == 0 ? 0 : ahead + (first ? 0 : 1);
      moves = moves || ahead != 0;
    }
  }
}

/// Traverses from nodes `at` in global memory, for the row whose column c is x[c * stride]; returns
/// the leaves' rows of weights.
template <int kLanes, class T>
SINTER_DEVICE void walk(const TreeProblem<T>& p, i32 (&at)[kLanes], const T* x, i32 stride,
                        i32 (&leaves)[kLanes]) {
  bool moves = true;
  while (moves) {
    moves = false;
    TreeNode nodes[kLanes];
    T thresholds[kLanes];
#pragma unroll
    for (int lane = 0; lane < kLanes; ++lane) {
      nodes[lane] = p.nodes[at[lane]];
      thresholds[lane] = p.thresholds[at[lane]];
    }
#pragma unroll
    for (int lane = 0; lane < kLanes; ++lane) {
      const TreeNode node = nodes[lane];
      leaves[lane] = node.first;
      if (node.column < 0) continue;
      const T value = x[node.column * stride];
      const bool first = value <= thresholds[lane] || (value != value && node.missing == 1);
      at[lane] = node.first + (first ? 0 : 1);
      moves = true;
    }
  }
}

// A target's first tree sets its value; without any tree it is zero.

template <TreeCombine kCombine, class T>
SINTER_DEVICE void give_one(T& one, bool& is_given, T weight) {
  one = is_given ? combine_trees<kCombine>(one, weight) : weight;
  is_given = true;
}

/// Adds the weights of a tree's leaf to a row's targets y.
template <TreeCombine kCombine, class T>
SINTER_DEVICE void give_targets(const TreeProblem<T>& p, i32 tree, const T* weights, T* y) {
  const i32 target = p.trees[tree].target;
  for (i32 w = 0; w < p.width; ++w) {
    T& to = y[target + w];
    bool is_first = kCombine != kTreeSum;
    for (i32 before = 0; is_first && before < tree; ++before)
      is_first =
          p.trees[before].target + p.width <= target + w || p.trees[before].target > target + w;
    to = is_first ? weights[w] : combine_trees<kCombine>(to, weights[w]);
  }
}

/// Evaluates block `block` of kThreads rows. kNodes: capacity of shared memory for nodes; a larger
/// tree is read from global memory. kRows: the rows are in shared memory too, by column. kOne:
/// there is one target, kept in a register.
template <class T, TreeCombine kCombine, int kThreads, int kNodes, bool kRows, bool kOne>
SINTER_DEVICE void ensemble_of_rows(const TreeProblem<T>& p, i64 block) {
  SINTER_DYNAMIC_SHARED(memory);
  HeldNode<T>* const nodes = reinterpret_cast<HeldNode<T>*>(memory);
  T* const staged = reinterpret_cast<T*>(nodes + kNodes);
  const int thread = static_cast<int>(threadIdx.x);
  const i64 begin_row = block * kThreads, row = begin_row + thread;
  const i32 count = i32(p.rows - begin_row < kThreads ? p.rows - begin_row : kThreads);
  if (kRows) {
    // A warp reads eight adjacent columns of four rows: whole sectors, and 8-way instead of 32-way
    // bank conflicts.
    const i32 pieces = (p.columns + 7) / 8 * kThreads;
    for (i32 i = thread / 8; i < pieces; i += kThreads / 8) {
      const i32 column = i / kThreads * 8 + thread % 8, own = i % kThreads;
      if (column < p.columns && own < count)
        staged[column * kThreads + own] = p.x[(begin_row + own) * p.columns + column];
    }
  }
  const T* const x = kRows ? staged + thread : p.x + row * p.columns;
  const i32 stride = kRows ? kThreads : 1;
  T* const y = p.y + row * p.targets;

  T one = T(0);
  bool is_given = false;
  if (!kOne && thread < count)
    for (i32 target = 0; target < p.targets; ++target) y[target] = T(0);
  i32 begin = 0;
  while (begin < p.tree_count) {
    const i32 root = p.trees[begin].root;
    i32 end = begin, last = root;
    while (end < p.tree_count) {
      const i32 next = end + 1 < p.tree_count ? p.trees[end + 1].root : p.node_count;
      if (next - root > kNodes) break;
      last = next;
      ++end;
    }
    const bool is_held = end > begin;
    __syncthreads();
    for (i32 i = thread; i < last - root; i += kThreads) nodes[i] = held_node(p, root + i);
    __syncthreads();
    if (!is_held) {
      if (thread < count) {
        i32 at[1] = {root}, leaf[1];
        walk(p, at, x, stride, leaf);
        const T* const weights = p.weights + i64(leaf[0]) * p.width;
        if (kOne)
          give_one<kCombine>(one, is_given, weights[0]);
        else
          give_targets<kCombine>(p, begin, weights, y);
      }
      end = begin + 1;
    } else if (thread < count) {
      for (i32 tree = begin; tree < end; tree += kTreeLanes) {
        i32 at[kTreeLanes];
        HeldNode<T> leaves[kTreeLanes];
#pragma unroll
        for (int lane = 0; lane < kTreeLanes; ++lane)
          at[lane] = p.trees[tree + lane < end ? tree + lane : tree].root - root;
        walk_held(nodes, at, x, stride, leaves);
#pragma unroll
        for (int lane = 0; lane < kTreeLanes; ++lane) {
          if (tree + lane >= end) continue;
          if (kOne)
            give_one<kCombine>(one, is_given, leaves[lane].threshold);
          else if (p.width == 1)
            give_targets<kCombine>(p, tree + lane, &leaves[lane].threshold, y);
          else
            give_targets<kCombine>(p, tree + lane, p.weights + i64(leaves[lane].leaf) * p.width, y);
        }
      }
    }
    begin = end;
  }
  if (kOne && thread < count) y[0] = one;
}

/// A tree's result for a row: its leaf's weight, or the row of weights if there are several.
template <class T>
union TreeResult {
  T weight;
  i32 leaf;
};

/// Evaluates kRows rows from `block` * kRows on. kThreads threads divide the trees; kBatch trees
/// are traversed before their results are combined. kHeld: the rows are in shared memory, by
/// column. kOne: see ensemble_of_rows().
template <class T, TreeCombine kCombine, int kThreads, int kRows, bool kHeld, bool kOne>
SINTER_DEVICE void ensemble_of_few_rows(const TreeProblem<T>& p, i64 block) {
  SINTER_DYNAMIC_SHARED(memory);
  constexpr int kGroups = kThreads / kRows, kBatch = kGroups * kTreeLanes;
  TreeResult<T>* const results = reinterpret_cast<TreeResult<T>*>(memory);  // [kBatch][kRows]
  T* const staged = reinterpret_cast<T*>(results + kBatch * kRows);
  const int thread = static_cast<int>(threadIdx.x), own = thread % kRows, group = thread / kRows;
  const i64 begin_row = block * kRows;
  const i32 count = i32(p.rows - begin_row < kRows ? p.rows - begin_row : kRows);
  if (kHeld) {
    for (i32 i = thread; i < count * p.columns; i += kThreads)
      staged[i % p.columns * kRows + i / p.columns] = p.x[begin_row * p.columns + i];
    __syncthreads();
  }
  const T* const x = kHeld ? staged + own : p.x + (begin_row + own) * p.columns;
  const bool combines = thread < count;  // thread i combines row i's results
  T* const y = p.y + (begin_row + own) * p.targets;

  T one = T(0);
  bool is_given = false;
  if (!kOne && combines)
    for (i32 target = 0; target < p.targets; ++target) y[target] = T(0);
  for (i32 begin = 0; begin < p.tree_count; begin += kBatch) {
    if (own < count) {
      i32 at[kTreeLanes], leaves[kTreeLanes];
#pragma unroll
      for (int lane = 0; lane < kTreeLanes; ++lane) {
        const i32 tree = begin + lane * kGroups + group;
        at[lane] = p.trees[tree < p.tree_count ? tree : begin].root;
      }
      walk(p, at, x, kHeld ? kRows : 1, leaves);
#pragma unroll
      for (int lane = 0; lane < kTreeLanes; ++lane) {
        TreeResult<T>& result = results[(lane * kGroups + group) * kRows + own];
        if (p.width == 1)
          result.weight = p.weights[leaves[lane]];
        else
          result.leaf = leaves[lane];
      }
    }
    __syncthreads();
    if (combines) {
      const i32 end = p.tree_count - begin < kBatch ? p.tree_count - begin : kBatch;
      for (i32 tree = 0; tree < end; ++tree) {
        const TreeResult<T>& result = results[tree * kRows + own];
        if (kOne)
          give_one<kCombine>(one, is_given, result.weight);
        else
          give_targets<kCombine>(
              p, begin + tree,
              p.width == 1 ? &result.weight : p.weights + i64(result.leaf) * p.width, y);
      }
    }
    __syncthreads();
  }
  if (kOne && combines) y[0] = one;
}
