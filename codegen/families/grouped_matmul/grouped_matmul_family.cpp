// SPDX-License-Identifier: Apache-2.0
// Regions of one GroupedMatMul.
#include <algorithm>
#include <array>
#include <bit>

#include <sinter/error.h>

#include "codegen/families/operator_family.h"
#include "ir/scale_format.h"

namespace sinter::codegen {
namespace {

class GroupedMatmulFamily final : public OperatorFamily {
 public:
  GroupedMatmulFamily() : OperatorFamily("grouped_matmul", "GroupedMatMul") {}

  std::string takes(const Region& region, const ir::TargetTraits& target) const override {
    return target.gemm_kernels ? "this target's grouped matmuls are GEMMs"
                               : OperatorFamily::takes(region, target);
  }

 private:
  StepCost cost(const OperatorRegion& region, const PlanContext& plan) const override {
    const ir::TensorType& y = region.body.type(region.node.outputs[0]);
    const auto bytes = [](const ir::TensorType& type) {
      return ir::element_count(type.shape) * Dim(static_cast<std::int64_t>(size_of(type.dtype)));
    };
    // Of each row's expert, at most all.
    const Dim groups = region.shape(1)[0];
    Dim weights = 0;
    for (std::size_t i = 1; i + 1 < region.node.inputs.size(); ++i)
      weights += bytes(region.type(i));
    const Dim read =
        ir::floor_div(weights, groups) * ir::min(y.shape[0], groups, plan.exprs.ranges());
    return {bytes(region.type(0)) + read, bytes(y),
            Dim(2) * ir::element_count(y.shape) * region.shape(0)[1],
            gemm_arithmetic(region.type(0).dtype, plan::fb::MathMode::Default)};
  }

  Tactic kernels(const OperatorRegion&, PlanContext&, StepT&) const override {
    throw Error(ErrorCode::kInternal, "a grouped matmul for a target that has none");
  }

  plan::fb::OperatorStepT call(const OperatorRegion& region, ExprTable& exprs) const override {
    const std::size_t last = region.node.inputs.size() - 1;
    const ir::ProductFormats formats(region.node.attrs);
    if (!formats.w)
      return operator_step(
          "grouped_matmul", exprs, {region.input(0), region.input(1), region.input(last)},
          {region.output(0)}, {{"transposed", region.node.attrs.get_int("transposed")}});
    const ir::ScaleFormat& format = *formats.w;
    std::size_t next = 3;
    const auto optional = [&](bool is_there) -> OperatorOperand {
      if (is_there) return region.input(next++);
      return {region.buffer(2), {Dim(0), Dim(0), Dim(0)}};
    };
    const OperatorOperand zeros = optional(format.zero.has_value()),
                          factors = optional(format.has_factors),
                          offsets = optional(format.offset.has_value());
    std::array<std::int64_t, 2> numbers{};
    double unit = 1;
    if (const auto codes = ir::numbers_in_units(*format.codes); !codes.empty()) {
      std::array<std::int8_t, 16> all{};
      std::ranges::copy(codes, all.begin());
      numbers = std::bit_cast<std::array<std::int64_t, 2>>(all);
      unit = format.codes->unit;
    }
    const std::int64_t k = region.shape(0)[1].value();
    return operator_step(
        "grouped_matmul_quantized", exprs,
        {region.input(0), region.input(1), region.input(last), region.input(2), zeros, factors,
         offsets},
        {region.output(0)},
        {{"bits", std::int64_t{format.codes->bits}},
         {"depth", std::max<std::int64_t>(1, format.depth == 0 ? k : format.depth)},
         {"low", numbers[0]},
         {"high", numbers[1]},
         {"unit", unit}});
  }
};

}  // namespace

const KernelFamily& grouped_matmul_family() {
  static const GroupedMatmulFamily family;
  return family;
}

}  // namespace sinter::codegen
