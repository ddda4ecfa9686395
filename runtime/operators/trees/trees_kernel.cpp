// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <sinter/scalar_op.h>

#include "runtime/cpu/gemm/dnnl/dnnl_support.h"
#include "runtime/format_error.h"
#include "runtime/operators/operator_kernel.h"

namespace sinter::runtime::cpu {
namespace {

constexpr int kLanes = 8;       // rows that go down a tree side by side
constexpr int kTreeLanes = 16;  // trees that a row descends at a time: they miss caches more often
constexpr std::int64_t kBlockRows = 64;  // stored by columns; they fit a core's L1 cache
constexpr std::int64_t kMostPartRows = 1024;
/// Nodes and values that stay in a core's L2 cache while a part's rows pass.
constexpr std::int64_t kBlockBytes = std::int64_t{384} * 1024;
/// Levels between two tests whether all lanes have reached leaves.
constexpr int kLevels = 4;

/// A leaf is a node that leads to itself.
struct NarrowNode {
  float threshold;
  std::uint32_t bits;  // column, 15 bits; missing; how far ahead the first successor is, 16 bits
  static constexpr std::int64_t kMostColumns = 1 << 15, kMostAhead = (1 << 16) - 1;

  void set(float t, std::int64_t column, bool missing, std::int64_t, std::int64_t ahead) {
    threshold = t;
    bits = static_cast<std::uint32_t>(column << 17 | (missing ? 1 << 16 : 0) | ahead);
  }
  std::uint32_t column() const { return bits >> 17; }
  bool missing() const { return (bits >> 16 & 1) != 0; }
  std::uint32_t first(std::uint32_t self) const { return self + (bits & 0xffff); }
};
template <typename T>
struct WideNode {
  T threshold;
  std::uint32_t bits;  // column, missing
  std::uint32_t next;

  void set(T t, std::int64_t column, bool missing, std::int64_t self, std::int64_t ahead) {
    threshold = t;
    bits = static_cast<std::uint32_t>(column << 1 | (missing ? 1 : 0));
    next = static_cast<std::uint32_t>(self + ahead);
  }
  std::uint32_t column() const { return bits >> 1; }
  bool missing() const { return (bits & 1) != 0; }
  std::uint32_t first(std::uint32_t) const { return next; }
};

/// The tables of a plan, of which nothing is trusted.
struct Tables {
  std::int64_t count, trees, leaves, columns;
  const std::int32_t *nodes, *roots;
  const std::byte *thresholds, *weights;

