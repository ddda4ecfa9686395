// SPDX-License-Identifier: Apache-2.0
// A toy: regions of one negation, by a kernel that is written by hand. The folder is all of it.
#include <fmt/format.h>

#include "codegen/families/family.h"

namespace sinter::codegen {
namespace {

class NegateKernel final : public KernelProgram {
 public:
  NegateKernel(std::uint32_t input, std::uint32_t output, ir::Dim count)
      : input_(input), output_(output), count_(std::move(count)) {}

  std::string signature(const ExprTable&) const override { return "negate " + count_.to_string(); }
  std::vector<std::uint32_t> buffers() const override { return {input_, output_}; }

  EmittedKernel emit(KernelRequest request, ExprTable& exprs) const override {
    constexpr int kThreads = 128;
    EmittedKernel kernel;
    kernel.source = fmt::format(
        "#include \"negate.cuh\"\n"
        "extern \"C\" __global__ void {}(const float* x, float* y, long long n) {{\n"
        "  const long long i = blockIdx.x * {}ll + threadIdx.x;\n"
        "  if (i < n) y[i] = negated(x[i]);\n}}\n",
        request.name, kThreads);
    kernel.step.args = {{plan::fb::ArgKind::Buffer, input_},
                        {plan::fb::ArgKind::Buffer, output_},
                        {plan::fb::ArgKind::Int64, exprs.intern(count_)}};
    auto variant = std::make_unique<plan::fb::KernelVariantT>();
    variant->function = request.name;
    const ir::Dim blocks = ir::ceil_div(count_, kThreads, exprs.ranges());
    variant->grid = {exprs.intern(blocks), exprs.intern(1), exprs.intern(1)};
    variant->block = {kThreads, 1, 1};
    variant->schedule = "negate";
    kernel.step.variants.push_back(std::move(variant));
    return kernel;
  }

 private:
  std::uint32_t input_, output_;
  ir::Dim count_;
};

class NegateFamily final : public KernelFamily {
 public:
  std::string_view name() const override { return "negate"; }

  std::string takes(const Region& region, const ir::TargetTraits& target) const override {
    const ir::Graph& body = *region.node.body;
    if (!target.generates_kernels) return "it is for generated kernels";
    if (body.nodes().size() != 1 || body.nodes()[0].op->name != "Neg" ||
        body.type(body.outputs()[0]).dtype != DType::kFloat32)
      return "it is no negation of f32 alone";
    return "";
  }

  std::vector<StepTactics> lower(const Region& region, PlanContext& plan) const override {
    StepTactics result{step_of(region), {}};
    const ir::Graph& body = *region.node.body;
    const ir::Dim count = ir::element_count(body.type(body.outputs()[0]).shape);
    set_cost(result.step, {count * ir::Dim(4), count * ir::Dim(4), count}, plan.exprs);
    result.tactics.push_back(only(
        region.name, std::make_shared<NegateKernel>(region.inputs[0], region.outputs[0], count)));
    std::vector<StepTactics> steps;
    steps.push_back(std::move(result));
    return steps;
  }

  std::vector<std::string_view> schedules() const override { return {"negate"}; }
};

}  // namespace

const KernelFamily& negate_family() {
  static const NegateFamily family;
  return family;
}

}  // namespace sinter::codegen
