// Graph surgery: replaces sets of nodes by new ones.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "fusion/context.h"

namespace sinter::fusion {

/// A replacement: `writes` are computed from `reads` by what `emit` adds.
struct Piece {
  std::vector<ValueId> reads, writes;  // of the old graph
  /// Sizes that nodes of `emit` name (Node::extents), beside those that makers of `writes` name.
  std::vector<ValueId> extents = {};
  /// Adds nodes and returns one new value for each of `writes`. `reads` are mapped.
  std::function<std::vector<ValueId>(GraphBuilder& builder, std::span<const ValueId> reads)> emit;
};

/// Copies `graph` with the values that a piece writes taken from it. Old nodes stay near their old
/// position; those that nothing needs any more disappear. Throws Error(kInternal) if the pieces
/// depend on each other in a circle.
Graph rebuild(const Graph& graph, std::span<const Piece> pieces);

/// A piece that turns `nodes` (ids of `graph`, any order) into one Fused node of `kind` that
/// yields `outputs`. Constants of one element move into the body; other values from outside become
/// inputs, in order of first use.
Piece fused_piece(const Graph& graph, std::string kind, std::vector<NodeId> nodes,
                  std::vector<ValueId> outputs);

/// Collects what a body needs while it is built by hand: inputs in order of first use.
class BodyBuilder {
 public:
  /// Which constants become part of the body (kOneElement: those, and generators). Libraries read
  /// memory: their operands stay inputs.
  enum class Literals { kOneElement, kNone };
  explicit BodyBuilder(const Graph& graph, Literals literals = Literals::kOneElement)
      : graph_(graph), literals_(literals) {}

  /// `value` of the outer graph inside the body: an input, or a literal.
  ValueId import(ValueId value);
  /// `value` inside the body as an input, never as a literal.
  ValueId import_stored(ValueId value);
  /// Copies an outer node; its outputs are then known to import.
  void copy(const Node& node);
  /// From now on import(outer) is `inner`.
  void bind(ValueId outer, ValueId inner);
  GraphBuilder& builder() { return builder_; }
  /// The outer values that became inputs.
  const std::vector<ValueId>& reads() const { return reads_; }
  std::vector<std::string>& origins() { return origins_; }
  /// The sizes that copied nodes name.
  const std::vector<ValueId>& extents() const { return extents_; }
  Graph finish(std::span<const ValueId> outputs);

 private:
  const Graph& graph_;
  Literals literals_;
  GraphBuilder builder_{"body"};
  std::vector<ValueId> reads_, extents_;
  /// Inner values of outer ones, in the order in which they became known.
  using Inner = std::unordered_map<std::int32_t, std::vector<ValueId>>;
  Inner known_, stored_;
  std::vector<std::string> origins_;
  std::size_t origins_in_order_ = 0;
};

/// A piece that yields `writes` by a Fused node of `kind` with this body.
Piece body_piece(std::string kind, BodyBuilder& body, std::span<const ValueId> outputs,
                 std::vector<ValueId> writes);

/// Adds a Fused node.
std::vector<ValueId> add_fused(GraphBuilder& builder, const std::string& kind,
                               std::span<const ValueId> inputs, std::shared_ptr<const Graph> body,
                               std::vector<std::string> origins);

/// "Add (encoder/Add_3)": how messages call a node.
std::string describe(const Node& node);

/// The record of a decision about two nodes; "fused: " or "no: " comes in front of `reason`.
Decision decision(const Node& producer, const Node& consumer, bool fused, std::string_view reason);
inline void decide(Context& context, const Node& producer, const Node& consumer, bool fused,
                   std::string_view reason) {
  context.decisions.push_back(decision(producer, consumer, fused, reason));
}

/// The value of a constant whose elements are all equal; nothing for anything else.
std::optional<double> splat_value(const Tensor& tensor);
std::optional<double> splat_value(const Graph& graph, ValueId value);
std::optional<double> splat_value(const GraphBuilder& builder, ValueId value);

}  // namespace sinter::fusion
