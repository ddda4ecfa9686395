// SPDX-License-Identifier: Apache-2.0
// Runs of steps as tasks of one launch: emitted for a small device, run on the emulator, whose
// blocks really wait for each other, and compared with the reference; and as a step of a plan.
#ifdef SINTER_WITH_CUDA
#include <algorithm>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codegen/compile.h"
#include "codegen/families/registry.h"
#include "codegen/targets/cuda/cuda_target.h"
#include "codegen/tasks/task_run.h"
#include "ir/reference/evaluate.h"
#include "ir/text/text.h"
#include "tests/codegen/emulation/compare_buffers.h"
#include "tests/codegen/emulation/cuda_emulation.h"
#include "tests/support/random_inputs.h"

namespace sinter::test {
namespace {

using testing::HasSubstr;
using testing::Not;

// A norm, two GEMMs that do not wait for each other, their product, a GEMM with a residual.
constexpr const char* kBlock = R"(
graph @main(%x: f16[1, 2048]) {
  %w1 = const f16[2048, 96] random(1)
  %w2 = const f16[2048, 96] random(2)
  %w3 = const f16[96, 2048] random(3)
  %n = Fused(%x) {kind = "reduction"} body (%x) {
    %s = Square(%x)
    %m = ReduceMean(%s) {axes = [1], keepdims = 1}
    %r = Rsqrt(%m)
    %y = Mul(%x, %r)
    return y = %y
  }
  %a = Fused(%n, %w1) {kind = "gemm"} body (%x, %w) {
    %p = Fused(%x, %w) {kind = "matmul"} body (%x, %w) {
      %y = MatMul(%x, %w)
      return y = %y
    }
    return p = %p
  }
  %b = Fused(%n, %w2) {kind = "gemm"} body (%x, %w) {
    %p = Fused(%x, %w) {kind = "matmul"} body (%x, %w) {
      %y = MatMul(%x, %w)
      %t = Relu(%y)
      return y = %t
    }
    return p = %p
  }
  %p = Fused(%a, %b) {kind = "pointwise"} body (%a, %b) {
    %y = Mul(%a, %b)
    return y = %y
  }
  %o = Fused(%p, %w3, %x) {kind = "gemm"} body (%x, %w, %r) {
    %p = Fused(%x, %w, %r) {kind = "matmul"} body (%x, %w, %r) {
      %y = MatMul(%x, %w)
      %z = Add(%y, %r)
      return y = %z
    }
    return p = %p
  }
  return out = %o
})";

/// The steps of a graph's regions for a device of two multiprocessors.
class SmallDevice {
 public:
  explicit SmallDevice(const char* text)
      : graph_(ir::parse_graph(text)),
        device_(codegen::reference_device()),
        exprs_(graph_.ranges()),
        buffers_(graph_, exprs_),
        graphs_{&graph_},
        context_{options(), {&device_}, graphs_, exprs_, buffers_} {
    device_.multiprocessors = 2;
    for (const codegen::KernelFamily* family : codegen::families())
      if (auto state = family->begin(context_))
        context_.states.emplace(family->name(), std::move(state));
  }

  std::vector<codegen::RunStep> run() {
    std::vector<codegen::RunStep> steps;
    for (const ir::Node& node : graph_.nodes()) {
      codegen::Region region{graph_, node, {}, {}, "step" + std::to_string(steps.size())};
      for (const ir::ValueId value : node.inputs) region.inputs.push_back(buffers_.of(value));
      for (const ir::ValueId value : node.outputs) region.outputs.push_back(buffers_.of(value));
      for (codegen::StepTactics& step :
           family_of(region, codegen::cuda_target()).lower(region, context_)) {
        step.step.name = region.name;
        std::string why;
        const auto tactic = task_tactic(step, context_, why);
        EXPECT_TRUE(tactic) << region.name << ": " << why;
        if (tactic) steps.push_back({std::move(step), *tactic, {}});
      }
    }
    return steps;
  }

  codegen::EmittedKernel emit(const codegen::KernelProgram& program) {
    codegen::KernelRequest request;
    request.name = "whole";
    request.device = &device_;
    for (const std::uint32_t buffer : program.buffers()) {
      request.buffer_types.push_back(buffers_.type(buffer));
      if (buffers_.is_given(buffer)) request.given.insert(buffer);
    }
    return program.emit(std::move(request), exprs_);
  }

