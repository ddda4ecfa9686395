// The plan's buffers: which memory every value of the graph lives in.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "codegen/lowering/expr_table.h"
#include "codegen/work.h"
#include "ir/graph.h"
#include "runtime/plan/plan_data.h"

namespace sinter::codegen {

/// Assigns buffers: inputs first, then outputs, then weights and arena buffers as they are met. A
/// top-level Reshape is the buffer of its operand. A value that is an output lives in the output's
/// buffer; equal constants share one. What a Scatter changes and nothing reads any more lives in
/// the result's buffer from the start.
class PlanBuffers {
 public:
  /// Throws Error(kUnsupported) for an input with a dimension that is neither a constant nor a
  /// symbol.
  PlanBuffers(const ir::Graph& graph, ExprTable& exprs);

  /// The buffer of `value`; makes it on first use.
  std::uint32_t of(ir::ValueId value);
  /// A new arena buffer that no value of the graph has, for what passes within a step.
  std::uint32_t scratch(const ir::TensorType& type) {
    return add(plan::fb::BufferKind::Arena, type, 0);
  }
  BufferSize size(std::uint32_t buffer) const;
  DType type(std::uint32_t buffer) const;
  bool is_weight(std::uint32_t buffer) const {
    return buffers_[buffer].kind == plan::fb::BufferKind::Weight;
  }

  /// An output that is another output, an input or a constant: copied after all steps.
  struct Copy {
    std::uint32_t source = 0, target = 0;
    std::size_t output = 0;
  };
  std::vector<Copy> copies();

  /// Step `step` reads or writes `buffer`: extends its lifetime.
  void use(std::uint32_t buffer, std::uint32_t step);
  /// Moves everything into the plan.
  void write(plan::PlanParts& parts);

 private:
  std::uint32_t add(plan::fb::BufferKind kind, const ir::TensorType& type, std::uint32_t binding);
  std::uint32_t weight(const std::shared_ptr<const ir::Tensor>& constant);
  ir::ValueId root(ir::ValueId value) const;
  void share_scattered();
  std::unique_ptr<plan::fb::BindingT> binding(const std::string& name, const ir::TensorType& type,
                                              std::uint32_t buffer);

  const ir::Graph& graph_;
  ExprTable& exprs_;
  std::vector<plan::fb::BufferT> buffers_;
  std::vector<ir::Dim> bytes_;
  std::vector<bool> used_;
  std::map<ir::ValueId, std::uint32_t> by_value_;  // roots only
  std::map<ir::ValueId, ir::ValueId> in_place_;    // data of a Scatter -> its result, both roots
  std::multimap<std::uint64_t, std::pair<std::shared_ptr<const ir::Tensor>, std::uint32_t>>
      weights_by_hash_;
  std::vector<plan::PlanParts::Piece> pieces_;
  std::uint64_t weight_bytes_ = 0;
  std::vector<std::unique_ptr<plan::fb::BindingT>> inputs_, outputs_;
};

}  // namespace sinter::codegen
