#include "codegen/families/attention/attention_step.h"

#include "codegen/families/attention/attention_prologue.h"
#include "codegen/program/loop_lowering.h"

namespace sinter::codegen {

AttentionStep lower_attention_step(const ir::Graph& graph, const ir::Node& node,
                                   std::span<const std::uint32_t> inputs,
                                   std::span<const std::uint32_t> outputs, PlanBuffers& buffers,
                                   ExprTable& exprs) {
  const SizeOf size = [&](std::uint32_t buffer) { return buffers.size(buffer); };
  const ir::Graph& body = *node.body;
  const std::optional<AttentionParts> parts = attention_parts(body);
  AttentionStep step;
  const auto finish = [&] {
    AttentionProgram& program = step.program;
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
    // What is changed in place and nothing has made before is as the run found it.
    bool still = true;
    for (const ScatterRegion& region : scatter_regions(node))
      still = still && inputs[region.data] == outputs[region.result] &&
              graph.producer(node.inputs[region.data]) == nullptr;
    whole->front->still = still;
    step.program = std::move(*whole);
    return finish();
  }
  step.queries = buffers.scratch(body.type(parts->q->outputs[0]));
  const auto reads = [&](const ir::Node& part) {
    return part_reads(body, *parts, part, inputs, outputs, *step.queries);
  };
  const auto add = [&](const ir::Node& part, std::uint32_t result) {
    const std::uint32_t writes[] = {result};
    step.before.push_back(lower_region(*part.body, reads(part), writes, exprs));
    step.work += cost_of(step.before.back(), exprs, size);
  };
  add(*parts->q, *step.queries);
  for (const ir::Node* part : parts->scatters) add(*part, part_writes(body, *part, outputs));
  const std::uint32_t writes[] = {part_writes(body, *parts->attention, outputs)};
  step.program = lower_attention(*parts->attention->body, reads(*parts->attention), writes, exprs);
  return finish();
}

}  // namespace sinter::codegen