  /// What is wrong with the graph's output after all launches.
  std::string check(const codegen::EmittedKernel& kernel,
                    const std::vector<std::uint32_t>& buffers) {
    const std::vector<ir::Tensor> inputs = random_inputs(graph_, {}, 1);
    plan::fb::PlanT plan;
    exprs_.write(plan);
    const std::vector<std::int64_t> sizes = plan::evaluate_expressions(plan, {});
    Memory memory(std::ranges::max(buffers) + 1);
    for (const std::uint32_t buffer : buffers) {
      const auto constant = buffers_.constant_of(buffer);
      if (constant)
        memory[buffer].assign(constant->bytes().begin(), constant->bytes().end());
      else
        memory[buffer].assign(static_cast<std::size_t>(buffers_.size(buffer).bytes.value()),
                              std::byte{0xff});
    }
    const std::uint32_t x = buffers_.of(graph_.inputs()[0]), y = buffers_.of(graph_.outputs()[0]);
    memory[x].assign(inputs[0].bytes().begin(), inputs[0].bytes().end());
    const EmulatedKernels library(std::span(&kernel, 1));
    library.run(kernel.step, 0, sizes, memory);
    for (const auto& more : kernel.more) library.run(more, 0, sizes, memory);
    const std::vector<ir::Tensor> expected = ir::evaluate(graph_, inputs);
    const double largest = largest_magnitude(DType::kFloat16, expected[0].bytes());
    return first_difference(DType::kFloat16, memory[y], expected[0].bytes(), {2e-3, largest});
  }

  codegen::PlanContext& context() { return context_; }

 private:
  static const codegen::CompileOptions& options() {
    static const codegen::CompileOptions all = [] {
      codegen::CompileOptions made;
      made.target = &codegen::cuda_target();
      made.architectures = {"sm_90"};
      return made;
    }();
    return all;
  }

  ir::Graph graph_;
  codegen::DeviceModel device_;
  codegen::ExprTable exprs_;
  codegen::PlanBuffers buffers_;
  std::vector<const ir::Graph*> graphs_;
  codegen::PlanContext context_;
};

TEST(Tasks, ABlockOfADecoderInOneLaunch) {
  SmallDevice device(kBlock);
  const codegen::StepTactics step = merge_run(device.run(), "whole", device.context());
  ASSERT_EQ(step.tactics.size(), 2u);
  EXPECT_EQ(step.tactics[0].name, "tasks");
  EXPECT_EQ(step.tactics[1].name, "kernels");
  EXPECT_EQ(step.tactics[1].parts.size(), 5u);
  const codegen::KernelProgram& program = *step.tactics[0].parts[0].program;
  const codegen::EmittedKernel kernel = device.emit(program);
  ASSERT_EQ(kernel.more.size(), 1u);
  const auto& variant = *kernel.more[0].variants[0];
  EXPECT_EQ(variant.cluster, 0u);
  EXPECT_FALSE(variant.programmatic_launch);
  EXPECT_THAT(variant.schedule, HasSubstr("steps=5 levels=4 "));
  // The GEMMs share a level; weights are copied before the wait.
  EXPECT_THAT(kernel.source, HasSubstr("step2: 6 tasks, level 1"));
  EXPECT_THAT(kernel.source, HasSubstr("Tile::begin<true>(shared, operands, ready);"));
  EXPECT_THAT(kernel.source, Not(HasSubstr("launch_dependents")));
  EXPECT_EQ(device.check(kernel, program.buffers()), "");
}

TEST(Tasks, ATaskThatDoesNotWaitIsFound) {
  SmallDevice device(kBlock);
  const codegen::StepTactics step = merge_run(device.run(), "whole", device.context());
  const codegen::KernelProgram& program = *step.tactics[0].parts[0].program;
  codegen::EmittedKernel kernel = device.emit(program);
  const std::string wait = "  ready = {ended + 2, ";
  const std::size_t at = kernel.source.find(wait);
  ASSERT_NE(at, std::string::npos);
  kernel.source.replace(at, kernel.source.find(';', at) - at, "  ready = {ended, 0}");
  EXPECT_NE(device.check(kernel, program.buffers()), "");
}

TEST(Tasks, AreATacticOfOneStepBesideTheStepsKernels) {
  codegen::CompileOptions options;
  options.target = &codegen::cuda_target();
  options.architectures = {"sm_90"};
  options.programmatic_launch = true;
  options.tasks = true;
  const codegen::CompiledPlan compiled = codegen::compile(ir::parse_graph(kBlock), options);
  const auto plan = plan::parse_plan(plan::serialize_plan(compiled.parts));
  ASSERT_EQ(plan->meta.steps.size(), 1u);
  const plan::fb::StepT& step = *plan->meta.steps[0];
  EXPECT_EQ(step.name, "tasks_0");
  const plan::fb::TacticStepT* choice = step.work.AsTacticStep();
  ASSERT_NE(choice, nullptr);
  ASSERT_EQ(choice->tactics.size(), 2u);
  ASSERT_EQ(choice->tactics[0]->parts.size(), 2u);
  const auto* whole = choice->tactics[0]->parts[1]->work.AsKernelStep();
  ASSERT_NE(whole, nullptr);
  EXPECT_EQ(whole->variants[0]->cluster, 0u);
  EXPECT_EQ(choice->tactics[1]->parts.size(), 5u);
}

}  // namespace
}  // namespace sinter::test
#endif
