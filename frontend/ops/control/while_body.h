// SPDX-License-Identifier: Apache-2.0
// Loops that are not unrolled: builds the body of a While node among the surrounding nodes.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "frontend/ops/node_context.h"

namespace sinter::frontend {

/// Maximum iterations of an unrolled loop. Unrolled iterations fuse with each other, and their
/// nodes may depend on the iteration's number.
inline constexpr std::int64_t kMostUnrolled = 16;

/// The computation of `outputs` from `placeholders` as a graph, with the placeholders as its first
/// inputs. Constants and generated values are repeated in the graph. Other values that do not
/// depend on placeholders become further inputs, `captured`. Placeholders must be created before
/// their dependents. `takes_all`: the graph gets all nodes added since the placeholders.
struct ExtractedBody {
  std::shared_ptr<const ir::Graph> body;
  std::vector<ir::ValueId> captured;
};
ExtractedBody extract_body(const ir::GraphBuilder& builder,
                           std::span<const ir::ValueId> placeholders,
                           std::span<const ir::ValueId> outputs, bool takes_all = false);

/// A loop under construction. Its body's nodes are first added to the surrounding graph, on
/// placeholders for values that change between iterations. finish() moves nodes that depend on
/// placeholders into the body; the others run once, before the loop.
class WhileBody {
 public:
  explicit WhileBody(NodeContext& node);

  /// The iteration's number, from 0: i64[].
  ir::ValueId index() const { return index_; }
  /// Adds a state with the value `initial` in the first iteration; finish() gets its next value.
  ir::ValueId state(ir::ValueId initial);
  /// Element index() of `sequence`, which has `trips` elements along `axis`; with `backwards`,
  /// counted from the end.
  ir::ValueId element(ir::ValueId sequence, std::int64_t axis, const ir::Dim& trips,
                      bool backwards);
  /// Collects `value` of all iterations in a state [trips, ..]: each iteration replaces element
  /// index(), with `backwards` counted from the end. finish() returns these states after the
  /// others, in order.
  void collect(ir::ValueId value, const ir::Dim& trips, bool backwards);

  /// End conditions of the loop.
  struct End {
    std::optional<ir::Dim> trips;  // number of iterations; nullopt: any
    // Scalar bools, if valid: whether the first, and the next, iteration runs.
    ir::ValueId first, next;
  };
  /// Adds the While node. `after`: the states at an iteration's end, in the order of their
  /// declaration. Returns the final states. Throws Error(kUnsupported) if a state's type changes.
  std::vector<ir::ValueId> finish(End end, std::span<const ir::ValueId> after);

  // A branch is a loop of at most one iteration with all nodes added since this object's creation.
  /// Whether the branch computes `value`.
  bool made(ir::ValueId value) const;
  /// The branch's nodes that `outputs` depend on; valid until the next node is added.
  std::vector<const ir::Node*> nodes_of(std::span<const ir::ValueId> outputs) const;
  /// Returns the branch's `values` if `condition` is true, else `otherwise`.
  std::vector<ir::ValueId> finish_branch(ir::ValueId condition,
                                         std::span<const ir::ValueId> otherwise,
                                         std::span<const ir::ValueId> values);

 private:
  struct State {
    ir::ValueId initial, before, after;
  };
  /// Replaces a data-dependent number of iterations by a condition, since the launching host does
  /// not know the number.
  End counted_on_data(End end);
  ir::ValueId number_of(const ir::Dim& trips, bool backwards);

  NodeContext& node_;
  ir::ValueId index_;
  std::vector<State> states_, collected_;
  bool takes_all_ = false;
};

/// One iteration over sequences, of an unrolled loop or a While.
struct Iteration {
  ir::ValueId number;               // i64[]
  std::vector<ir::ValueId> states;  // values before the iteration
  std::string label;                // distinguishes this copy of the nodes: "[3]", or ""
  /// The iteration's element of `sequence` along `axis`; with `backwards`, counted from the end.
  std::function<ir::ValueId(ir::ValueId sequence, std::int64_t axis, bool backwards)> element;
};
/// States after an iteration, or after the last one. `collected`: values of one iteration, or of
/// all along a new first dimension.
struct IterationResult {
  std::vector<ir::ValueId> states, collected;
};

/// Runs `body` `count` times; unrolls up to kMostUnrolled iterations. `backwards`: for each
/// collected value, whether the first iteration writes the last element. Nullopt if `body` returns
/// nullopt, as for unsupported nodes.
std::optional<IterationResult> iterate(
    NodeContext& node, const ir::Dim& count, std::vector<ir::ValueId> states,
    const std::vector<bool>& backwards,
    const std::function<std::optional<IterationResult>(const Iteration&)>& body);

}  // namespace sinter::frontend