  /// Of a plan whose weights lie `distance` bytes further on.
  Tables moved(std::ptrdiff_t distance) const {
    const auto further = [&](const auto* table) {
      return reinterpret_cast<decltype(table)>(reinterpret_cast<const std::byte*>(table) +
                                               distance);
    };
    Tables result = *this;
    result.nodes = further(nodes);
    result.roots = further(roots);
    result.thresholds = further(thresholds);
    result.weights = further(weights);
    return result;
  }
  std::int64_t ahead(std::int64_t node) const {
    return nodes[3 * node] < 0 ? 0 : nodes[3 * node + 1] - node;
  }
};

void check_tables(const Tables& t, std::int64_t targets, std::int64_t width) {
  for (std::int64_t tree = 0; tree < t.trees; ++tree) {
    const std::int64_t root = t.roots[2 * tree], target = t.roots[2 * tree + 1],
                       end = tree + 1 < t.trees ? t.roots[2 * tree + 2] : t.count;
    if (root < 0 || root >= end || end > t.count || target < 0 || target + width > targets)
      throw invalid_plan_error(
          "its tree {} has nodes {} to {} and target {}, but there are {} nodes and {} targets",
          tree, root, end, target, t.count, targets);
    for (std::int64_t i = root; i < end; ++i) {
      const std::int64_t column = t.nodes[3 * i], first = t.nodes[3 * i + 1];
      const bool fits = column < 0 ? first >= 0 && first < t.leaves
                                   : column < t.columns && first > i && first + 1 < end;
      if (!fits)
        throw invalid_plan_error(
            "node {} of its trees has column {} and successor {}, but there are {} columns and {} "
            "leaves, and its tree ends at {}",
            i, column, first, t.columns, t.leaves, end);
    }
  }
}

template <typename T, typename Node>
void write_nodes(const Tables& t, std::int64_t width, std::byte* nodes_to, std::byte* values_to) {
  auto* nodes = reinterpret_cast<Node*>(nodes_to);
  const auto* thresholds = reinterpret_cast<const T*>(t.thresholds);
  const auto* weights = reinterpret_cast<const T*>(t.weights);
  for (std::int64_t i = t.trees > 0 ? t.roots[0] : t.count; i < t.count; ++i) {
    const std::int32_t column = t.nodes[3 * i], first = t.nodes[3 * i + 1];
    const bool is_leaf = column < 0;
    nodes[i].set(is_leaf ? std::numeric_limits<T>::infinity() : thresholds[i], is_leaf ? 0 : column,
                 is_leaf || t.nodes[3 * i + 2] == 1, i, t.ahead(i));
    if (width == 1)
      reinterpret_cast<T*>(values_to)[i] = is_leaf ? weights[first] : T(0);
    else
      reinterpret_cast<std::int32_t*>(values_to)[i] = is_leaf ? first : 0;
  }
}

/// The most levels that a way down each tree has.
void write_depths(const Tables& t, std::int32_t* depths) {
  std::vector<std::int32_t> below(static_cast<std::size_t>(t.count), 0);
  for (std::int64_t i = t.count; i-- > (t.trees > 0 ? t.roots[0] : t.count);)
    if (t.nodes[3 * i] >= 0) {
      const auto first = static_cast<std::size_t>(t.nodes[3 * i + 1]);
      below[static_cast<std::size_t>(i)] = 1 + std::max(below[first], below[first + 1]);
    }
  for (std::int64_t i = 0; i < t.trees; ++i)
    depths[i] = below[static_cast<std::size_t>(t.roots[2 * i])];
}

/// One level down for every lane, whose element of column c is x[c * kStride + lane * kStep].
template <bool kMissing, std::int64_t kStride, std::int64_t kStep, typename T, typename Node,
          std::size_t kCount>
inline __attribute__((always_inline)) void descend(const Node* nodes, const T* x,
                                                   std::uint32_t (&at)[kCount]) {
#pragma GCC unroll 16
  for (std::size_t lane = 0; lane < kCount; ++lane) {
    const Node node = nodes[at[lane]];
    const T value = x[node.column() * kStride + static_cast<std::int64_t>(lane) * kStep];
    bool second = !(value <= node.threshold);
    if constexpr (kMissing) second = second && !(value != value && node.missing());
    at[lane] = node.first(at[lane]) + (second ? 1U : 0U);
  }
}

template <bool kMissing, std::int64_t kStride, std::int64_t kStep, typename T, typename Node,
          std::size_t kCount>
inline void walk(const Node* nodes, const T* x, std::int32_t depth, std::uint32_t (&at)[kCount]) {
  std::int32_t level = 0;
  for (; level + kLevels <= depth; level += kLevels) {
    std::uint32_t before[kCount];
    std::copy_n(at, kCount, before);
#pragma GCC unroll 4
    for (int i = 0; i < kLevels; ++i) descend<kMissing, kStride, kStep>(nodes, x, at);
    std::uint32_t moved = 0;
    for (std::size_t lane = 0; lane < kCount; ++lane) moved |= at[lane] ^ before[lane];
    if (moved == 0) return;
  }
  for (; level < depth; ++level) descend<kMissing, kStride, kStep>(nodes, x, at);
}

template <typename T>
inline void combine_into(T& to, T weight, Combine combine) {
  if (combine == Combine::kSum)
    to += weight;
  else
    to = combine == Combine::kMin ? std::min(to, weight) : std::max(to, weight);
}

/// Eight rows at a time go down a tree side by side, so that their loads overlap; of fewer rows,
/// each goes down 16 trees. A block of rows lies column by column in a core's first cache, blocks
/// of trees in its second. Every target combines its trees in their order, whichever way: results
/// depend on neither threads nor the number of rows.
class Trees final : public PreparedOperator {
 public:
  /// Throws Error(kInvalidPlan) if a node leads nowhere or asks for a column that is not there.
  explicit Trees(const OperatorCall& call);

  std::size_t workspace_bytes() const override {
    const std::int64_t blocks = (rows_of_part_ + kBlockRows - 1) / kBlockRows;
    return static_cast<std::size_t>(blocks * kBlockRows * columns_) * size_of(dtype_);
  }
  void run(const Operands& operands, std::span<std::byte* const> workspaces) const override {
    if (rows_ == 0 || targets_ == 0) return;
    if (is_narrow_)
      run_typed<float, NarrowNode>(operands, workspaces);
    else if (dtype_ == DType::kFloat32)
      run_typed<float, WideNode<float>>(operands, workspaces);
    else
      run_typed<double, WideNode<double>>(operands, workspaces);
  }

 private:
  template <typename T, typename Node>
  void run_typed(const Operands& operands, std::span<std::byte* const> workspaces) const;

