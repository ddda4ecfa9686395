// SPDX-License-Identifier: Apache-2.0
// Graph rewriting: replaces sets of nodes by new ones.
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

/// A replacement: the nodes that `emit` adds compute `writes` from `reads`.
struct Piece {
  std::vector<ValueId> reads, writes;  // of the old graph
  /// Sizes named by nodes of `emit` (Node::extents), besides those named by producers of `writes`.
  std::vector<ValueId> extents = {};
  /// Adds nodes and returns one new value for each of `writes`. `reads` are mapped.
  std::function<std::vector<ValueId>(GraphBuilder& builder, std::span<const ValueId> reads)> emit;
};

/// Copies `graph`; values that a piece writes come from the piece. Old nodes stay near their
/// position; dead ones disappear. Throws Error(kInternal) if pieces depend on each other in a
/// cycle.
Graph rebuild(const Graph& graph, std::span<const Piece> pieces);

/// A piece that fuses `nodes` (ids of `graph`, any order) into one node of `kind` with `outputs`.
/// One-element constants move into the body; other outside values become inputs, in order of first
/// use.
Piece fused_piece(const Graph& graph, std::string kind, std::vector<NodeId> nodes,
                  std::vector<ValueId> outputs);

/// Builds a body step by step: inputs in order of first use.
class BodyBuilder {
 public:
  /// Constants that become part of the body (kOneElement: those of one element, and generators).
  /// Operands of libraries stay inputs, as they must be in memory.
  enum class Literals { kOneElement, kNone };
  explicit BodyBuilder(const Graph& graph, Literals literals = Literals::kOneElement)
      : graph_(graph), literals_(literals) {}

  /// Outer `value` inside the body: an input, or a literal.
  ValueId import(ValueId value);
  /// Outer `value` inside the body as an input, never as a literal.
  ValueId import_stored(ValueId value);
  /// Copies an outer node; import() then knows its outputs.
  void copy(const Node& node);
  /// Makes import(outer) return `inner`.
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
  /// Inner values by outer ones, in order of definition.
  using Inner = std::unordered_map<std::int32_t, std::vector<ValueId>>;
  Inner known_, stored_;
  std::vector<std::string> origins_;
  std::size_t origins_in_order_ = 0;
};

/// A piece that computes `writes` by a Fused node of `kind` with this body.
Piece body_piece(std::string kind, BodyBuilder& body, std::span<const ValueId> outputs,
                 std::vector<ValueId> writes);

/// Adds a Fused node.
std::vector<ValueId> add_fused(GraphBuilder& builder, const std::string& kind,
                               std::span<const ValueId> inputs, std::shared_ptr<const Graph> body,
                               std::vector<std::string> origins);

/// "Add (encoder/Add_3)": a node in messages.
std::string describe(const Node& node);

/// The record of a decision about two nodes; `reason` gets the prefix "fused: " or "no: ".
Decision decision(const Node& producer, const Node& consumer, bool fused, std::string_view reason);
inline void decide(Context& context, const Node& producer, const Node& consumer, bool fused,
                   std::string_view reason) {
  context.decisions.push_back(decision(producer, consumer, fused, reason));
}

/// The value of a constant whose elements are all equal; otherwise nothing.
std::optional<double> splat_value(const Tensor& tensor);
std::optional<double> splat_value(const Graph& graph, ValueId value);
std::optional<double> splat_value(const GraphBuilder& builder, ValueId value);

}  // namespace sinter::fusion
