// SPDX-License-Identifier: Apache-2.0
// Whole plans for the CUDA target: what compile() adds to the kernels' own tests.
#ifdef SINTER_WITH_CUDA

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sinter/error.h>

#include "codegen/compile.h"
#include "codegen/targets/cuda/cuda_target.h"
#include "ir/text/text.h"

namespace sinter::test {
namespace {

using testing::HasSubstr;

// Steps 0 and 2 are one kernel on different buffers.
constexpr const char* kGraph = R"(
graph @main(%x: f32[batch, 8], %y: f32[batch, 8]) ranges {batch: 1..64} {
  %w = const f32[8, 8] random(1)
  %a = Fused(%x, %y) {kind = "pointwise"} body (%x, %y) {  # from First
    %s = Add(%x, %y)
    %t = Tanh(%s)
    return t = %t
  }
  %b = Fused(%a, %w) {kind = "matmul"} body (%a, %w) {
    %p = MatMul(%a, %w)
    return p = %p
  }
  %c = Fused(%b, %x) {kind = "pointwise"} body (%x, %y) {  # from Second
    %s = Add(%x, %y)
    %t = Tanh(%s)
    return t = %t
  }
  %d = Fused(%c) {kind = "reduction"} body (%x) {
    %m = ReduceSum(%x) {axes = [1], keepdims = 1}
    %s = Div(%x, %m)
    return s = %s
  }
  return d = %d
})";

codegen::CompileOptions options_for(std::vector<std::string> architectures, int threads = 0) {
  codegen::CompileOptions options;
  options.target = &codegen::cuda_target();
  options.architectures = std::move(architectures);
  options.threads = threads;
  return options;
}

TEST(CompileCuda, StepsThatDifferInBuffersShareAKernel) {
  const auto compiled = codegen::compile(ir::parse_graph(kGraph), options_for({"sm_80", "sm_90"}));
  const plan::fb::PlanT& meta = compiled.parts.meta;
  EXPECT_EQ(compiled.stats.kernels, 2u);
  ASSERT_EQ(meta.steps.size(), 4u);
  const auto* first = meta.steps[0]->work.AsKernelStep();
  const auto* second = meta.steps[2]->work.AsKernelStep();
  ASSERT_NE(first, nullptr);
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(first->variants[0]->function, second->variants[0]->function);
  EXPECT_EQ(first->variants[0]->module_, second->variants[0]->module_);
  const auto buffers = [](const plan::fb::KernelStepT& step) {
    std::vector<std::uint32_t> result;
    for (const auto& arg : step.args)
      if (arg.kind() == plan::fb::ArgKind::Buffer) result.push_back(arg.index());
    return result;
  };
  EXPECT_THAT(buffers(*first),
              testing::UnorderedElementsAre(meta.steps[0]->reads[0], meta.steps[0]->reads[1],
                                            meta.steps[0]->writes[0]));
  EXPECT_THAT(buffers(*second),
              testing::UnorderedElementsAre(meta.steps[2]->reads[0], meta.steps[2]->reads[1],
                                            meta.steps[2]->writes[0]));
}

TEST(CompileCuda, ModulesAreOrderedByKernelThenArchitecture) {
  const auto compiled = codegen::compile(ir::parse_graph(kGraph), options_for({"sm_80", "sm_90"}));
  const auto plan = plan::parse_plan(plan::serialize_plan(compiled.parts));
  ASSERT_EQ(plan->meta.modules.size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) {
    const auto& module = *plan->meta.modules[i];
    EXPECT_EQ(module.target, i % 2 == 0 ? "sm_80" : "sm_90");
    EXPECT_EQ(module.name, plan->meta.modules[i / 2 * 2]->name);
    EXPECT_EQ(module.source_offset, plan->meta.modules[i / 2 * 2]->source_offset);
    const std::string_view source(
        reinterpret_cast<const char*>(plan->sources.data()) + module.source_offset,
        module.source_size);
    EXPECT_THAT(std::string(source), HasSubstr(module.name));
    EXPECT_GT(module.size, 0u);
  }
  for (const auto& step : plan->meta.steps) {
    const auto* kernel = step->work.AsKernelStep();
    if (!kernel) continue;
    for (const auto& variant : kernel->variants) EXPECT_EQ(variant->module_ % 2, 0u);
  }
  // The source of a shared kernel names all that it was made from.
  const std::string_view first(reinterpret_cast<const char*>(plan->sources.data()),
                               plan->meta.modules[0]->source_size);
  EXPECT_THAT(std::string(first), testing::AllOf(HasSubstr("First"), HasSubstr("Second")));
}

TEST(CompileCuda, TheSameBytesWithAnyThreadsAndCache) {
  const ir::Graph graph = ir::parse_graph(kGraph);
  const auto bytes = [&](const codegen::CompileOptions& options) {
    return plan::serialize_plan(codegen::compile(graph, options).parts);
  };
  const auto plain = bytes(options_for({"sm_80", "sm_90"}, 1));
  EXPECT_TRUE(bytes(options_for({"sm_80", "sm_90"}, 4)) == plain);
  const std::filesystem::path cache =
      std::filesystem::path(testing::TempDir()) / "sinter_compile_cuda_cache";
  std::filesystem::remove_all(cache);
  auto cached = options_for({"sm_80", "sm_90"}, 2);
  cached.cache_dir = cache.string();
  EXPECT_TRUE(bytes(cached) == plain);
  const auto warm = codegen::compile(graph, cached);
  EXPECT_EQ(warm.stats.cache_hits, 4u);
  EXPECT_TRUE(plan::serialize_plan(warm.parts) == plain);
  std::filesystem::remove_all(cache);
}

TEST(CompileCuda, NeedsAnArchitecture) {
  try {
    codegen::compile(ir::parse_graph(kGraph), options_for({}));
    FAIL() << "compiled for no GPU";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    EXPECT_THAT(error.what(), HasSubstr("--target=cuda:sm_90"));
  }
}

// Two layers that differ in buffers alone: products with a norm behind them.
constexpr const char* kProducts = R"(
graph @main(%x: f16[rows, 64]) ranges {rows: 1..4096} {
  %v = const f16[64, 64] random(1)
  %w = const f16[64, 64] random(2)
  %a = Fused(%x, %v) {kind = "gemm"} body (%x, %w) {
    %p = Fused(%x, %w) {kind = "matmul"} body (%x, %w) {
      %m = MatMul(%x, %w)
      return m = %m
    }
    %n = Fused(%p, %x) {kind = "reduction"} body (%p, %x) {
      %s = Add(%p, %x)
      %m = ReduceMean(%s) {axes = [1], keepdims = 1}
      %d = Sub(%s, %m)
      return d = %d
    }
    return n = %n
  }
  %b = Fused(%a, %w) {kind = "gemm"} body (%x, %w) {
    %p = Fused(%x, %w) {kind = "matmul"} body (%x, %w) {
      %m = MatMul(%x, %w)
      return m = %m
    }
    %n = Fused(%p, %x) {kind = "reduction"} body (%p, %x) {
      %s = Add(%p, %x)
      %m = ReduceMean(%s) {axes = [1], keepdims = 1}
      %d = Sub(%s, %m)
      return d = %d
    }
    return n = %n
  }
  return b = %b
})";

