// SPDX-License-Identifier: Apache-2.0
// A region of kind "attention" as a step: one kernel, or its prologue's kernels first.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "codegen/families/attention/attention_program.h"
#include "codegen/plan/plan_buffers.h"
#include "plan_generated.h"

namespace sinter::codegen {

struct AttentionStep {
  AttentionProgram program;
  std::vector<LoopProgramT> before;    // earlier kernels; empty: there is one kernel
  std::vector<std::uint32_t> scratch;  // buffers that these write
  std::string refusal;                 // why they are separate kernels
  StepCost work;
};

/// `graph` contains `node`.
AttentionStep lower_attention_step(const Graph& graph, const Node& node, Buffers inputs,
                                   Buffers outputs, PlanBuffers& buffers, ExprTable& exprs);

/// The step that computes `program`.
plan::fb::AttentionStepT cpu_attention_step(const AttentionProgram& program, ExprTable& exprs);

}  // namespace sinter::codegen
