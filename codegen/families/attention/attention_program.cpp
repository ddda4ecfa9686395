// SPDX-License-Identifier: Apache-2.0
#include "codegen/families/attention/attention_program.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "codegen/program/loop_lowering.h"

namespace sinter::codegen {
namespace {

std::string print_operand(const char* name, const AttentionOperand& operand) {
  std::vector<std::string> batch;
  for (const Dim& stride : operand.batch) batch.push_back(stride.to_string());
  return fmt::format("  {}: {} buffer {} offset {} batch [{}] row {} column {}\n", name,
                     to_string(operand.dtype), operand.buffer, operand.offset.to_string(),
                     fmt::join(batch, ", "), operand.row.to_string(), operand.column.to_string());
}

std::string print_prologue(const AttentionPrologue& front, const ExprTable& exprs) {
  std::string text =
      fmt::format("front: place {} buffer {} offset {}{}\n", to_string(front.slot_type),
                  front.slot_buffer, front.slot_offset.to_string(), front.still ? " still" : "");
  for (const auto& [name, made] :
       {std::pair("q", &front.q), std::pair("k", &front.k), std::pair("v", &front.v)}) {
    std::vector<std::string> batch;
    for (const Dim& stride : made->batch) batch.push_back(stride.to_string());
    text += fmt::format("{}: offset {} batch [{}] row {}\n{}", name, made->offset.to_string(),
                        fmt::join(batch, ", "), made->row.to_string(),
                        print_loop_program(made->program, exprs));
  }
  return text;
}

}  // namespace

std::vector<AttentionOperand*> AttentionProgram::operands() {
  std::vector<AttentionOperand*> all{&q, &k, &v, &y};
  if (mask) all.push_back(&*mask);
  if (limits) all.push_back(&*limits);
  if (bounds) all.push_back(&*bounds);
  if (tables) all.push_back(&*tables);
  if (key_scales) all.insert(all.end(), {&*key_scales, &*value_scales});
  return all;
}

std::vector<const AttentionOperand*> AttentionProgram::operands() const {
  const auto all = const_cast<AttentionProgram*>(this)->operands();
  return {all.begin(), all.end()};
}

std::uint32_t AttentionProgram::number_of(std::uint32_t buffer) {
  const auto at = std::ranges::find(buffers, buffer);
  const auto number = static_cast<std::uint32_t>(at - buffers.begin());
  if (at == buffers.end()) buffers.push_back(buffer);
  return number;
}

void group_rows(AttentionProgram& program) {
  if (!program.tables) return;
  // Of one token and one sequence it is known which rows are whose.
  const bool is_alone = program.rows == Dim(1) && program.sequences == Dim(1);
  if (is_alone) {
    program.bounds.reset();
    program.limits->row = 0;
  }
  for (std::size_t axis = program.batch.size(); axis-- > 0;) {
    const bool shares = program.k.batch[axis] == Dim(0) && program.v.batch[axis] == Dim(0) &&
                        program.limits->batch[axis] == Dim(0);
    if (!shares || !program.batch[axis].is_constant()) continue;
    if (is_alone) {
      program.rows = program.batch[axis];
      program.q.row = program.q.batch[axis];
      program.y.row = program.y.batch[axis];
    } else {
      program.group = program.batch[axis].value();
      program.q_member = program.q.batch[axis];
      program.y_member = program.y.batch[axis];
    }
    program.group_axis = axis;
    program.batch.erase(program.batch.begin() + static_cast<std::ptrdiff_t>(axis));
    for (AttentionOperand* operand : program.operands())
      operand->batch.erase(operand->batch.begin() + static_cast<std::ptrdiff_t>(axis));
    return;
  }
}

std::string print_attention(const AttentionProgram& program, const ExprTable& exprs) {
  std::vector<std::string> batch;
  for (const Dim& extent : program.batch) batch.push_back(extent.to_string());
  std::string text = fmt::format(
      "attention {} batch [{}] rows {} keys {} head {} values {} scale {} fill {} causal {} "
      "guard "
      "{}{}\n",
      to_string(program.dtype), fmt::join(batch, ", "), program.rows.to_string(),
      program.keys.to_string(), program.head, program.value_head, program.scale, program.fill,
      program.causal, program.guard, program.cached ? " cached" : "");
  if (!program.front) text += print_operand("q", program.q);
  text += print_operand("k", program.k) + print_operand("v", program.v);
  if (program.key_scales)
    text += print_operand("key scales", *program.key_scales) +
            print_operand("value scales", *program.value_scales);
  if (program.eight_bit)
    text += fmt::format("  eight bits, values times {}{}\n", program.value_scale,
                        program.promoted ? " promoted" : "");
  if (program.mask) text += print_operand("mask", *program.mask);
  if (program.limits) text += print_operand("limits", *program.limits);
  if (program.bounds)
    text += print_operand("bounds", *program.bounds) + fmt::format("  sequences {} of up to {}\n",
                                                                   program.sequences.to_string(),
                                                                   program.longest.to_string());
  if (program.tables)
    text += print_operand("tables", *program.tables) +
            fmt::format("  {} blocks of {}, window {}, group {} q {} y {}\n",
                        program.table_blocks.to_string(), program.block, program.window,
                        program.group, program.q_member.to_string(), program.y_member.to_string());
  if (program.taken != PagedSequences::kAll)
    text += program.taken == PagedSequences::kShort ? "  short sequences\n" : "  long sequences\n";
  text += print_operand("y", program.y);
  if (program.scores) {
    std::vector<std::string> numbers;
    for (const std::uint32_t buffer : program.scores->buffers)
      numbers.push_back(
          std::to_string(std::ranges::find(program.buffers, buffer) - program.buffers.begin()));
    text += fmt::format("  scores from buffers [{}], group {}\n{}", fmt::join(numbers, ", "),
                        program.group_axis ? std::to_string(*program.group_axis) : "none",
                        print_loop_program(*program.scores, exprs));
  }
  if (program.rounding)
    text += fmt::format("  rounded, scale {} zero {}\n", program.rounding->scale,
                        program.rounding->zero);
  return program.front ? text + print_prologue(*program.front, exprs) : text;
}

StepCost cost_of(const AttentionProgram& program, const ExprTable& exprs, const SizeOf& size) {
  const auto bytes = [&](const AttentionOperand& operand, const Dim& rows, const Dim& columns) {
    Dim count = rows * columns;
    for (std::size_t axis = 0; axis < program.batch.size(); ++axis)
      if (operand.batch[axis] != Dim(0)) count *= program.batch[axis];
    const BufferSize whole = size(program.buffers[operand.buffer]);
    return ir::min(count * Dim(static_cast<std::int64_t>(size_of(operand.dtype))), whole.bytes,
                   exprs.ranges());
  };
  const Dim head(program.head), value_head(program.value_head);
  StepCost work;
  // For a paged cache only the capacity of the tables is known.
  const Dim keys =
      program.tables
          ? ir::min(program.keys, program.sequences * program.table_blocks * Dim(program.block),
                    exprs.ranges())
          : program.keys;
  work.bytes_read = bytes(program.k, keys, head) + bytes(program.v, keys, value_head);
  if (!program.front) work.bytes_read += bytes(program.q, program.rows, head);
  if (program.key_scales)
    work.bytes_read += bytes(*program.key_scales, keys, 1) + bytes(*program.value_scales, keys, 1);
  if (program.mask)
    work.bytes_read += bytes(*program.mask, program.mask->row == Dim(0) ? Dim(1) : program.rows,
                             program.mask->column == Dim(0) ? Dim(1) : program.keys);
  if (program.limits)
    work.bytes_read =
        work.bytes_read +
        bytes(*program.limits, program.limits->row == Dim(0) ? Dim(1) : program.rows, 1);
  if (program.bounds)
    work.bytes_read = work.bytes_read + bytes(*program.bounds, 1, program.sequences + Dim(1));
  if (program.tables)
    work.bytes_read =
        work.bytes_read + bytes(*program.tables, program.sequences, program.table_blocks);
  if (program.scores)
    for (const std::uint32_t buffer : program.scores->buffers)
      if (!plan::is_of_scores(buffer)) work.bytes_read += size(buffer).bytes;
  work.bytes_written = bytes(program.y, program.rows, value_head);
  // For packed sequences only the maximum length is known.
  const Dim seen = program.tables   ? program.table_blocks * Dim(program.block)
                   : program.bounds ? ir::min(program.keys, program.longest, exprs.ranges())
                                    : program.keys;
  work.flops = Dim(program.causal != 0 ? 1 : 2) * program.rows * seen * (head + value_head) *
               ir::element_count(program.batch);
  work.arithmetic = gemm_arithmetic(program.eight_bit ? program.q.dtype : program.dtype,
                                    plan::fb::MathMode::Default);
  if (!program.front) return work;
  const SizeOf of_buffer = [&](std::uint32_t buffer) {
    return buffer == kPrologueValue ? BufferSize{Dim(0), 1} : size(program.buffers[buffer]);
  };
  for (const PrologueOperand* made : {&program.front->q, &program.front->k, &program.front->v}) {
    const StepCost own = cost_of(made->program, exprs, of_buffer);
    work.bytes_read += own.bytes_read;
    work.flops += own.flops;
  }
  work.bytes_written += bytes(program.k, 1, head) + bytes(program.v, 1, value_head);
  if (program.key_scales)
    work.bytes_written += bytes(*program.key_scales, 1, 1) + bytes(*program.value_scales, 1, 1);
  return work;
}

}  // namespace sinter::codegen
