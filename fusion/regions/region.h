// A region under construction: which nodes it holds, and at which element each of its values is
// needed for one step of its iteration.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fusion/context.h"
#include "fusion/regions/sorted.h"

namespace sinter::fusion {

/// An answer with its reason, for --explain-fusion.
struct Verdict {
  bool ok = false;
  std::string reason;
};

using Index = std::vector<Dim>;

/// True for a fused node of `kind`.
bool is_kind(const Node& node, std::string_view kind);

/// A region iterates over `space`; its reductions, if any, run over `axes` of it. Legality is
/// decided by following elements: an output at index ($0, $1, ..) needs its operands at certain
/// indices, and so on up. A reduction is only right if it is needed at the row that the iteration
/// is in, and reduces over the whole of `space` along `axes`.
class Region {
 public:
  /// `stored[v]`: value v is read by a kernel that is already decided. Must outlive the region.
  Region(const Graph& graph, Shape space, Ints axes, const std::vector<bool>& stored);

  struct Demand {
    std::vector<Index> indices;  // different elements that one step needs
    /// Elements by number, each with the guards under which it is needed (as a hash; 0: none): code
    /// is generated for each.
    std::vector<std::pair<std::size_t, std::size_t>> uses;
    bool guarded = false;  // read where a view's guard holds: no reduction may come inside
    bool whole = false;    // gathered from: must be in memory as it is
  };

  const Graph& graph() const { return *graph_; }
  const Shape& space() const { return frame_->space; }
  const Ints& axes() const { return frame_->axes; }
  const Ranges& ranges() const { return frame_->ranges; }
  const SortedSet<NodeId>& nodes() const { return nodes_; }
  /// Nodes that are computed again here though they also stay outside.
  const SortedSet<NodeId>& copies() const { return copies_; }
  const SortedMap<ValueId, Demand>& demands() const { return demands_; }
  bool holds(NodeId node) const { return nodes_.count(node) != 0; }
  /// Holds `value`'s producer, and not as a copy.
  bool owns(ValueId value) const;

  /// The index of a value of `shape` for one step: all of it ($0, $1, ..) if it has the iteration's
  /// shape, that of the row if it has the kept dimensions' (with ones for the others or without).
  std::optional<Index> step_index(const Shape& shape) const;

  /// Adds a node whose values are results of the region (a seed, or a consumer of its values).
  /// Views between it and values of the region come along as copies. On refusal the region is
  /// spoilt: try on a copy.
  Verdict add_result(NodeId node);
  /// Adds the producer of a value that the region reads. As above.
  Verdict add_producer(NodeId node, bool copy);

  /// Adds a view of a result through which the region stores it.
  void add_store_view(NodeId node) { nodes_.insert(node); }

  /// True if a Scatter of the region changes what something else in it reads: it could not do so in
  /// place.
  bool reads_what_it_changes() const;
  /// True if it reads, from outside, a view of what it computes itself: the view has to come in, or
  /// the region would wait for itself.
  bool reads_views_of_itself() const;
  /// The same of one value that it reads.
  bool is_view_of_itself(ValueId leaf) const;

  /// Lets go of what only growing needs.
  void close();

  /// Values that the region reads from outside.
  std::vector<ValueId> leaves() const;
  /// How many of them are stored tensors that stay so whatever is added next, but for the one whose
  /// producer it is: no constants of one element, views or generators.
  std::size_t lasting_leaves() const;
  /// True if `user`, in the region, reaches into `value`, which a node outside makes: if that makes
  /// it of what the region computes, the region would have to run before itself.
  bool reaches_outside(NodeId user, ValueId value) const;
  /// True if something that is not computed in the region needs `value`; views and copies count
  /// only if what reads them does.
  bool escapes(ValueId value) const;
  /// Owned values that escape.
  std::vector<ValueId> outputs() const;
  /// How many views in it take each element from one of several sources, where which one does not
  /// follow from ranges of the space's dimensions: a condition for each element and source.
  std::size_t choosing_views() const { return choosing_.size(); }
  /// Drops reshapes of what the region reads: outside they are free.
  void trim_reshapes();
  /// How often a step's element of `value` is computed over the whole iteration.
  Dim evaluations(ValueId value) const;

 private:
  enum class Access { kPlain, kGuarded, kWhole };
  Verdict demand(ValueId value, const Index& index, Access access, std::size_t guards);
  Verdict propagate(const Node& node, const Index& index, Access access, std::size_t guards);
  Verdict propagate_all(NodeId node);
  bool reduces_here(const Node& node) const;
  Verdict scan_at(const Node& node, const Index& index, Access access);
  bool leads_here(ValueId value) const;
  bool is_range(const ir::ViewSource::Guard& guard) const;

  /// What stays as it is while the region grows; its copies share it.
  struct Frame {
    Shape space;
    Ints axes;
    Ranges ranges;
    Index identity;
  };

  const Graph* graph_;
  const std::vector<bool>* stored_;
  std::shared_ptr<const Frame> frame_;
  SortedSet<NodeId> nodes_, copies_, choosing_, scatters_;
  SortedMap<ValueId, Demand> demands_;
  mutable std::optional<std::size_t> lasting_leaves_;  // nothing: to be counted
};

/// A region of kind "scatter" that replaces elements of a state that nothing else reads: it is
/// done in place and copies nothing.
bool changes_state(const Graph& graph, const Node& node);

}  // namespace sinter::fusion
