// SPDX-License-Identifier: Apache-2.0
#include "runtime/plan/extents.h"

#include <algorithm>

#include "runtime/format_error.h"
#include "runtime/plan/expressions.h"
#include "runtime/plan/step_visitor.h"

namespace sinter::plan {
namespace {

using Visit = std::function<void(std::uint32_t expression)>;

void visit_all(const std::vector<std::uint32_t>& expressions, const Visit& visit) {
  for (const std::uint32_t expression : expressions) visit(expression);
}

void visit_conditions(const std::vector<fb::Condition>& conditions, const Visit& visit) {
  for (const fb::Condition& condition : conditions) visit(condition.expression());
}

void visit_program(const fb::LoopProgramT& program, const Visit& visit) {
  visit_all(program.extents, visit);
  for (const auto& access : program.accesses) {
    visit(access->offset);
    visit_all(access->strides, visit);
    for (const fb::Gather& gather : access->gathers) {
      visit(gather.extent());
      visit(gather.stride());
    }
    for (const fb::Guard& guard : access->guards) visit(guard.extent());
  }
  for (const fb::IndexNode& node : program.index_nodes)
    if (node.op() == fb::ExprOp::Constant) visit(node.a());
  for (const auto& instr : program.instrs)
    if (instr->kind == fb::InstrKind::Size) visit(instr->expression);
}

void visit_matrix(const fb::MatrixT* matrix, const Visit& visit) {
  if (matrix == nullptr) return;
  for (const std::uint32_t expression : {matrix->offset, matrix->row_stride, matrix->col_stride})
    visit(expression);
  visit_all(matrix->batch_strides, visit);
}

void visit_args(const std::vector<fb::KernelArg>& args, const Visit& visit) {
  for (const fb::KernelArg& arg : args)
    if (arg.kind() != fb::ArgKind::Buffer) visit(arg.index());
}

void visit_kernel(const fb::KernelStepT& kernel, const Visit& visit) {
  visit_args(kernel.args, visit);
  for (const auto& variant : kernel.variants) {
    visit_conditions(variant->conditions, visit);
    visit_all(variant->grid, visit);
    visit_args(variant->args, visit);
    for (const auto& map : variant->maps) {
      visit(map->offset);
      visit_all(map->extents, visit);
      visit_all(map->strides, visit);
    }
  }
}

/// For a HostStep or an OperatorStep.
template <typename Call>
void visit_tensors(const Call& call, const Visit& visit) {
  for (const auto* list : {&call.inputs, &call.outputs})
    for (const auto& tensor : *list) visit_all(tensor->shape, visit);
}

void visit_work(const fb::WorkUnion& work, const Visit& visit) {
  switch (work.type) {
    case fb::Work::KernelStep: visit_kernel(*work.AsKernelStep(), visit); break;
    case fb::Work::LoopStep: visit_program(*work.AsLoopStep()->program, visit); break;
    case fb::Work::MatmulStep: {
      const fb::MatmulStepT& matmul = *work.AsMatmulStep();
      for (const std::uint32_t size : {matmul.m, matmul.n, matmul.k}) visit(size);
      visit_all(matmul.batch, visit);
      for (const auto* matrix :
           {matmul.a.get(), matmul.b.get(), matmul.d.get(), matmul.residual.get()})
        visit_matrix(matrix, visit);
      break;
    }
    case fb::Work::ConvStep: {
      const fb::ConvStepT& conv = *work.AsConvStep();
      for (const auto* shape : {&conv.input_shape, &conv.weight_shape, &conv.output_shape})
        visit_all(*shape, visit);
      break;
    }
    case fb::Work::CopyStep: visit(work.AsCopyStep()->bytes); break;
    case fb::Work::AttentionStep: {
      const fb::AttentionStepT& attention = *work.AsAttentionStep();
      visit(attention.rows);
      visit(attention.keys);
      visit_all(attention.batch, visit);
      for (const auto* matrix :
           {attention.q.get(), attention.k.get(), attention.v.get(), attention.y.get(),
            attention.mask.get(), attention.limits.get(), attention.bounds.get(),
            attention.key_scales.get(), attention.value_scales.get()})
        visit_matrix(matrix, visit);
      if (attention.scores) visit_program(*attention.scores, visit);
      if (attention.bounds)
        for (const std::uint32_t size : {attention.sequences, attention.longest}) visit(size);
      break;
    }
    case fb::Work::HostStep: visit_tensors(*work.AsHostStep(), visit); break;
    case fb::Work::OperatorStep: visit_tensors(*work.AsOperatorStep(), visit); break;
    case fb::Work::WhileStep:
      if (const std::int32_t trips = work.AsWhileStep()->trips; trips >= 0)
        visit(static_cast<std::uint32_t>(trips));
      break;
    default: break;
  }
}

/// For each expression: whether it depends on a symbol for which `is_meant` is true.
template <typename IsMeant>
std::vector<bool> expressions_of(const fb::PlanT& plan, const IsMeant& is_meant) {
  std::vector<bool> result(plan.expressions.size());
  for (std::size_t i = 0; i < result.size(); ++i) {
    const fb::ExprNode& node = plan.expressions[i];
    if (node.op() == fb::ExprOp::Symbol)
      result[i] = is_meant(node.a());
    else if (node.op() != fb::ExprOp::Constant)
      result[i] = result[node.a()] || result[node.b()];
  }
  return result;
}

}  // namespace

void for_each_expression(const fb::StepT& step, const Visit& visit) {
  if (const fb::TacticStepT* choice = step.work.AsTacticStep())
    for (const auto& tactic : choice->tactics) visit_conditions(tactic->conditions, visit);
  for_each_step_work(step.work, [&](const fb::WorkUnion& work) { visit_work(work, visit); });
}

std::size_t count_extents(const fb::PlanT& plan) {
  return static_cast<std::size_t>(std::ranges::count_if(
      plan.buffers, [](const auto& buffer) { return buffer->kind == fb::BufferKind::Extent; }));
}

std::optional<std::size_t> symbol_of_extent(const fb::PlanT& plan, std::uint32_t buffer) {
  for (std::size_t s = 0; s < plan.symbols.size(); ++s)
    if (plan.symbols[s]->extent_of == static_cast<std::int32_t>(buffer)) return s;
  return std::nullopt;
}

std::vector<bool> expressions_from_data(const fb::PlanT& plan) {
  return expressions_of(plan,
                        [&](std::uint32_t symbol) { return plan.symbols[symbol]->extent_of >= 0; });
}

std::vector<bool> expressions_with(const fb::PlanT& plan, std::size_t symbol) {
  return expressions_of(plan, [&](std::uint32_t other) { return other == symbol; });
}

void bind_extents(const fb::PlanT& plan, std::vector<std::int64_t>& symbols) {
  for (std::size_t s = 0; s < symbols.size(); ++s)
    if (plan.symbols[s]->extent_of >= 0)
      symbols[s] = std::max(
          plan.symbols[s]->min,
          evaluate_expression(plan, static_cast<std::uint32_t>(plan.symbols[s]->bound), symbols));
}

void check_extent(const fb::PlanT& plan, std::size_t symbol, std::int64_t value,
                  std::span<const std::int64_t> symbols) {
  const fb::SymbolT& info = *plan.symbols[symbol];
  if (value >= info.min && value <= symbols[symbol]) return;
  if (info.min == info.max)
    throw usage_error(
        "'{}', which follows from data, is {} and must be {}: the sizes that the node gets do not "
        "fit its input",
        info.name, value, info.min);
  throw usage_error(
      "the size '{0}', which follows from data, is {1}; the plan was compiled for {2} to {3}: "
      "compile with --bound '{0}=N' for more",
      info.name, value, info.min, symbols[symbol]);
}

}  // namespace sinter::plan
