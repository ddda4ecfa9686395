// SPDX-License-Identifier: Apache-2.0
// Regions of one GroupedMatMul.
#include <algorithm>
#include <array>
#include <bit>

#include <sinter/error.h>

#include "codegen/families/operator_family.h"
#include "codegen/plan/panel_buffers.h"
#include "ir/scale_format.h"
#include "runtime/plan/panels/quant_panels.h"

namespace sinter::codegen {
namespace {

struct GroupedState final : FamilyState {
  explicit GroupedState(PlanBuffers& buffers) : panels(buffers) {}
  PanelBuffers panels;
};

class GroupedMatmulFamily final : public OperatorFamily {
 public:
  GroupedMatmulFamily() : OperatorFamily("grouped_matmul", "GroupedMatMul") {}

  std::string takes(const Region& region, const ir::TargetTraits& target) const override {
    return target.gemm_kernels ? "this target's grouped matmuls are GEMMs"
                               : OperatorFamily::takes(region, target);
  }
  std::unique_ptr<FamilyState> begin(PlanContext& plan) const override {
    return std::make_unique<GroupedState>(plan.buffers);
  }
  std::vector<StepTactics> lower(const Region& region, PlanContext& plan) const override {
    const OperatorRegion one = read(region);
    if (!ir::ProductFormats(one.node.attrs).w) return OperatorFamily::lower(region, plan);
    std::vector<StepTactics> steps;
    StepTactics& result = steps.emplace_back(StepTactics{step_of(region), {}});
    set_cost(result.step, cost(one, plan), plan.exprs);
    result.tactics.push_back(only(quantized(one, plan, result.step.reads)));
    return steps;
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
    return operator_step("grouped_matmul", exprs,
                         {region.input(0), region.input(1), region.input(last)}, {region.output(0)},
                         {{"transposed", region.node.attrs.get_int("transposed")}});
  }

  /// With weights in panels, which `reads` has in place of the graph's.
  static plan::fb::OperatorStepT quantized(const OperatorRegion& region, PlanContext& plan,
                                           std::vector<std::uint32_t>& reads) {
    const ir::ScaleFormat format = *ir::ProductFormats(region.node.attrs).w;
    const std::int64_t k = region.shape(0)[1].value(), groups = region.shape(1)[0].value(),
                       whole = std::max<std::int64_t>(k, 1);
    plan::fb::MatmulStepT product;
    product.k = plan.exprs.intern(Dim(k));
    product.b = std::make_unique<plan::fb::MatrixT>();
    product.b->buffer = region.buffer(1);
    product.quantization = std::make_unique<plan::fb::QuantizationT>();
    plan::fb::QuantizationT& own = *product.quantization;
    own.bits = static_cast<std::uint8_t>(format.codes->bits);
    own.numbers = ir::numbers_in_units(*format.codes);
    own.unit = static_cast<float>(format.codes->unit);
    own.group =
        static_cast<std::uint64_t>(format.depth == 0 ? whole : std::min(format.depth, whole));
    own.scales = region.buffer(2);
    std::size_t next = 3;
    const auto optional = [&](bool is_there, std::int32_t& to) {
      if (is_there) to = static_cast<std::int32_t>(region.buffer(next++));
    };
    optional(format.zero.has_value(), own.zero_points);
    optional(format.has_factors, own.factors);
    optional(format.offset.has_value(), own.offsets);
    auto& state = static_cast<GroupedState&>(*plan.states.at("grouped_matmul"));
    state.panels.pack(product, reads, plan.exprs, plan.options.int8_activations);
    if (!own.panels) throw Error(ErrorCode::kInternal, "quantized groups that are no constants");

    const plan::QuantPanelShape shape{own.bits,
                                      region.body.type(region.node.outputs[0]).shape[1].value(), k,
                                      static_cast<std::int64_t>(own.group)};
    const Dim panels(groups * shape.panels());
    const Shape of_scales{panels, Dim(shape.groups()), Dim(plan::kQuantPanelRows)};
    const auto part = [&](std::int32_t buffer) -> OperatorOperand {
      if (buffer < 0) return {own.scales, {Dim(0), Dim(0), Dim(0)}};
      return {static_cast<std::uint32_t>(buffer), of_scales};
    };
    std::array<std::int8_t, 16> numbers{};
    std::ranges::copy(own.numbers, numbers.begin());
    const auto packed = std::bit_cast<std::array<std::int64_t, 2>>(numbers);
    return operator_step(
        "grouped_matmul_quantized", plan.exprs,
        {region.input(0),
         {product.b->buffer, {panels, Dim(shape.units()), Dim(4 * plan::kQuantPanelRows)}},
         region.input(region.node.inputs.size() - 1),
         {own.scales, of_scales},
         part(own.zero_points),
         part(own.offsets)},
        {region.output(0)},
        {{"groups", groups},
         {"bits", std::int64_t{own.bits}},
         {"depth", static_cast<std::int64_t>(own.group)},
         {"low", packed[0]},
         {"high", packed[1]},
         {"zero", std::int64_t{own.zero}},
         {"block", std::int64_t{own.block}}});
  }
};

}  // namespace

const KernelFamily& grouped_matmul_family() {
  static const GroupedMatmulFamily family;
  return family;
}

}  // namespace sinter::codegen
