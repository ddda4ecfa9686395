// SPDX-License-Identifier: Apache-2.0
// The ways in which ranks can share the work of one node. Each group of operators has a file of
// rules; what has no rule is computed whole by every rank.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "fusion/sharding/split.h"

namespace sinter::fusion {

/// One way: how the inputs must be split for it, and how the results then are.
struct Strategy {
  /// Adds the node to a graph of the ranks; returns its outputs.
  using Write =
      std::function<std::vector<ValueId>(GraphBuilder& builder, std::span<const ValueId> inputs)>;

  std::string_view name;  // "column", "heads"
  std::vector<Split> inputs, outputs;
  Attrs attrs;              // of each rank's node
  Write write = nullptr;    // null: the same operator, with `attrs` and the node's body
  bool shares_work = true;  // each rank does its share of the operations
};

/// A node that is to be split into `parts`, for `ranks`.
struct SplitSite {
  const Graph& graph;
  const Node& node;
  Ranks ranks;
  std::int64_t parts = ranks.count;

  const Shape& in(std::size_t i) const { return graph.type(node.inputs[i]).shape; }
  const Shape& out(std::size_t i = 0) const { return graph.type(node.outputs[i]).shape; }
  bool divides(const Shape& shape, std::size_t axis) const {
    return axis < shape.size() && part_of(shape[axis], parts).has_value();
  }
  /// `shape` with a part of dimension `axis`.
  Shape part(Shape shape, std::size_t axis) const {
    shape[axis] = part_of(shape[axis], parts).value();
    return shape;
  }
  /// Every input whole, one output split so; callers change what differs.
  Strategy strategy(std::string_view name, Split output) const;
  /// The split of input `i`, which broadcasts to dimensions of which `axis` is split, where the
  /// last dimensions are aligned and `rank` is their number; whole if it has one element there.
  Split aligned(std::size_t i, std::size_t axis, std::size_t rank) const;
};

/// Dimensions behind these are not split: real values have fewer.
inline constexpr int kMostAxes = 20;

/// All ways for `node`, the first of which is that every rank computes all of it.
std::vector<Strategy> strategies(const Graph& graph, const Node& node, Ranks ranks);

/// Appends a way for each dimension of the output that ranks divide; inputs from `first` on are
/// split along it as they broadcast.
void add_aligned(const SplitSite& site, std::vector<Strategy>& ways, std::size_t first);

// The groups' rules: each appends ways.
void add_pointwise(const SplitSite& site, std::vector<Strategy>& ways);
void add_reduction(const SplitSite& site, std::vector<Strategy>& ways);
void add_norm(const SplitSite& site, std::vector<Strategy>& ways);
void add_view(const SplitSite& site, std::vector<Strategy>& ways);
void add_gather(const SplitSite& site, std::vector<Strategy>& ways);
void add_take(const SplitSite& site, std::vector<Strategy>& ways);
void add_scatter(const SplitSite& site, std::vector<Strategy>& ways);
void add_along_axis(const SplitSite& site, std::vector<Strategy>& ways);
void add_matmul(const SplitSite& site, std::vector<Strategy>& ways);
void add_grouped_matmul(const SplitSite& site, std::vector<Strategy>& ways);
void add_conv(const SplitSite& site, std::vector<Strategy>& ways);
void add_attention(const SplitSite& site, std::vector<Strategy>& ways);
void add_linear_attention(const SplitSite& site, std::vector<Strategy>& ways);
/// Of pointwise operators, views and attention: what splits two joined dimensions (Ranks::shared).
void add_joined(const SplitSite& site, std::vector<Strategy>& ways);

/// In a graph of several ranks, the rank's part of the whole `value`.
ValueId rank_slice(GraphBuilder& builder, ValueId value, Split split, Ranks ranks);
/// The number of the rank, a scalar.
ValueId rank_number(GraphBuilder& builder, DType type);

}  // namespace sinter::fusion
