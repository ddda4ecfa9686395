// The ways to do a region of family "product".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "codegen/lowering/product_lowering.h"
#include "codegen/plan_buffers.h"
#include "codegen/work.h"

namespace sinter::codegen {

/// A product region over buffers: the library's product, what follows it as a program of its own,
/// and both as one kernel.
class ProductStep {
 public:
  /// `inputs` and `outputs`: buffers of the node's. Makes a scratch buffer for the product's result
  /// unless that is an output.
  ProductStep(const ir::Node& node, std::vector<std::uint32_t> inputs,
              std::vector<std::uint32_t> outputs, PlanBuffers& buffers, ExprTable& exprs,
              bool tf32);

  /// The buffer that the matmul's result lies in if another part reads it.
  std::uint32_t between() const { return between_; }
  bool is_scratch() const { return is_scratch_; }
  const plan::fb::MatmulStepT& library() const { return library_; }
  /// What follows the library's product; nothing if it does all.
  const std::optional<plan::fb::LoopProgramT>& rest() const { return rest_; }
  /// True if what follows reduces rows.
  bool reduces() const;
  /// One kernel for all, or for the matmul alone.
  std::optional<ProductProgram> kernel(bool with_rest, std::string& refusal) const;
  /// Traffic without what passes within the step.
  StepWork work() const;

 private:
  const ir::Graph& body_;
  ProductBody nodes_;
  std::vector<std::uint32_t> inputs_, outputs_;
  PlanBuffers& buffers_;
  ExprTable& exprs_;
  std::uint32_t between_ = 0;
  bool is_scratch_ = false;
  plan::fb::MatmulStepT library_;
  std::optional<plan::fb::LoopProgramT> rest_;
};

}  // namespace sinter::codegen
