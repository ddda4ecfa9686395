// SPDX-License-Identifier: Apache-2.0
// Families of operators that have a kernel: a region is one node, and becomes one step.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "codegen/families/family.h"

namespace sinter::codegen {

struct OperatorOperand {
  std::uint32_t buffer;  // of the plan
  Shape shape;
};
struct OperatorAttribute {
  const char* name;
  std::variant<std::int64_t, double> value;
};

std::unique_ptr<plan::fb::HostTensorT> operator_tensor(const OperatorOperand& operand,
                                                       ExprTable& exprs);
/// The call of `name`, whose definition (runtime/operators) says what the operands have to be.
plan::fb::OperatorStepT operator_step(const char* name, ExprTable& exprs,
                                      std::initializer_list<OperatorOperand> inputs,
                                      std::initializer_list<OperatorOperand> outputs,
                                      std::initializer_list<OperatorAttribute> attributes = {});

/// A region of one node whose operands are all in memory.
struct OperatorRegion {
  const Region& region;
  const Graph& body;
  const Node& node;

  const ir::TensorType& type(std::size_t input) const { return body.type(node.inputs[input]); }
  const Shape& shape(std::size_t input) const { return type(input).shape; }
  std::uint32_t buffer(std::size_t input) const {
    return region.inputs[*body.input_number(node.inputs[input])];
  }
  OperatorOperand input(std::size_t index) const { return {buffer(index), shape(index)}; }
  OperatorOperand output(std::size_t index) const {
    return {region.outputs[index], body.type(node.outputs[index]).shape};
  }
};

class OperatorFamily : public KernelFamily {
 public:
  /// Of regions of this kind, which are nodes of operator `op`.
  OperatorFamily(std::string_view kind, std::string_view op) : kind_(kind), op_(op) {}

  std::string_view name() const override { return kind_; }
  std::string takes(const Region& region, const ir::TargetTraits&) const override;
  std::vector<StepTactics> lower(const Region& region, PlanContext& plan) const override;

 protected:
  virtual StepCost cost(const OperatorRegion& region, const PlanContext& plan) const = 0;
  /// For targets that generate kernels. `step` is the region's.
  virtual Tactic kernels(const OperatorRegion& region, PlanContext& plan, StepT& step) const = 0;
  /// For others.
  virtual plan::fb::OperatorStepT call(const OperatorRegion& region, ExprTable& exprs) const = 0;
  /// Throws Error(kUnsupported) if the region is no such node.
  OperatorRegion read(const Region& region) const;

 private:
  std::string_view kind_, op_;
};

/// A kernel that a function emits; the rest is what a KernelProgram says.
Tactic emitted(const OperatorRegion& region, std::string signature,
               std::vector<std::uint32_t> buffers,
               std::function<EmittedKernel(const KernelRequest&, ExprTable&)> emit);

}  // namespace sinter::codegen
