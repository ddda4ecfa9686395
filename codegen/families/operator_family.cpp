// SPDX-License-Identifier: Apache-2.0
#include "codegen/families/operator_family.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <sinter/error.h>

namespace sinter::codegen {
namespace {

class EmittedProgram final : public KernelProgram {
 public:
  using Emit = std::function<EmittedKernel(const KernelRequest&, ExprTable&)>;
  EmittedProgram(std::string signature, std::vector<std::uint32_t> buffers, Emit emit)
      : signature_(std::move(signature)), buffers_(std::move(buffers)), emit_(std::move(emit)) {}

  std::string signature(const ExprTable&) const override { return signature_; }
  std::vector<std::uint32_t> buffers() const override { return buffers_; }
  EmittedKernel emit(KernelRequest request, ExprTable& exprs) const override {
    return emit_(request, exprs);
  }

 private:
  std::string signature_;
  std::vector<std::uint32_t> buffers_;
  Emit emit_;
};

}  // namespace

std::unique_ptr<plan::fb::HostTensorT> operator_tensor(const OperatorOperand& operand,
                                                       ExprTable& exprs) {
  auto tensor = std::make_unique<plan::fb::HostTensorT>();
  tensor->buffer = operand.buffer;
  for (const Dim& size : operand.shape) tensor->shape.push_back(exprs.intern(size));
  return tensor;
}

plan::fb::OperatorStepT operator_step(const char* name, ExprTable& exprs,
                                      std::initializer_list<OperatorOperand> inputs,
                                      std::initializer_list<OperatorOperand> outputs,
                                      std::initializer_list<OperatorAttribute> attributes) {
  plan::fb::OperatorStepT step;
  step.operator_name = name;
  for (const auto& input : inputs) step.inputs.push_back(operator_tensor(input, exprs));
  for (const auto& output : outputs) step.outputs.push_back(operator_tensor(output, exprs));
  for (const auto& [attribute, value] : attributes) {
    auto& made = *step.attributes.emplace_back(std::make_unique<plan::fb::HostAttributeT>());
    made.name = attribute;
    made.is_float = std::holds_alternative<double>(value);
    if (made.is_float)
      made.real = std::get<double>(value);
    else
      made.integer = std::get<std::int64_t>(value);
  }
  return step;
}

Tactic emitted(const OperatorRegion& region, std::string signature,
               std::vector<std::uint32_t> buffers, EmittedProgram::Emit emit) {
  return only(region.region.name, std::make_shared<EmittedProgram>(
                                      std::move(signature), std::move(buffers), std::move(emit)));
}

std::string OperatorFamily::takes(const Region& region, const ir::TargetTraits&) const {
  return region.kind() == kind_ ? "" : fmt::format("it is no {}", op_);
}

OperatorRegion OperatorFamily::read(const Region& region) const {
  const Graph& body = *region.node.body;
  const Node* node = body.nodes().size() == 1 ? &body.nodes()[0] : nullptr;
  if (node == nullptr || node->op->name != op_ || body.outputs() != node->outputs ||
      !std::ranges::all_of(node->inputs,
                           [&](ValueId input) { return body.input_number(input).has_value(); }))
    throw Error(ErrorCode::kUnsupported,
                fmt::format("a region of kind '{}' must be one {} of values in memory, all results "
                            "of which are used",
                            kind_, op_));
  return {region, body, *node};
}

std::vector<StepTactics> OperatorFamily::lower(const Region& region, PlanContext& plan) const {
  const OperatorRegion one = read(region);
  std::vector<StepTactics> steps;
  StepTactics& result = steps.emplace_back(StepTactics{step_of(region), {}});
  set_cost(result.step, cost(one, plan), plan.exprs);
  result.tactics.push_back(plan.generates_kernels() ? kernels(one, plan, result.step)
                                                    : only(call(one, plan.exprs)));
  return steps;
}

}  // namespace sinter::codegen
