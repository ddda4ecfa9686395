// A region of kind "attention" as a step: one kernel, or what is in front of it first.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "codegen/families/attention/attention_lowering.h"
#include "codegen/plan/plan_buffers.h"

namespace sinter::codegen {

struct AttentionStep {
  AttentionProgram program;
  std::vector<plan::fb::LoopProgramT> before;  // kernels before it; empty: it is all
  std::optional<std::uint32_t> queries;        // scratch memory that these write
  std::string refusal;                         // why they are kernels of their own
  StepCost work;
};

/// `graph`: which `node` is of.
AttentionStep lower_attention_step(const ir::Graph& graph, const ir::Node& node,
                                   std::span<const std::uint32_t> inputs,
                                   std::span<const std::uint32_t> outputs, PlanBuffers& buffers,
                                   ExprTable& exprs);

}  // namespace sinter::codegen