TEST(CompileCuda, ProductsHaveAlternativesAndShareKernels) {
  const auto compiled = codegen::compile(ir::parse_graph(kProducts), options_for({"sm_90"}));
  const auto plan = plan::parse_plan(plan::serialize_plan(compiled.parts));
  ASSERT_EQ(plan->meta.steps.size(), 2u);
  // The whole by warps, the product alone by warps and by warpgroups, and the norm alone.
  EXPECT_EQ(compiled.stats.kernels, 4u);
  std::vector<std::string> functions[2];
  for (std::size_t s = 0; s < 2; ++s) {
    const plan::fb::StepT& step = *plan->meta.steps[s];
    const plan::fb::TacticStepT* choice = step.work.AsTacticStep();
    ASSERT_NE(choice, nullptr);
    std::vector<std::string> names;
    for (const auto& tactic : choice->tactics) names.push_back(tactic->name);
    EXPECT_THAT(names, testing::ElementsAre("gemm", "gemm, then its epilogue",
                                            "warp-specialized gemm, then its epilogue", "library"));
    EXPECT_EQ(choice->tactics[0]->parts.size(), 1u);
    EXPECT_EQ(choice->tactics[1]->parts.size(), 2u);
    EXPECT_EQ(choice->tactics[3]->parts.size(), 2u);
    EXPECT_FALSE(choice->tactics[0]->conditions.empty());
    EXPECT_NE(choice->tactics[3]->parts[0]->work.AsMatmulStep(), nullptr);
    // Maps are of the step's own buffers.
    const auto& maps = choice->tactics[2]->parts[0]->work.AsKernelStep()->variants[0]->maps;
    ASSERT_EQ(maps.size(), 2u);
    for (const auto& map : maps) EXPECT_THAT(step.reads, testing::Contains(map->buffer));
    // Scratch between the parts is the step's own.
    ASSERT_EQ(step.writes.size(), 2u);
    const plan::fb::BufferT& scratch = *plan->meta.buffers[step.writes[1]];
    EXPECT_EQ(scratch.kind, plan::fb::BufferKind::Arena);
    EXPECT_EQ(scratch.first_step, s);
    EXPECT_EQ(scratch.last_step, s);
    for (const auto& tactic : choice->tactics)
      for (const auto& part : tactic->parts)
        if (const auto* kernel = part->work.AsKernelStep())
          for (const auto& variant : kernel->variants) functions[s].push_back(variant->function);
  }
  EXPECT_EQ(functions[0], functions[1]);
  // The operands, the residual and the result pass through memory; the sum between them does not.
  const auto values = plan::evaluate_expressions(plan->meta, std::vector<std::int64_t>{100});
  const plan::fb::StepT& step = *plan->meta.steps[0];
  EXPECT_EQ(values[step.bytes_read], 100 * 64 * 2 * 2 + 64 * 64 * 2);
  EXPECT_EQ(values[step.bytes_written], 100 * 64 * 2);
}

