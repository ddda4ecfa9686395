// SPDX-License-Identifier: Apache-2.0
// One plan for several architectures: schedules are chosen by each one's device model.
#ifdef SINTER_WITH_CUDA

#include <map>
#include <set>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codegen/compile.h"
#include "codegen/targets/cuda/cuda_target.h"
#include "ir/text/text.h"
#include "runtime/plan/plan_data.h"
#include "runtime/plan/step_visitor.h"

namespace sinter::test {
namespace {

// A product that every device has other tiles for, and a sum that all do alike.
constexpr const char* kProductAndSum = R"(
graph @main(%x: f16[rows, 512], %w: f16[512, 512]) ranges {rows: 1..4096} {
  %a = Fused(%x, %w) {kind = "gemm"} body (%x, %w) {
    %p = Fused(%x, %w) {kind = "matmul"} body (%x, %w) {
      %m = MatMul(%x, %w)
      return m = %m
    }
    %r = Fused(%p) {kind = "pointwise"} body (%p) {
      %t = Tanh(%p)
      return t = %t
    }
    return r = %r
  }
  %b = Fused(%a, %x) {kind = "pointwise"} body (%a, %x) {
    %s = Add(%a, %x)
    return s = %s
  }
  return b = %b
})";

codegen::CompiledPlan compile(std::vector<std::string> architectures) {
  codegen::CompileOptions options;
  options.target = &codegen::cuda_target();
  options.architectures = std::move(architectures);
  return codegen::compile(ir::parse_graph(kProductAndSum), options);
}

using Schedules = std::vector<std::string>;  // of each variant, in order

/// The schedules of a plan's kernels on its architecture number `architecture`, by step and
/// function.
std::map<std::string, Schedules> schedules_of(const codegen::CompiledPlan& plan,
                                              std::uint32_t architecture) {
  std::map<std::string, Schedules> found;
  std::size_t number = 0;
  for (const auto& step : plan.parts.meta.steps)
    plan::for_each_step_work(step->work, [&](const plan::fb::WorkUnion& work) {
      ++number;
      const auto* kernel = work.AsKernelStep();
      if (kernel == nullptr) return;
      for (const auto& variant : kernel->variants)
        if (const auto& own = variant->architectures;
            own.empty() || std::find(own.begin(), own.end(), architecture) != own.end())
          found[fmt::format("{}.{}", step->name, number)].push_back(variant->schedule);
    });
  return found;
}

TEST(CompileArchitectures, EachHasTheSchedulesOfAPlanOfItsOwn) {
  const std::vector<std::string> all = {"sm_80", "sm_89", "sm_90", "sm_100", "sm_120"};
  const codegen::CompiledPlan together = compile(all);
  std::set<std::map<std::string, Schedules>> plans;
  for (std::uint32_t a = 0; a < all.size(); ++a) {
    const auto expected = schedules_of(compile({all[a]}), 0);
    plans.insert(expected);
    // What is tried in which order is one decision for all; what a kernel is, each one's own.
    for (const auto& [kernel, schedules] : schedules_of(together, a)) {
      const auto own = expected.find(kernel);
      if (own == expected.end()) continue;
      EXPECT_EQ(schedules, own->second) << kernel << " for " << all[a];
    }
  }
  EXPECT_GT(plans.size(), 2u);
}

TEST(CompileArchitectures, WhatIsAlikeIsThereOnce) {
  const codegen::CompiledPlan plan = compile({"sm_80", "sm_90"});
  for (const auto& step : plan.parts.meta.steps) {
    const auto* kernel = step->work.AsKernelStep();
    if (kernel == nullptr) continue;
    for (const auto& variant : kernel->variants) EXPECT_TRUE(variant->architectures.empty());
  }
}

}  // namespace
}  // namespace sinter::test
#endif
