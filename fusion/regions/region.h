// A region under construction: which nodes it holds, and at which element each of its values is
// needed for one step of its iteration.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fusion/regions/sorted.h"
#include "ir/graph.h"

namespace sinter::fusion {

/// An answer with its reason, for --explain-fusion.
struct Verdict {
  bool ok = false;
  std::string reason;
};

using Index = std::vector<ir::Dim>;

/// True for a fused node of `kind`.
bool is_kind(const ir::Node& node, std::string_view kind);

/// A region iterates over `space`; its reductions, if any, run over `axes` of it. Legality is
/// decided by following elements: an output at index ($0, $1, ..) needs its operands at certain
/// indices, and so on up. A reduction is only right if it is needed at the row that the iteration
/// is in, and reduces over the whole of `space` along `axes`.
class Region {
 public:
  /// `stored[v]`: value v is read by a kernel that is already decided. Must outlive the region.
  Region(const ir::Graph& graph, ir::Shape space, std::vector<std::int64_t> axes,
         const std::vector<bool>& stored);

  struct Demand {
    std::vector<Index> indices;  // different elements that one step needs
    /// Elements by number, each with the guards under which it is needed (as a hash; 0: none): code
    /// is generated for each.
    std::vector<std::pair<std::size_t, std::size_t>> uses;
    bool guarded = false;  // read where a view's guard holds: no reduction may come inside
    bool whole = false;    // gathered from: must be in memory as it is
  };

  const ir::Graph& graph() const { return *graph_; }
  const ir::Shape& space() const { return frame_->space; }
  const std::vector<std::int64_t>& axes() const { return frame_->axes; }
  const ir::Ranges& ranges() const { return frame_->ranges; }
  const SortedSet<ir::NodeId>& nodes() const { return nodes_; }
  /// Nodes that are computed again here though they also stay outside.
  const SortedSet<ir::NodeId>& copies() const { return copies_; }
  const SortedMap<ir::ValueId, Demand>& demands() const { return demands_; }
  bool holds(ir::NodeId node) const { return nodes_.count(node) != 0; }
  /// Holds `value`'s producer, and not as a copy.
  bool owns(ir::ValueId value) const;

  /// The index of a value of `shape` for one step: all of it ($0, $1, ..) if it has the iteration's
  /// shape, that of the row if it has the kept dimensions' (with ones for the others or without).
  std::optional<Index> step_index(const ir::Shape& shape) const;

  /// Adds a node whose values are results of the region (a seed, or a consumer of its values).
  /// Views between it and values of the region come along as copies. On refusal the region is
  /// spoilt: try on a copy.
  Verdict add_result(ir::NodeId node);
  /// Adds the producer of a value that the region reads. As above.
  Verdict add_producer(ir::NodeId node, bool copy);

  /// Adds a view of a result through which the region stores it.
  void add_store_view(ir::NodeId node) { nodes_.insert(node); }

  /// True if it reads, from outside, a view of what it computes itself: the view has to come in, or
  /// the region would wait for itself.
  bool reads_views_of_itself() const;
  /// The same of one value that it reads.
  bool is_view_of_itself(ir::ValueId leaf) const;

  /// Lets go of what only growing needs.
  void close();

  /// Values that the region reads from outside.
  std::vector<ir::ValueId> leaves() const;
  /// How many of them are stored tensors that stay so whatever is added next, but for the one whose
  /// producer it is: no constants of one element, views or generators.
  std::size_t lasting_leaves() const;
  /// True if `user`, in the region, reaches into `value`, which a node outside makes: if that makes
  /// it of what the region computes, the region would have to run before itself.
  bool reaches_outside(ir::NodeId user, ir::ValueId value) const;
  /// True if something that is not computed in the region needs `value`; views and copies count
  /// only if what reads them does.
  bool escapes(ir::ValueId value) const;
  /// Owned values that escape.
  std::vector<ir::ValueId> outputs() const;
  /// Drops reshapes of what the region reads: outside they are free.
  void trim_reshapes();
  /// How often a step's element of `value` is computed over the whole iteration.
  ir::Dim evaluations(ir::ValueId value) const;

 private:
  enum class Access { kPlain, kGuarded, kWhole };
  Verdict demand(ir::ValueId value, const Index& index, Access access, std::size_t guards);
  Verdict propagate(const ir::Node& node, const Index& index, Access access, std::size_t guards);
  Verdict propagate_all(ir::NodeId node);
  bool reduces_here(const ir::Node& node) const;
  Verdict scan_at(const ir::Node& node, const Index& index, Access access);
  bool leads_here(ir::ValueId value) const;

  /// What stays as it is while the region grows; its copies share it.
  struct Frame {
    ir::Shape space;
    std::vector<std::int64_t> axes;
    ir::Ranges ranges;
    Index identity;
  };

  const ir::Graph* graph_;
  const std::vector<bool>* stored_;
  std::shared_ptr<const Frame> frame_;
  SortedSet<ir::NodeId> nodes_, copies_;
  SortedMap<ir::ValueId, Demand> demands_;
  mutable std::optional<std::size_t> lasting_leaves_;  // nothing: to be counted
};

}  // namespace sinter::fusion
