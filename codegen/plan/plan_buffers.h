// SPDX-License-Identifier: Apache-2.0
// The plan's buffers: which memory holds each value of the graph.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "codegen/plan/cost.h"
#include "codegen/plan/expr_table.h"
#include "codegen/program/describe.h"
#include "runtime/plan/plan_data.h"

namespace sinter::codegen {

/// A Scatter in a region, or in a part of a horizontal region: the node's input that it updates and
/// the output with the result.
struct ScatterRegion {
  std::size_t data = 0, result = 0;
  TensorType updates;       // what is stored
  bool reads_once = false;  // nothing else in the node reads that input
};
std::vector<ScatterRegion> scatter_regions(const Node& node);

/// Assigns buffers: inputs first, then outputs, then weights and arena buffers at first use. A
/// top-level Reshape shares its operand's buffer. A value that is an output uses the output's
/// buffer; equal constants share one. A Scatter's data without later readers uses the result's
/// buffer from the start. A state's input and output share one buffer: a Scatter updates it in
/// place, other new values are copied to it after all steps.
///
/// Graphs of several entry points share bindings and weights: begin() starts the next one.
class PlanBuffers {
 public:
  /// Throws Error(kUnsupported) if an input's dimension is neither constant nor a symbol.
  /// `bindings` is a graph with the same inputs and outputs, whose shapes the plan declares.
  PlanBuffers(const Graph& graph, ExprTable& exprs, const Graph& bindings);
  PlanBuffers(const Graph& graph, ExprTable& exprs) : PlanBuffers(graph, exprs, graph) {}

  /// Values belong to `graph` from now on. Throws Error(kInternal) if its inputs, outputs or states
  /// differ from the first graph's.
  void begin(const Graph& graph);

  struct Copy {
    std::uint32_t source = 0, target = 0;
    std::size_t output = 0;
  };
  /// The buffers of a loop. A state uses the buffer of the loop's result from the start; `initial`
  /// lists the copies to make before the loop.
  struct Loop {
    std::uint32_t counter = 0;
    std::uint32_t first_state = 0;  // initial value of the first state
    std::vector<std::uint32_t> states;
    std::vector<std::uint32_t> captured;
    std::vector<Copy> initial;
  };
  /// Until end_body(), values belong to the body of `loop`, a While of the current graph.
  Loop begin_body(const Node& loop);
  /// Copies after each iteration: new values of states that are not computed in place.
  std::vector<Copy> end_body();

  /// The buffer of `value`; created on first use.
  std::uint32_t of(ValueId value);
  /// A new arena buffer that belongs to no value, for use within a step.
  std::uint32_t scratch(const TensorType& type) {
    return add(plan::fb::BufferKind::Arena, type, 0);
  }
  /// The buffer through which ranks on GPUs meet; created on first use.
  std::uint32_t peers();
  BufferSize size(std::uint32_t buffer) const;
  DType type(std::uint32_t buffer) const;
  bool is_weight(std::uint32_t buffer) const {
    return buffers_[buffer].kind == plan::fb::BufferKind::Weight;
  }
  /// True for memory that no step writes.
  bool is_given(std::uint32_t buffer) const {
    const plan::fb::BufferKind kind = buffers_[buffer].kind;
    return kind == plan::fb::BufferKind::Input || kind == plan::fb::BufferKind::Weight;
  }
  /// True for memory that the caller or the previous run has set.
  bool is_found(std::uint32_t buffer) const {
    const plan::fb::BufferKind kind = buffers_[buffer].kind;
    return kind == plan::fb::BufferKind::Input || kind == plan::fb::BufferKind::State;
  }

  /// The contents of a weight buffer; null for any other.
  std::shared_ptr<const Tensor> constant_of(std::uint32_t buffer) const;
  /// The weight buffer of a tensor that is no value of the graph; equal ones share a buffer.
  std::uint32_t constant(const std::shared_ptr<const Tensor>& tensor) { return weight(tensor); }

  /// A weight buffer for a tensor derived from another weight. Not deduplicated: a comparison would
  /// compute it too early.
  std::uint32_t made_constant(const std::shared_ptr<const Tensor>& tensor) {
    const std::uint32_t buffer = add(plan::fb::BufferKind::Weight, tensor->type(), 0);
    weights_.emplace(buffer, tensor);
    return buffer;
  }

  /// Copies to make after all steps, in this order: outputs that are another output, an input or a
  /// constant, then new values of states.
  std::vector<Copy> copies();
  /// Why the state's new value is copied; empty if it is computed in place.
  std::string why_copied(const ir::State& state);

  /// Step `step` accesses `buffer`: extends its lifetime. The plan omits weights that no step
  /// reads.
  void use(std::uint32_t buffer, std::uint32_t step);
  /// Moves everything into the plan, with the weights of all ranks.
  void write(plan::PlanParts& parts, std::int64_t ranks);
  /// After write(): weights derived from the model's constants, by their offsets.
  std::vector<std::pair<std::uint64_t, std::shared_ptr<const Tensor>>> take_traced() {
    return std::move(traced_);
  }

 private:
  std::uint32_t add(plan::fb::BufferKind kind, const TensorType& type, std::uint32_t binding);
  std::uint32_t weight(const std::shared_ptr<const Tensor>& constant);
  ValueId root(ValueId value) const;
  void place_weights(plan::PlanParts& parts, std::int64_t ranks);
  void share_changed();
  void share_new_states();
  void share_extents();
  /// The last node that uses the memory of `value`, including in-place updates.
  std::optional<std::size_t> last_use(ValueId value) const;
  bool can_replace(ir::ValueId before, ir::ValueId after, ir::NodeId producer) const;
  bool is_state(ir::ValueId input) const;
  std::unique_ptr<plan::fb::BindingT> binding(const std::string& name, const ir::TensorType& type,
                                              std::uint32_t buffer);

  /// The state of one graph: the model's, or a loop's body.
  struct Scope {
    const ir::Graph* graph = nullptr;
    std::vector<std::uint32_t> states;                // of a body: their buffers
    std::map<ir::ValueId, std::uint32_t> by_value;    // roots only
    std::map<ir::ValueId, ir::ValueId> in_place;      // updated value -> new value, both roots
    std::map<ir::ValueId, std::string> not_in_place;  // why not
    std::map<ir::ValueId, std::size_t> last;          // the last node that reads each root
  };

  Scope scope_;
  std::vector<Scope> outer_;  // of the graphs around the current body, outermost first
  ExprTable& exprs_;
  std::vector<plan::fb::BufferT> buffers_;
  std::vector<Dim> bytes_;
  std::vector<bool> used_;
  std::multimap<std::uint64_t, std::pair<std::shared_ptr<const Tensor>, std::uint32_t>>
      weights_by_hash_;
  std::map<std::uint32_t, std::shared_ptr<const Tensor>> weights_;  // by buffer
  std::map<int, std::uint32_t> state_of_output_;                    // buffer, by output
  std::optional<std::uint32_t> peers_;
  std::uint32_t extents_ = 0;  // buffers of sizes
  std::vector<std::pair<std::uint64_t, std::shared_ptr<const Tensor>>> traced_;
  std::vector<std::unique_ptr<plan::fb::BindingT>> inputs_, outputs_;
};

}  // namespace sinter::codegen
