#include "codegen/families/attention/cpu_attention.h"

#include <memory>

namespace sinter::codegen {

plan::fb::AttentionStepT cpu_attention_step(const AttentionProgram& program, ExprTable& exprs) {
  const auto matrix = [&](const AttentionOperand& operand) {
    auto result = std::make_unique<plan::fb::MatrixT>();
    result->buffer = program.buffers[operand.buffer];
    result->dtype = static_cast<std::uint8_t>(operand.dtype);
    result->offset = exprs.intern(operand.offset);
    result->row_stride = exprs.intern(operand.row);
    result->col_stride = exprs.intern(operand.column);
    for (const ir::Dim& stride : operand.batch)
      result->batch_strides.push_back(exprs.intern(stride));
    return result;
  };
  plan::fb::AttentionStepT step;
  step.rows = exprs.intern(program.rows);
  step.keys = exprs.intern(program.keys);
  for (const ir::Dim& extent : program.batch) step.batch.push_back(exprs.intern(extent));
  step.head = static_cast<std::uint64_t>(program.head);
  step.value_head = static_cast<std::uint64_t>(program.value_head);
  step.q = matrix(program.q);
  step.k = matrix(program.k);
  step.v = matrix(program.v);
  step.y = matrix(program.y);
  if (program.mask) step.mask = matrix(*program.mask);
  if (program.limits) step.limits = matrix(*program.limits);
  step.scale = static_cast<float>(program.scale);
  step.fill = static_cast<float>(program.fill);
  step.causal = static_cast<std::uint8_t>(program.causal);
  step.guard = static_cast<std::uint8_t>(program.guard);
  return step;
}

}  // namespace sinter::codegen
