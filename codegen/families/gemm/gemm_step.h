// The ways to do a region of kind "gemm" or "conv".
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "codegen/families/gemm/gemm_graph.h"
#include "codegen/families/gemm/gemm_lowering.h"
#include "codegen/families/gemm/weights/unpacked_weights.h"
#include "codegen/plan/compile_options.h"
#include "codegen/plan/cost.h"
#include "codegen/plan/plan_buffers.h"

namespace sinter::codegen {

/// True if the product of a region of kind "matmul" has quantized weights; operands of 8 bits,
/// whose sums are its result.
bool multiplies_quantized(const Node& node);
bool multiplies_eight_bits(const Node& node);

/// A product or a convolution and what follows it, maybe with what makes its left operand's rows,
/// over buffers: the library's call, the others as programs of their own, all as one kernel.
class GemmStep {
 public:
  /// `node`: of kind "gemm" or "conv". `inputs` and `outputs`: buffers of the node's. Makes a
  /// scratch buffer for the product's result unless that is an output.
  GemmStep(const Node& node, std::vector<std::uint32_t> inputs, std::vector<std::uint32_t> outputs,
           PlanBuffers& buffers, ExprTable& exprs, const CompileOptions& options);

  /// The buffer that the matmul's result lies in if another part reads it.
  std::uint32_t between() const { return between_; }
  bool is_scratch() const { return is_scratch_; }
  bool is_conv() const { return nodes_.is_conv; }
  /// What makes the left operand's rows, if that is a part of the step, and the scratch buffer that
  /// they then lie in.
  const std::optional<LoopProgramT>& rows() const { return rows_; }
  std::optional<std::uint32_t> prologue_rows() const { return prologue_rows_; }
  bool is_quantized() const;
  /// Of both operands.
  bool is_eight_bit() const { return size_of(left_type_) == 1 && !is_quantized(); }
  DType left_type() const { return left_type_; }  // of the product's left operand
  /// The buffers of a product's weights, their scales and zero points if there are any.
  std::vector<std::uint32_t> weights() const;
  /// Why no library does the product; empty if one does, where these conditions hold.
  const std::string& library_refusal() const { return library_refusal_; }
  const std::vector<Condition>& library_conditions() const { return library_conditions_; }
  /// Makes `work` the library's product; `unpacking`: of weights that are unpacked first.
  void set_library(plan::fb::WorkUnion& work, const UnpackProgram* unpacking = nullptr) const;
  /// What follows the library's product; nothing if it does all.
  const std::optional<LoopProgramT>& rest() const { return rest_; }
  /// True if what follows reduces rows.
  bool reduces() const;
  /// One kernel for all, or without what follows the matmul, or without what makes its rows.
  std::optional<GemmProgram> kernel(bool with_epilogue, bool with_prologue,
                                    std::string& refusal) const;
  /// The product as loops, with all or alone; nothing if all is more than one kernel can do.
  std::optional<LoopProgramT> loops(bool with_epilogue) const;
  /// Traffic without what passes within the step.
  StepCost work() const;

 private:
  std::uint32_t input_buffer(ValueId value) const;
  void lower_conv_library(Buffers reads, bool tf32);
  void lower_eight_bit_library(Buffers reads, bool fast_accumulation);

  std::shared_ptr<const Graph> body_;
  GemmBody nodes_;
  std::vector<std::uint32_t> inputs_, outputs_;
  PlanBuffers& buffers_;
  ExprTable& exprs_;
  std::uint32_t between_ = 0;
  bool is_scratch_ = false;
  std::variant<plan::fb::MatmulStepT, plan::fb::ConvStepT> library_;
  std::string library_refusal_;
  std::vector<Condition> library_conditions_;
  DType left_type_;
  std::optional<LoopProgramT> rows_, rest_;
  std::optional<std::uint32_t> prologue_rows_;
};

}  // namespace sinter::codegen
