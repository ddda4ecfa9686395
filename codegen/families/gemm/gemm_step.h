// SPDX-License-Identifier: Apache-2.0
// The tactics of a region of kind "gemm" or "conv".
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

/// True if the GEMM of a region of kind "matmul" has quantized weights. True if its operands have 8
/// bits and its result is the accumulators' type.
bool multiplies_quantized(const Node& node);
bool multiplies_eight_bits(const Node& node);

/// A GEMM or convolution with its epilogue, and maybe a prologue, over buffers. Offers the
/// library's call with the other parts as separate programs, and all as one kernel.
class GemmStep {
 public:
  /// `node` is of kind "gemm" or "conv"; `inputs` and `outputs` are its buffers. Allocates a
  /// scratch buffer for the GEMM's result unless that is an output.
  GemmStep(const Node& node, std::vector<std::uint32_t> inputs, std::vector<std::uint32_t> outputs,
           PlanBuffers& buffers, ExprTable& exprs, const CompileOptions& options);

  /// The buffer of the matmul's result, for other parts that read it.
  std::uint32_t between() const { return between_; }
  bool is_scratch() const { return is_scratch_; }
  bool is_conv() const { return nodes_.is_conv; }
  /// The prologue that computes the left operand's rows, if any, and the scratch buffer for its
  /// result.
  const std::optional<LoopProgramT>& prologue() const { return prologue_; }
  std::optional<std::uint32_t> prologue_rows() const { return prologue_rows_; }
  bool is_quantized() const;
  /// Whether its rows are multiplied by groups, which no library does.
  bool is_grouped() const;
  /// Whether both operands have 8 bits.
  bool is_eight_bit() const { return size_of(left_type_) == 1 && !is_quantized(); }
  DType left_type() const { return left_type_; }  // of the GEMM
  /// The buffers of a GEMM's weights, and of their scales and zero points.
  std::vector<std::uint32_t> weights() const;
  /// Why no library implements the GEMM; empty if one does under library_conditions().
  const std::string& library_refusal() const { return library_refusal_; }
  const std::vector<Condition>& library_conditions() const { return library_conditions_; }
  /// Sets `work` to the library's GEMM; `unpacking`: its weights are unpacked first.
  void set_library(plan::fb::WorkUnion& work, const UnpackProgram* unpacking = nullptr) const;
  /// The epilogue as a separate program; nothing if the library's call includes it all.
  const std::optional<LoopProgramT>& epilogue() const { return epilogue_; }
  /// True if the epilogue reduces rows.
  bool reduces() const;
  /// One kernel for everything, or without the epilogue, or without the prologue.
  std::optional<GemmProgram> kernel(bool with_epilogue, bool with_prologue,
                                    std::string& refusal) const;
  /// The GEMM as loops, with or without the epilogue; nothing if that needs several kernels.
  std::optional<LoopProgramT> loops(bool with_epilogue) const;
  /// Traffic, without intermediate values of the step.
  StepCost work() const;
  /// Rows that choose groups evenly, and gathered rows that are all different.
  std::vector<plan::fb::IndexSample> index_samples() const;

 private:
  std::uint32_t input_buffer(ValueId value) const;
  void lower_groups(Buffers reads);
  StepCost work_of_groups() const;
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
  std::optional<LoopProgramT> prologue_, epilogue_;
  std::optional<std::uint32_t> prologue_rows_;
};

}  // namespace sinter::codegen