  DType dtype_;
  std::int64_t rows_, columns_, targets_, width_, tree_count_, node_count_;
  Combine combine_;
  bool is_narrow_ = false;
  int threads_ = 1;
  std::int64_t rows_of_part_ = 1;
  std::shared_ptr<const PackedWeights::Entry> packed_;  // which these lie in
  const std::byte *nodes_ = nullptr, *values_ = nullptr;
  const std::int32_t* depths_ = nullptr;
};

Trees::Trees(const OperatorCall& call)
    : dtype_(call.type_of_input(0)),
      rows_(call.sizes["rows"]),
      columns_(call.sizes["columns"]),
      targets_(call.sizes["targets"]),
      width_(call.sizes["width"]),
      tree_count_(call.sizes["trees"]),
      node_count_(call.sizes["nodes"]),
      combine_(static_cast<Combine>(call.sizes["combine"])) {
  PackedWeights& weights = call.weights;
  const auto element = static_cast<std::int64_t>(size_of(dtype_));
  const auto at = [&](std::size_t input) {
    return weights.section() + call.plan.buffers[call.step.inputs[input]->buffer]->weight_offset;
  };
  Tables tables{node_count_, tree_count_, call.sizes["leaves"], columns_, {}, {}, at(2), at(4)};
  tables.nodes = reinterpret_cast<const std::int32_t*>(at(1));
  tables.roots = reinterpret_cast<const std::int32_t*>(at(3));

  check_tables(tables, targets_, width_);
  is_narrow_ = dtype_ == DType::kFloat32 && columns_ <= NarrowNode::kMostColumns;
  for (std::int64_t i = 0; i < node_count_ && is_narrow_; ++i)
    is_narrow_ = tables.ahead(i) <= NarrowNode::kMostAhead;

  const auto node_bytes =
      static_cast<std::int64_t>(is_narrow_                  ? sizeof(NarrowNode)
                                : dtype_ == DType::kFloat32 ? sizeof(WideNode<float>)
                                                            : sizeof(WideNode<double>));
  const auto round = [](std::int64_t bytes) { return (bytes + 63) / 64 * 64; };
  const std::int64_t values_at = round(node_count_ * node_bytes),
                     depths_at = values_at + round(node_count_ * (width_ == 1 ? element : 4)),
                     size = depths_at + 4 * tree_count_;
  // Steps may read tables of one buffer as if they had other sizes.
  const auto& inputs = call.step.inputs;
  packed_ = copied(
      weights, inputs[1]->buffer,
      fmt::format("trees with {} {} {} of {} {} {} {} {}", inputs[2]->buffer, inputs[3]->buffer,
                  inputs[4]->buffer, node_count_, tree_count_, tables.leaves, width_, columns_),
      static_cast<std::size_t>(size),
      [tables, from = weights.section(), width = width_, dtype = dtype_, is_narrow = is_narrow_,
       values_at, depths_at](const std::byte* section, std::byte* to) {
        const Tables now = tables.moved(section - from);
        if (is_narrow)
          write_nodes<float, NarrowNode>(now, width, to, to + values_at);
        else if (dtype == DType::kFloat32)
          write_nodes<float, WideNode<float>>(now, width, to, to + values_at);
        else
          write_nodes<double, WideNode<double>>(now, width, to, to + values_at);
        write_depths(now, reinterpret_cast<std::int32_t*>(to + depths_at));
      });
  nodes_ = static_cast<const std::byte*>(packed_->memory.get_data_handle());
  values_ = nodes_ + values_at;
  depths_ = reinterpret_cast<const std::int32_t*>(nodes_ + depths_at);

  threads_ =
      threads_for(static_cast<double>(rows_) * static_cast<double>(tree_count_) * 16, call.threads);
  const std::int64_t share =
      (rows_ + threads::parts_of(threads_) - 1) / threads::parts_of(threads_);
  const std::int64_t step_of_rows = share < kBlockRows ? kLanes : kBlockRows;
  rows_of_part_ = std::clamp((share + step_of_rows - 1) / step_of_rows * step_of_rows,
                             std::int64_t{kLanes}, kMostPartRows);
}

template <typename T, typename Node>
void Trees::run_typed(const Operands& operands, std::span<std::byte* const> workspaces) const {
  const auto* nodes = reinterpret_cast<const Node*>(nodes_);
  const auto* values = reinterpret_cast<const T*>(values_);
  const auto* leaves = reinterpret_cast<const std::int32_t*>(values_);
  const T* x = operands.input<T>(0);
  const auto* trees = operands.input<std::int32_t>(3);
  const T* weights = operands.input<T>(4);
  T* result = operands.output<T>(0);

  const auto give = [&](T* y, std::int64_t tree, std::uint32_t leaf) {
    y += trees[2 * tree + 1];
    if (width_ == 1) return combine_into(*y, values[leaf], combine_);
    const T* from = weights + leaves[leaf] * width_;
    for (std::int64_t w = 0; w < width_; ++w) combine_into(y[w], from[w], combine_);
  };
  // All trees for one row as it lies.
  const auto walk_row = [&](const T* row, T* y) {
    const bool has_missing = std::any_of(row, row + columns_, [](T v) { return v != v; });
    for (std::int64_t tree = 0; tree < tree_count_; tree += kTreeLanes) {
      std::uint32_t at[kTreeLanes];
      std::int32_t depth = 0;
      for (int lane = 0; lane < kTreeLanes; ++lane) {
        const std::int64_t own = std::min(tree + lane, tree_count_ - 1);
        at[lane] = static_cast<std::uint32_t>(trees[2 * own]);
        depth = std::max(depth, depths_[own]);
      }
      if (has_missing)
        walk<true, 1, 0>(nodes, row, depth, at);
      else
        walk<false, 1, 0>(nodes, row, depth, at);
      for (std::int64_t lane = 0; lane < kTreeLanes && tree + lane < tree_count_; ++lane)
        give(y, tree + lane, at[lane]);
    }
  };
  // Trees [begin, end) for rows [first, last) of a block that lies column by column.
  const auto walk_block = [&](const T* block, T* y, std::int64_t rows, std::int64_t begin,
                              std::int64_t end, bool has_missing) {
    for (std::int64_t tree = begin; tree < end; ++tree)
      for (std::int64_t row = 0; row < rows; row += kLanes) {
        std::uint32_t at[kLanes];
        std::fill_n(at, kLanes, static_cast<std::uint32_t>(trees[2 * tree]));
        if (has_missing)
          walk<true, kBlockRows, 1>(nodes, block + row, depths_[tree], at);
        else
          walk<false, kBlockRows, 1>(nodes, block + row, depths_[tree], at);
        if (width_ == 1 && combine_ == Combine::kSum && row + kLanes <= rows) {
          T* to = y + row * targets_ + trees[2 * tree + 1];
          for (int lane = 0; lane < kLanes; ++lane) to[lane * targets_] += values[at[lane]];
        } else {
          for (std::int64_t lane = 0; lane < kLanes && row + lane < rows; ++lane)
            give(y + (row + lane) * targets_, tree, at[lane]);
        }
      }
  };

  const T start = combine_ == Combine::kSum   ? T(0)
                  : combine_ == Combine::kMin ? std::numeric_limits<T>::infinity()
                                              : -std::numeric_limits<T>::infinity();
  std::vector<bool> given(static_cast<std::size_t>(targets_), combine_ == Combine::kSum);
  for (std::int64_t tree = 0; tree < tree_count_; ++tree)
    for (std::int64_t w = 0; w < width_; ++w)
      given[static_cast<std::size_t>(trees[2 * tree + 1] + w)] = true;

  const std::int64_t bytes_of_node = sizeof(Node) + (width_ == 1 ? sizeof(T) : 4);
  const std::int64_t parts = (rows_ + rows_of_part_ - 1) / rows_of_part_;
  const int team = std::min(threads_, static_cast<int>(workspaces.size()));
  threads::run_parts(parts, team, [&](threads::Member& member) {
    auto* work = reinterpret_cast<T*>(workspaces[static_cast<std::size_t>(member.me())]);
    while (const auto part = member.next()) {
      const std::int64_t first = *part * rows_of_part_,
                         count = std::min(rows_of_part_, rows_ - first);
      T* y = result + first * targets_;
      for (std::int64_t i = 0; i < count * targets_; ++i)
        y[i] = given[static_cast<std::size_t>(i % targets_)] ? start : T(0);
      if (count < kLanes) {
        for (std::int64_t row = 0; row < count; ++row)
          walk_row(x + (first + row) * columns_, y + row * targets_);
        continue;
      }
      bool missing[kMostPartRows / kBlockRows] = {};
      for (std::int64_t row = 0; row < count; row += kBlockRows) {
        const std::int64_t rows = std::min(kBlockRows, count - row);
        T* block = work + row * columns_;
        bool all = true;
        for (std::int64_t r = 0; r < kBlockRows; ++r) {
          // What fills the last block are rows again.
          const T* from = x + (first + row + std::min(r, rows - 1)) * columns_;
          for (std::int64_t c = 0; c < columns_; ++c) {
            block[c * kBlockRows + r] = from[c];
            all &= from[c] == from[c];
          }
        }
        missing[row / kBlockRows] = !all;
      }
      for (std::int64_t begin = 0; begin < tree_count_;) {
        std::int64_t end = begin + 1;
        while (end < tree_count_ &&
               (trees[2 * end] - trees[2 * begin]) * bytes_of_node < kBlockBytes)
          ++end;
        for (std::int64_t row = 0; row < count; row += kBlockRows)
          walk_block(work + row * columns_, y + row * targets_, std::min(kBlockRows, count - row),
                     begin, end, missing[row / kBlockRows]);
        begin = end;
      }
    }
  });
}

}  // namespace

const OperatorKernel& trees_kernel() {
  static const OperatorKernel kernel = {"trees", prepare<Trees>};
  return kernel;
}

}  // namespace sinter::runtime::cpu
