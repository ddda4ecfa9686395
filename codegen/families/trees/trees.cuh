// Rows down decision trees: a thread for each row, blocks of trees in shared memory. Each row's
// thread combines its trees in their order, so that results are the same however rows are divided.
#pragma once

#include "math.cuh"

struct TreeNode {
  i32 column, first, missing;  // see ir's TreeEnsemble
};
struct TreeStart {
  i32 root, target;
};

/// What kernels read and write, and its sizes.
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

enum TreeCombine { kTreeSum, kTreeMin, kTreeMax };

template <TreeCombine kCombine, class T>
SINTER_DEVICE T combine_trees(T all, T one) {
  if (kCombine == kTreeSum) return all + one;
  if (kCombine == kTreeMin) return one < all ? one : all;
  return one > all ? one : all;
}

/// The leaf's row of weights for the row whose element of column c is x[c * stride]; nodes and
/// thresholds begin with the tree's root, which has number `root`.
template <class T>
SINTER_DEVICE i32 leaf_of(const TreeNode* nodes, const T* thresholds, i32 root, const T* x,
                          i64 stride) {
  i32 at = 0;
  TreeNode node = nodes[0];
  while (node.column >= 0) {
    const T value = x[node.column * stride];
    const bool first = value <= thresholds[at] || (value != value && node.missing == 1);
    at = node.first + (first ? 0 : 1) - root;
    node = nodes[at];
  }
  return node.first;
}

/// Block `block` of kThreads rows. kNodes: of the trees that lie in shared memory at a time; a
/// larger tree is read where it is. kRows: the rows lie there too, column by column. kOne: there is
/// one target, which stays in a register.
template <class T, TreeCombine kCombine, int kThreads, int kNodes, bool kRows, bool kOne>
SINTER_DEVICE void ensemble_of_rows(const TreeProblem<T>& p, i64 block) {
  SINTER_DYNAMIC_SHARED(memory);
  T* const thresholds = reinterpret_cast<T*>(memory);
  TreeNode* const nodes = reinterpret_cast<TreeNode*>(thresholds + kNodes);
  T* const staged = reinterpret_cast<T*>(nodes + kNodes);
  const int thread = static_cast<int>(threadIdx.x);
  const i64 first = block * kThreads, row = first + thread;
  const i64 count = p.rows - first < kThreads ? p.rows - first : kThreads;
  if (kRows)
    for (i64 i = thread; i < count * p.columns; i += kThreads)
      staged[i % p.columns * kThreads + i / p.columns] = p.x[first * p.columns + i];
  const T* const x = kRows ? staged + thread : p.x + row * p.columns;
  const i64 stride = kRows ? kThreads : 1;
  T* const y = p.y + row * p.targets;

  T one = T(0);
  // A target takes what its first tree gives as it is; without a tree it is zero.
  u32 given = 0;
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
    if (is_held)
      for (i32 i = thread; i < last - root; i += kThreads) {
        nodes[i] = p.nodes[root + i];
        thresholds[i] = p.thresholds[root + i];
      }
    else
      end = begin + 1;
    __syncthreads();
    if (thread < count)
      for (i32 tree = begin; tree < end; ++tree) {
        const TreeStart start = p.trees[tree];
        const TreeNode* const own = is_held ? nodes + (start.root - root) : p.nodes + start.root;
        const T* const own_thresholds =
            is_held ? thresholds + (start.root - root) : p.thresholds + start.root;
        const T* const weights =
            p.weights + i64(leaf_of(own, own_thresholds, start.root, x, stride)) * p.width;
        if (kOne) {
          one = given == 0 ? weights[0] : combine_trees<kCombine>(one, weights[0]);
          given = 1;
        } else {
          for (i32 w = 0; w < p.width; ++w) {
            T& to = y[start.target + w];
            bool is_first = kCombine != kTreeSum;
            for (i32 before = 0; is_first && before < tree; ++before)
              is_first = p.trees[before].target + p.width <= start.target + w ||
                         p.trees[before].target > start.target + w;
            to = is_first ? weights[w] : combine_trees<kCombine>(to, weights[w]);
          }
        }
      }
    begin = end;
  }
  if (kOne && thread < count) y[0] = one;
}
