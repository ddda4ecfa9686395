// SPDX-License-Identifier: Apache-2.0
#include "codegen/families/attention/attention_step.h"

#include <memory>

#include <sinter/error.h>

#include "codegen/families/attention/attention_lowering.h"
#include "codegen/families/attention/prologue/attention_prologue.h"
#include "codegen/program/loop_lowering.h"

namespace sinter::codegen {

AttentionStep lower_attention_step(const Graph& graph, const Node& node, Buffers inputs,
                                   Buffers outputs, PlanBuffers& buffers, ExprTable& exprs) {
  const SizeOf size = [&](std::uint32_t buffer) { return buffers.size(buffer); };
  const Graph& body = *node.body;
  const std::optional<AttentionParts> parts = attention_parts(body);
  AttentionStep step;
  const auto finish = [&] {
    AttentionProgram& program = step.program;
    group_rows(program);
    program.cached = buffers.is_found(program.buffers[program.k.buffer]) &&
                     buffers.is_found(program.buffers[program.v.buffer]);
    const StepCost own = cost_of(program, exprs, size);
    step.work += own;
    step.work.arithmetic = own.arithmetic;
    return std::move(step);
  };
  if (!parts) {
    step.program = lower_attention(body, inputs, outputs, exprs);
    return finish();
  }
  if (auto whole = lower_with_prologue(body, *parts, inputs, outputs, exprs, step.refusal)) {
    // A value updated in place that no step has computed is as the run found it.
    bool still = true;
    for (const ScatterRegion& region : scatter_regions(node))
      still = still && inputs[region.data] == outputs[region.result] &&
              graph.producer(node.inputs[region.data]) == nullptr;
    whole->front->still = still;
    step.program = std::move(*whole);
    return finish();
  }
  const std::uint32_t queries = buffers.scratch(body.type(parts->q->outputs[0]));
  step.scratch.push_back(queries);
  const auto reads = [&](const Node& part) {
    return part_reads(body, *parts, part, inputs, outputs, queries);
  };
  const auto add = [&](const Node& part, const std::vector<std::uint32_t>& writes) {
    step.before.push_back(lower_region(*part.body, reads(part), writes, exprs));
    step.work += cost_of(step.before.back(), exprs, size);
  };
  add(*parts->q, {queries});
  for (const Node* part : parts->scatters) add(*part, part_writes(body, *part, outputs));
  step.program = lower_attention(*parts->attention->body, reads(*parts->attention),
                                 part_writes(body, *parts->attention, outputs), exprs);
  return finish();
}

plan::fb::AttentionStepT cpu_attention_step(const AttentionProgram& program, ExprTable& exprs) {
  const auto matrix = [&](const AttentionOperand& operand) {
    auto result = std::make_unique<plan::fb::MatrixT>();
    result->buffer = program.buffers[operand.buffer];
    result->dtype = static_cast<std::uint8_t>(operand.dtype);
    result->offset = exprs.intern(operand.offset);
    result->row_stride = exprs.intern(operand.row);
    result->col_stride = exprs.intern(operand.column);
    for (const Dim& stride : operand.batch) result->batch_strides.push_back(exprs.intern(stride));
    return result;
  };
  plan::fb::AttentionStepT step;
  step.rows = exprs.intern(program.rows);
  step.keys = exprs.intern(program.keys);
  for (const Dim& extent : program.batch) step.batch.push_back(exprs.intern(extent));
  step.head = static_cast<std::uint64_t>(program.head);
  step.value_head = static_cast<std::uint64_t>(program.value_head);
  step.q = matrix(program.q);
  step.k = matrix(program.k);
  step.v = matrix(program.v);
  step.y = matrix(program.y);
  if (program.mask) step.mask = matrix(*program.mask);
  if (program.limits) step.limits = matrix(*program.limits);
  if (program.key_scales) {
    step.key_scales = matrix(*program.key_scales);
    step.value_scales = matrix(*program.value_scales);
  }
  if (program.bounds) {
    step.bounds = matrix(*program.bounds);
    step.sequences = exprs.intern(program.sequences);
    step.longest = exprs.intern(program.longest);
  }
  if (program.tables) {
    step.tables = matrix(*program.tables);
    step.table_blocks = exprs.intern(program.table_blocks);
    step.block = static_cast<std::uint32_t>(program.block);
    step.window = static_cast<std::uint64_t>(program.window);
  }
  step.scale = static_cast<float>(program.scale);
  if (program.scores) step.scores = std::make_unique<LoopProgramT>(*program.scores);
  step.fill = static_cast<float>(program.fill);
  step.causal = static_cast<std::uint8_t>(program.causal);
  step.guard = static_cast<std::uint8_t>(program.guard);
  if (program.rounding)
    throw Error(ErrorCode::kInternal, "the runtime's attention does not round its result");
  return step;
}

}  // namespace sinter::codegen
