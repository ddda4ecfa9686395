// Divides a graph into regions: grows them, keeps them free of circles, turns them into nodes.
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

  /// An empty region over `space`, with reductions over `axes` if there are any.
  Region start(Shape space, Ints axes) const;
  bool is_grouped(NodeId node) const { return group_of_[at(node)] >= 0; }
  /// Leaves a node out of all regions, for a later pass; `reason` is what --explain-fusion says.
  void leave(NodeId node, std::string reason) { left_.emplace(node, std::move(reason)); }
  /// Takes in whatever producers and consumers are legal and worth it, until nothing changes.
  void grow(Region& region);
  /// Stores results of a reduction through a transpose that would else be a kernel of its own.
  void fold_stores(Region& region);
  /// Closes a region.
  void commit(Region region);
  /// The committed regions as Fused nodes; decisions go to the context.
  Graph finish();

 private:
  static std::size_t at(NodeId node) { return node.position(); }
  std::size_t most_nodes() const;
  std::optional<NodeId> last_reader(const Region& region, ValueId value) const;
  /// Makes `region` the next one, and keeps the last that read no views of itself.
  void take(Region& region, Region next);
  bool try_producer(Region& region, ValueId leaf);
  bool try_consumers(Region& region, ValueId value);
  bool try_consumer(Region& region, NodeId user, NodeId producer);
  /// True if some kernel, or who runs the model, reads `value` from memory.
  bool is_stored_anyway(ValueId value) const;
  bool only_kernels_read(ValueId value) const;
  /// How many kernels would compute `value` themselves (this region is one); 0 if some reader
  /// cannot.
  std::size_t copying_readers(const Region& region, ValueId value) const;
  enum class Place { kInFront, kBehind };  // of what a region has
  /// Legality of `node` as part of any region; the rest is Region's to say.
  Verdict can_fuse(const Region& region, NodeId node, Place place) const;
  bool can_scatter(const Region& region, const Node& node) const;
  /// True if something outside lies on a path from the region back into it.
  bool has_circle(const Region& region) const;
  /// Adds what reads `value`, perhaps through views and copies, up to node `last`; about `most`.
  void collect_readers(const Region& region, ValueId value, std::vector<NodeId>& readers,
                       std::size_t last, std::size_t most) const;
  void decide(NodeId producer, NodeId consumer, const Worth& worth);

  const Graph& graph_;
  Context& context_;
  std::vector<int> group_of_;
  std::vector<Region> groups_;
  std::vector<bool> stored_;  // values that committed regions read
  std::map<NodeId, std::string> left_;
  // For each node the last one of the committed regions that begin at it or before and end behind.
  std::vector<std::size_t> reach_;
  /// Marks that are all taken off at once.
  class Marks {
   public:
    void clear(std::size_t size) {
      if (marks_.size() < size) marks_.resize(size, 0);
      ++now_;
    }
    /// False if `at` was marked before.
    bool mark(std::size_t at) {
      const bool is_new = marks_[at] != now_;
      marks_[at] = now_;
      return is_new;
    }

   private:
    std::vector<std::uint64_t> marks_;
    std::uint64_t now_ = 0;
  };
  std::vector<ValueId> kept_out_;  // views that the region being grown reads from outside
  Marks kept_out_seen_;
  std::optional<Region> sound_;
  mutable Marks nodes_seen_, groups_seen_, readers_seen_, values_seen_;
  std::size_t tried_ = 0;           // values of regions, for each node that was tried
  mutable std::size_t walked_ = 0;  // nodes in all searches for circles
  std::map<std::pair<NodeId, NodeId>, Decision> decisions_;
};

}  // namespace sinter::fusion
