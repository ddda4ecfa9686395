// The plan's buffers: which memory every value of the graph lives in.
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

/// A Scatter of a region, or of a horizontal region's: the node's input that it changes, and the
/// output that this gives.
struct ScatterRegion {
  std::size_t data = 0, result = 0;
  TensorType updates;       // what is stored
  bool reads_once = false;  // nothing else in the node reads that input
};
std::vector<ScatterRegion> scatter_regions(const Node& node);

/// Assigns buffers: inputs first, then outputs, then weights and arena buffers as they are met. A
/// top-level Reshape is the buffer of its operand. A value that is an output lives in the output's
/// buffer; equal constants share one. What a Scatter changes and nothing reads any more lives in
/// the result's buffer from the start. Both ends of a state have one buffer: a Scatter changes it
/// there, any other new value is copied there after all steps.
///
/// Graphs of several entry points have bindings and weights in common: begin() starts with the
/// next.
class PlanBuffers {
 public:
  /// Throws Error(kUnsupported) for an input with a dimension that is neither a constant nor a
  /// symbol. `bindings`: a graph with the same inputs and outputs, whose shapes are the plan's.
  PlanBuffers(const Graph& graph, ExprTable& exprs, const Graph& bindings);
  PlanBuffers(const Graph& graph, ExprTable& exprs) : PlanBuffers(graph, exprs, graph) {}

  /// Values are those of `graph` from now on. Throws Error(kInternal) if its inputs, outputs or
  /// states are not those of the first.
  void begin(const Graph& graph);

  struct Copy {
    std::uint32_t source = 0, target = 0;
    std::size_t output = 0;
  };
  /// The buffers of a loop. A state lies in the buffer of the loop's result from the start:
  /// `initial` says what has to be copied there before the loop.
  struct Loop {
    std::uint32_t counter = 0;
    std::uint32_t first_state = 0;  // what the first state begins with
    std::vector<std::uint32_t> states;
    std::vector<std::uint32_t> captured;
    std::vector<Copy> initial;
  };
  /// Values are those of the body of `loop`, a While of the graph at hand, until end_body.
  Loop begin_body(const Node& loop);
  /// What is copied behind each iteration: new values of states that are not made in their place.
  std::vector<Copy> end_body();

  /// The buffer of `value`; makes it on first use.
  std::uint32_t of(ValueId value);
  /// A new arena buffer that no value of the graph has, for what passes within a step.
  std::uint32_t scratch(const TensorType& type) {
    return add(plan::fb::BufferKind::Arena, type, 0);
  }
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
  /// True for memory that a run finds as the one before, or the caller, left it.
  bool is_found(std::uint32_t buffer) const {
    const plan::fb::BufferKind kind = buffers_[buffer].kind;
    return kind == plan::fb::BufferKind::Input || kind == plan::fb::BufferKind::State;
  }

  /// The contents of a weight buffer; null for any other.
  std::shared_ptr<const Tensor> constant_of(std::uint32_t buffer) const;
  /// The weight buffer of a tensor that no value of the graph has; equal ones share a buffer.
  std::uint32_t constant(const std::shared_ptr<const Tensor>& tensor) { return weight(tensor); }

  /// A weight buffer of its own for what is made of another weight: looking for an equal one would
  /// make it before it is written.
  std::uint32_t made_constant(const std::shared_ptr<const Tensor>& tensor) {
    const std::uint32_t buffer = add(plan::fb::BufferKind::Weight, tensor->type(), 0);
    weights_.emplace(buffer, tensor);
    return buffer;
  }

  /// What is copied after all steps, in this order: outputs that are another output, an input or a
  /// constant, and new values of states.
  std::vector<Copy> copies();
  /// Empty if state `state`'s new value is made in its buffer, else why it is copied there.
  std::string why_copied(const ir::State& state);

  /// Step `step` reads or writes `buffer`: extends its lifetime. A weight that no step reads takes
  /// no room in the plan.
  void use(std::uint32_t buffer, std::uint32_t step);
  /// Moves everything into the plan.
  void write(plan::PlanParts& parts);
  /// After write(): the weights that are made of the model's constants, by their offsets.
  std::vector<std::pair<std::uint64_t, std::shared_ptr<const Tensor>>> take_traced() {
    return std::move(traced_);
  }

 private:
  std::uint32_t add(plan::fb::BufferKind kind, const TensorType& type, std::uint32_t binding);
  std::uint32_t weight(const std::shared_ptr<const Tensor>& constant);
  ValueId root(ValueId value) const;
  void place_weights(plan::PlanParts& parts);
  void share_changed();
  void share_new_states();
  void share_extents();
  /// The last node that uses the memory of `value`, which others may change in its place.
  std::optional<std::size_t> last_use(ValueId value) const;
  bool can_replace(ir::ValueId before, ir::ValueId after, ir::NodeId producer) const;
  bool is_state(ir::ValueId input) const;
  std::unique_ptr<plan::fb::BindingT> binding(const std::string& name, const ir::TensorType& type,
                                              std::uint32_t buffer);

  /// What belongs to one graph: the model's, or a loop's body.
  struct Scope {
    const ir::Graph* graph = nullptr;
    std::vector<std::uint32_t> states;              // of a body: their buffers
    std::map<ir::ValueId, std::uint32_t> by_value;  // roots only
    std::map<ir::ValueId, ir::ValueId> in_place;  // what is changed -> what it becomes, both roots
    std::map<ir::ValueId, std::string> not_in_place;  // why not
    std::map<ir::ValueId, std::size_t> last;          // the last node that reads each root
  };

  Scope scope_;
  std::vector<Scope> outer_;  // of the graphs around the body at hand, outermost first
  ExprTable& exprs_;
  std::vector<plan::fb::BufferT> buffers_;
  std::vector<Dim> bytes_;
  std::vector<bool> used_;
  std::multimap<std::uint64_t, std::pair<std::shared_ptr<const Tensor>, std::uint32_t>>
      weights_by_hash_;
  std::map<std::uint32_t, std::shared_ptr<const Tensor>> weights_;  // by buffer
  std::map<int, std::uint32_t> state_of_output_;                    // the buffer, by output
  std::uint32_t extents_ = 0;                                       // buffers of sizes
  std::vector<std::pair<std::uint64_t, std::shared_ptr<const Tensor>>> traced_;
  std::vector<std::unique_ptr<plan::fb::BindingT>> inputs_, outputs_;
};

}  // namespace sinter::codegen
