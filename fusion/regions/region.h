// SPDX-License-Identifier: Apache-2.0
// A region under construction: its nodes, and the indices at which one step of its iteration needs
// each value.
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
/// decided by tracing elements: an output at index ($0, $1, ..) needs its operands at certain
/// indices, and so on upwards. A reduction is legal only if it is needed at the iteration's own row
/// and reduces all of `space` along `axes`.
class Region {
 public:
  /// `stored[v]`: a committed kernel reads value v from memory. Must outlive the region.
  Region(const Graph& graph, Shape space, Ints axes, const std::vector<bool>& stored);

  struct Demand {
    std::vector<Index> indices;  // distinct elements that one step needs
    /// Elements by number, with the hash of the guards under which each is needed (0: none): code
    /// is generated for each.
    std::vector<std::pair<std::size_t, std::size_t>> uses;
    bool guarded = false;  // read only under a view's guard: no reduction may be inside
    bool whole = false;    // data of a gather: must be in memory
  };

  const Graph& graph() const { return *graph_; }
  const Shape& space() const { return frame_->space; }
  const Ints& axes() const { return frame_->axes; }
  const Ranges& ranges() const { return frame_->ranges; }
  const SortedSet<NodeId>& nodes() const { return nodes_; }
  /// Nodes that are recomputed here though they also stay outside.
  const SortedSet<NodeId>& copies() const { return copies_; }
  const SortedMap<ValueId, Demand>& demands() const { return demands_; }
  bool holds(NodeId node) const { return nodes_.count(node) != 0; }
  /// True if it holds `value`'s producer, not as a copy.
  bool owns(ValueId value) const;

  /// The index of a value of `shape` in one step: the full index ($0, $1, ..) for the iteration's
  /// shape; the row's index for the kept dimensions' shape (with or without ones for the others).
  std::optional<Index> step_index(const Shape& shape) const;

  /// Adds a node whose values are results of the region (a seed, or a consumer of its values).
  /// Views between it and the region's values are added as copies. A refusal leaves the region
  /// invalid: try on a copy.
  Verdict add_result(NodeId node);
  /// Adds the producer of a value that the region reads. As above.
  Verdict add_producer(NodeId node, bool copy);

  /// Adds a view of a result through which the region stores it.
  void add_store_view(NodeId node) { nodes_.insert(node); }

  /// True if a Scatter of the region updates a value that it reads elsewhere, which prevents an
  /// in-place update.
  bool reads_what_it_changes() const;
  /// True if it reads, from outside, a view of its own values: the view must be added, or the
  /// region would depend on itself.
  bool reads_views_of_itself() const;
  /// The same for one value that it reads.
  bool is_view_of_itself(ValueId leaf) const;

  /// Frees what only growing needs.
  void close();

  /// Values that the region reads from outside.
  std::vector<ValueId> leaves() const;
  /// Number of leaves that stay stored tensors whatever is added next (except the one whose
  /// producer is added): no one-element constants, views or generators.
  std::size_t lasting_leaves() const;
  /// True if `user`, in the region, indexes into `value`, which an outside node computes. If that
  /// node depends on the region, the region would have to run before itself.
  bool reaches_outside(NodeId user, ValueId value) const;
  /// True if something not computed in the region needs `value`; views and copies count only if
  /// their readers do.
  bool escapes(ValueId value) const;
  /// Owned values that escape.
  std::vector<ValueId> outputs() const;
  /// Number of views that select each element among several sources, where ranges of the space's
  /// dimensions do not decide: a condition for each element and source.
  std::size_t choosing_views() const { return choosing_.size(); }
  /// Drops reshapes of leaves: outside they are free.
  void trim_reshapes();
  /// How often an element of `value` is computed over the whole iteration.
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

  /// Constant while the region grows; copies share it.
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
  mutable std::optional<std::size_t> lasting_leaves_;  // nothing: not counted yet
};

/// The states that a region of kind "scatter" replaces elements of, each of which only its Scatter
/// reads in there; empty for others.
std::vector<ValueId> replaced_states(const Graph& graph, const Node& node);
/// True if nothing else reads these: the region runs in place and copies nothing.
bool changes_state(const Graph& graph, const Node& node);

}  // namespace sinter::fusion
