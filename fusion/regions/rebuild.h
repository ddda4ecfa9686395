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
#include "ir/graph.h"

namespace sinter::fusion {

/// A replacement: `writes` are computed from `reads` by what `emit` adds.
struct Piece {
  std::vector<ir::ValueId> reads, writes;  // of the old graph
  /// Adds nodes and returns one new value for each of `writes`. `reads` are mapped.
  std::function<std::vector<ir::ValueId>(ir::GraphBuilder& builder,
                                         std::span<const ir::ValueId> reads)>
      emit;
};

/// Copies `graph` with the values that a piece writes taken from it. Old nodes stay near their old
/// position; those that nothing needs any more disappear. Throws Error(kInternal) if the pieces
/// depend on each other in a circle.
ir::Graph rebuild(const ir::Graph& graph, std::span<const Piece> pieces);

/// A piece that turns `nodes` (ids of `graph`, any order) into one Fused node of `kind` that
/// yields `outputs`. Constants of one element move into the body; other values from outside become
/// inputs, in order of first use.
Piece fused_piece(const ir::Graph& graph, std::string kind, std::vector<ir::NodeId> nodes,
                  std::vector<ir::ValueId> outputs);

/// Collects what a body needs while it is built by hand: inputs in order of first use.
class BodyBuilder {
 public:
  /// Which constants become part of the body (kOneElement: those, and generators). Libraries read
  /// memory: their operands stay inputs.
  enum class Literals { kOneElement, kNone };
  explicit BodyBuilder(const ir::Graph& graph, Literals literals = Literals::kOneElement)
      : graph_(graph), literals_(literals) {}

  /// `value` of the outer graph inside the body: an input, or a literal.
  ir::ValueId import(ir::ValueId value);
  /// `value` inside the body as an input, never as a literal.
  ir::ValueId import_stored(ir::ValueId value);
  /// Copies an outer node; its outputs are then known to import.
  void copy(const ir::Node& node);
  /// From now on import(outer) is `inner`.
  void bind(ir::ValueId outer, ir::ValueId inner);
  ir::GraphBuilder& builder() { return builder_; }
  /// The outer values that became inputs.
  const std::vector<ir::ValueId>& reads() const { return reads_; }
  std::vector<std::string>& origins() { return origins_; }
  ir::Graph finish(std::span<const ir::ValueId> outputs);

 private:
  const ir::Graph& graph_;
  Literals literals_;
  ir::GraphBuilder builder_{"body"};
  std::vector<ir::ValueId> reads_;
  /// Inner values of outer ones, in the order in which they became known.
  using Inner = std::unordered_map<std::int32_t, std::vector<ir::ValueId>>;
  Inner known_, stored_;
  std::vector<std::string> origins_;
  std::size_t origins_in_order_ = 0;
};

/// A piece that yields `writes` by a Fused node of `kind` with this body.
Piece body_piece(std::string kind, BodyBuilder& body, std::span<const ir::ValueId> outputs,
                 std::vector<ir::ValueId> writes);

/// Adds a Fused node.
std::vector<ir::ValueId> add_fused(ir::GraphBuilder& builder, const std::string& kind,
                                   std::span<const ir::ValueId> inputs,
                                   std::shared_ptr<const ir::Graph> body,
                                   std::vector<std::string> origins);

/// "Add (encoder/Add_3)": how messages call a node.
std::string describe(const ir::Node& node);

/// The record of a decision about two nodes; "fused: " or "no: " comes in front of `reason`.
Decision decision(const ir::Node& producer, const ir::Node& consumer, bool fused,
                  std::string_view reason);

/// The value of a constant whose elements are all equal; nothing for anything else.
std::optional<double> splat_value(const ir::Tensor& tensor);
std::optional<double> splat_value(const ir::Graph& graph, ir::ValueId value);
std::optional<double> splat_value(const ir::GraphBuilder& builder, ir::ValueId value);

}  // namespace sinter::fusion
