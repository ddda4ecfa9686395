// SPDX-License-Identifier: Apache-2.0
// Loops that stay loops: the body of a While node, built among the nodes around it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "frontend/ops/node_context.h"

namespace sinter::frontend {

/// Iterations that a loop is unrolled to; one of more stays a loop. What is unrolled fuses across
/// iterations, and what an iteration does may depend on its number.
inline constexpr std::int64_t kMostUnrolled = 16;

/// What `outputs` are of `placeholders`, as a graph of its own whose first inputs these are. A
/// constant is one in the graph, too, what is generated is so there; other values that do not
/// depend on the placeholders are its further inputs, `captured`. The placeholders are older than
/// what is computed from them. `takes_all`: whatever has been made since them belongs to the graph.
struct ExtractedBody {
  std::shared_ptr<const ir::Graph> body;
  std::vector<ir::ValueId> captured;
};
ExtractedBody extract_body(const ir::GraphBuilder& builder,
                           std::span<const ir::ValueId> placeholders,
                           std::span<const ir::ValueId> outputs, bool takes_all = false);

/// A loop under construction. Its body's nodes are added to the graph around it, on placeholders
/// for values that change from one iteration to the next. finish() moves the nodes that depend on
/// placeholders into the body; the others run once, before the loop.
class WhileBody {
 public:
  explicit WhileBody(NodeContext& node);

  /// The number of the iteration, from 0: i64[].
  ir::ValueId index() const { return index_; }
  /// A value that is `initial` in the first iteration; what it is in the next, finish() is told.
  ir::ValueId state(ir::ValueId initial);
  /// Element number index() of `sequence`, which has `trips` elements along `axis`; from the end,
  /// if it is read backwards.
  ir::ValueId element(ir::ValueId sequence, std::int64_t axis, const ir::Dim& trips,
                      bool backwards);
  /// Collects `value` of all iterations: a state [trips, ..] whose element index(), or the same
  /// from the end, is replaced by it. finish() returns it behind the other states, in order.
  void collect(ir::ValueId value, const ir::Dim& trips, bool backwards);

  /// When the loop ends.
  struct End {
    std::optional<ir::Dim> trips;  // number of iterations; nothing: any
    // If valid: bools of one element, whether there is a first iteration and a next one.
    ir::ValueId first, next;
  };
  /// Adds the While node. `after`: the states behind an iteration, in the order in which they were
  /// declared. Returns them behind the last one. Throws Error(kUnsupported) if the type of one
  /// changes.
  std::vector<ir::ValueId> finish(End end, std::span<const ir::ValueId> after);

  // A branch is a loop of at most one iteration: what has been made since the object was.
  /// Whether `value` is of the branch.
  bool made(ir::ValueId value) const;
  /// The nodes of the branch behind `outputs`; valid until the next one is added.
  std::vector<const ir::Node*> nodes_of(std::span<const ir::ValueId> outputs) const;
  /// `values` of the branch where `condition` is true, else `otherwise`.
  std::vector<ir::ValueId> finish_branch(ir::ValueId condition,
                                         std::span<const ir::ValueId> otherwise,
                                         std::span<const ir::ValueId> values);

 private:
  struct State {
    ir::ValueId initial, before, after;
  };
  /// `end`, with a condition in the place of a number of iterations that the run finds: a host that
  /// launches them does not know it.
  End counted_on_data(End end);
  ir::ValueId number_of(const ir::Dim& trips, bool backwards);

  NodeContext& node_;
  ir::ValueId index_;
  std::vector<State> states_, collected_;
  bool takes_all_ = false;
};

/// One iteration over sequences, unrolled or of a While.
struct Iteration {
  ir::ValueId number;               // i64[]
  std::vector<ir::ValueId> states;  // before it
  std::string label;                // tells this copy of the nodes from others: "[3]", or ""
  /// Its element of `sequence` along `axis`; from the end, if it is read backwards.
  std::function<ir::ValueId(ir::ValueId sequence, std::int64_t axis, bool backwards)> element;
};
/// The states behind an iteration or behind the last; what an iteration collects, or what all do,
/// along a new first dimension.
struct IterationResult {
  std::vector<ir::ValueId> states, collected;
};

/// Runs `body` `count` times: unrolled if that is a number of at most kMostUnrolled. `backwards`,
/// of each value that is collected: the first iteration's is the last element. Nothing if `body`
/// returns nothing, as when some node is not supported.
std::optional<IterationResult> iterate(
    NodeContext& node, const ir::Dim& count, std::vector<ir::ValueId> states,
    const std::vector<bool>& backwards,
    const std::function<std::optional<IterationResult>(const Iteration&)>& body);

}  // namespace sinter::frontend