TEST(CompileCuda, OneWayToDoProductsCanBeAskedFor) {
  const ir::Graph graph = ir::parse_graph(kProducts);
  const auto names = [&](const std::string& way) {
    codegen::CompileOptions options = options_for({"sm_90"});
    options.gemm = way;
    const auto compiled = codegen::compile(graph, options);
    std::vector<std::string> all;
    for (const auto& tactic : compiled.parts.meta.steps[0]->work.AsTacticStep()->tactics)
      all.push_back(tactic->name);
    return all;
  };
  EXPECT_THAT(names("library"), testing::ElementsAre(HasSubstr("asked for 'library'")));
  EXPECT_THAT(names("alone"), testing::ElementsAre("gemm, then its epilogue"));
  EXPECT_THAT(names("warp-specialized alone"),
              testing::ElementsAre("warp-specialized gemm, then its epilogue"));
  EXPECT_THAT(names("warp_tile 16x16x64 warps=1x1x2 stages=2 split_k=1 cluster_n=4"),
              testing::ElementsAre("gemm"));
}

TEST(CompileCuda, PlansForOtherGpusHaveNoWarpgroups) {
  const auto compiled =
      codegen::compile(ir::parse_graph(kProducts), options_for({"sm_80", "sm_100"}));
  for (const auto& tactic : compiled.parts.meta.steps[0]->work.AsTacticStep()->tactics)
    EXPECT_THAT(tactic->name, testing::Not(HasSubstr("warp-specialized")));
}

}  // namespace
}  // namespace sinter::test

#endif
