// SPDX-License-Identifier: Apache-2.0
// Partitions a graph into regions: grows them, keeps the graph acyclic, and turns them into nodes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "fusion/context.h"
#include "fusion/regions/cost.h"
#include "fusion/regions/region.h"

namespace sinter::fusion {

class Partition {
 public:
  Partition(const Graph& graph, Context& context);

  /// An empty region over `space`, with reductions over `axes`, if any.
  Region start(Shape space, Ints axes) const;
  bool is_grouped(NodeId node) const { return group_of_[at(node)] >= 0; }
  /// Leaves a node to a later pass; --explain-fusion shows `reason`.
  void leave(NodeId node, std::string reason) { left_.emplace(node, std::move(reason)); }
  /// Adds legal and worthwhile producers and consumers until nothing changes.
  void grow(Region& region);
  /// Stores results of a reduction through a transpose that would otherwise be a kernel.
  void fold_stores(Region& region);
  /// Commits a region.
  void commit(Region region);
  /// The graph with committed regions as Fused nodes; decisions go to the context.
  Graph finish();

 private:
  static std::size_t at(NodeId node) { return node.position(); }
  std::size_t most_nodes() const;
  std::optional<NodeId> last_reader(const Region& region, ValueId value) const;
  /// Replaces `region` by `next`, and remembers the last state that reads no views of itself.
  void take(Region& region, Region next);
  bool try_producer(Region& region, ValueId leaf);
  bool try_consumers(Region& region, ValueId value);
  bool try_consumer(Region& region, NodeId user, NodeId producer);
  /// True if some kernel, or the caller of the model, reads `value` from memory.
  bool is_stored_anyway(ValueId value) const;
  bool only_kernels_read(ValueId value) const;
  /// Number of kernels, including this region, that would recompute `value`; 0 if some reader
  /// cannot.
  std::size_t copying_readers(const Region& region, ValueId value) const;
  /// True if the first reader outside the region comes before it and has `value` at hand where it
  /// computes its own result: its kernel can store it, and it needs none of its own.
  bool first_reader_stores(const Region& region, ValueId value) const;
  enum class Side { kInFront, kBehind };  // relative to the region
  /// Legality of `node` in any region; Region checks the rest.
  Verdict can_fuse(const Region& region, NodeId node, Side side) const;
  bool can_scatter(const Region& region, const Node& node) const;
  /// True if a path from the region through outside nodes returns to it.
  bool has_circle(const Region& region) const;
  /// Adds readers of `value`, also through views and copies, up to node `last`; about `most` of
  /// them.
  void collect_readers(const Region& region, ValueId value, std::vector<NodeId>& readers,
                       std::size_t last, std::size_t most) const;
  void decide(NodeId producer, NodeId consumer, const Worth& worth);

  const Graph& graph_;
  Context& context_;
  std::vector<int> group_of_;
  std::vector<Region> groups_;
  std::vector<bool> stored_;  // read by committed regions
  std::map<NodeId, std::string> left_;
  // For each node, the last node of the committed regions that begin at or before it and end after
  // it.
  std::vector<std::size_t> reach_;
  /// Marks that can all be cleared at once.
  class Marks {
   public:
    void clear(std::size_t size) {
      if (marks_.size() < size) marks_.resize(size, 0);
      ++now_;
    }
    /// False if `at` was marked already.
    bool mark(std::size_t at) {
      const bool is_new = marks_[at] != now_;
      marks_[at] = now_;
      return is_new;
    }

   private:
    std::vector<std::uint64_t> marks_;
    std::uint64_t now_ = 0;
  };
  std::vector<ValueId> kept_out_;  // views that the growing region reads from outside
  Marks kept_out_seen_;
  std::optional<Region> sound_;
  mutable Marks nodes_seen_, groups_seen_, readers_seen_, values_seen_;
  std::size_t tried_ = 0;           // sum of region values over tried nodes
  mutable std::size_t walked_ = 0;  // nodes in all cycle searches
  std::map<std::pair<NodeId, NodeId>, Decision> decisions_;
};

}  // namespace sinter::fusion
