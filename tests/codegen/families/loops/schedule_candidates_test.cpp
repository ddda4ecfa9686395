// SPDX-License-Identifier: Apache-2.0
// Schedules beside the rules': what is listed, that it compiles and computes the same, and
// how a choice gets into a plan.
#ifdef SINTER_WITH_CUDA
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sinter/error.h>

#include "codegen/compile.h"
#include "codegen/families/loops/emit_loops.h"
#include "codegen/targets/cuda/cuda_target.h"
#include "ir/text/text.h"
#include "runtime/plan/step_visitor.h"
#include "tests/codegen/emit/cuda_programs.h"
#include "tests/codegen/emulation/compile_all.h"
#include "tests/codegen/emulation/cuda_check.h"
#include "tests/support/paths.h"

namespace sinter::test {
namespace {

using codegen::VariantChoice;
using testing::HasSubstr;

constexpr std::size_t kMost = 48;

std::vector<VariantChoice> candidates_of(const ProgramBuilder& program, codegen::ExprTable& exprs,
                                         bool clusters) {
  codegen::KernelRequest request = program.request("listed");
  request.requested.list = true;
  request.requested.clusters = clusters;
  return codegen::emit_loops(request, exprs).choices;
}

std::string schedule_of(const codegen::EmittedKernel& kernel, std::size_t variant) {
  return kernel.step.variants.at(variant)->schedule;
}

/// Programs of every family.
struct Programs {
  codegen::ExprTable exprs{ir::Ranges{{"batch", {1, 64, nullptr}}, {"seq", {1, 512, nullptr}}}};
  std::vector<std::pair<std::string, ProgramBuilder>> all;

  Programs() {
    for (const char* name : {"add_layernorm", "embedding", "masked_softmax", "mean_pool",
                             "rotate_half", "merge_heads"}) {
      std::ifstream file(source_dir() + "/tests/codegen/goldens/" + name + ".loops");
      std::stringstream text;
      text << file.rdbuf();
      const std::string listing = text.str();
      add(name, listing.substr(0, listing.find("----\n")));
    }
    add("columns", R"(
graph @body(%x: f32[50, 40]) {
  %m = ReduceMax(%x) {axes = [0], keepdims = 1}
  %e = Sub(%x, %m)
  return e = %e
})");
    add("running", R"(
graph @body(%x: f16[24, 300]) {
  %c = Scan(%x) {axis = 1, combine = "sum"}
  return c = %c
})");
    all.emplace_back("long_rows", layer_norm(exprs, 20, 8192, DType::kFloat32));
    all.emplace_back("many_rows", layer_norm(exprs, 600, 1024, DType::kFloat16));
  }
  void add(const std::string& name, const std::string& graph) {
    all.emplace_back(name, lowered_program(exprs, ir::parse_graph(graph)));
  }
};

TEST(ScheduleCandidates, AreBoundedDistinctAndTheSameEveryTime) {
  Programs programs;
  for (const auto& [name, program] : programs.all) {
    const codegen::EmittedKernel kernel =
        codegen::emit_loops(program.request("plain"), programs.exprs);
    for (const bool clusters : {false, true}) {
      const auto choices = candidates_of(program, programs.exprs, clusters);
      ASSERT_EQ(choices.size(), kernel.step.variants.size()) << name;
      const auto again = candidates_of(program, programs.exprs, clusters);
      for (std::size_t v = 0; v < choices.size(); ++v) {
        const auto& list = choices[v].candidates;
        EXPECT_LE(list.size(), kMost) << name;
        EXPECT_EQ(list.at(0), schedule_of(kernel, v)) << name;
        EXPECT_EQ(std::set<std::string>(list.begin(), list.end()).size(), list.size()) << name;
        EXPECT_EQ(list, again[v].candidates) << name;
        if (!clusters && list[0].find("cluster") == std::string::npos) {
          EXPECT_THAT(list, testing::Each(testing::Not(HasSubstr("cluster")))) << name;
        }
      }
    }
    EXPECT_GT(candidates_of(program, programs.exprs, true)[0].candidates.size(), 4u) << name;
  }
}

TEST(ScheduleCandidates, Compile) {
  constexpr std::size_t kStride = 7;  // of each list: all of them take minutes
  for (const bool clusters : {false, true}) {
    Programs programs;
    std::vector<std::string> sources;
    for (const auto& [name, program] : programs.all) {
      std::string unit;  // starting the compiler takes most of the time
      const auto choices = candidates_of(program, programs.exprs, clusters);
      for (std::size_t v = 0; v < choices.size(); ++v)
        for (std::size_t c = 1; c < choices[v].candidates.size(); c += kStride) {
          codegen::KernelRequest request = program.request(fmt::format("{}_{}_{}", name, v, c));
          const codegen::ChosenSchedules chosen = {{v, {choices[v].candidates[c], "a test"}}};
          request.requested.chosen = &chosen;
          request.requested.clusters = clusters;
          const codegen::EmittedKernel kernel = codegen::emit_loops(request, programs.exprs);
          EXPECT_EQ(kernel.choices[v].refused, "") << name;
          EXPECT_EQ(schedule_of(kernel, v), choices[v].candidates[c]) << name;
          EXPECT_EQ(kernel.step.variants[v]->chosen_by, "a test");
          unit += kernel.source;
        }
      sources.push_back(std::move(unit));
    }
    const std::vector<std::string> architecture = {clusters ? "sm_90" : "sm_80"};
    EXPECT_EQ(codegen::compile_cuda(sources, architecture).size(), sources.size());
  }
}

TEST(ScheduleCandidates, ComputeWhatTheRulesDo) {
  constexpr std::size_t kStride = 7;  // of each list: the emulator runs one thread after the other
  const ir::Dim seq = ir::Dim::symbol("seq");
  CudaCheck check({{"seq", {1, 300, nullptr}}});
  const auto add = [&](const std::string& name, const ProgramBuilder& program,
                       const std::vector<ir::Bindings>& symbols) {
    const auto choices = candidates_of(program, check.exprs, true);
    for (std::size_t v = 0; v < choices.size(); ++v)
      for (std::size_t c = 1; c < choices[v].candidates.size(); c += kStride) {
        ProgramBuilder chosen = program;
        chosen.chosen = {{v, {choices[v].candidates[c], "a test"}}};
        check.add(fmt::format("{}_{}_{}", name, v, c), std::move(chosen), symbols);
      }
  };
  add("few_rows", layer_norm(check.exprs, 3, 1024, DType::kFloat16), {{}});
  add("many_rows", layer_norm(check.exprs, 530, 64, DType::kFloat16), {{}});
  add("symbolic", masked_softmax(check.exprs, 2, 3, seq, DType::kFloat32),
      {{{"seq", 1}}, {{"seq", 44}}, {{"seq", 299}}, {{"seq", 300}}});
  const auto graph = [&](const std::string& name, const std::string& text,
                         const std::vector<ir::Bindings>& symbols) {
    add(name, lowered_program(check.exprs, ir::parse_graph(text)), symbols);
  };
  graph("columns",
        "graph @g(%x: f32[21, 40]) { %m = ReduceMax(%x) {axes = [0], keepdims = 1} "
        "%e = Sub(%x, %m) return e = %e }",
        {{}});
  graph("running",
        "graph @g(%x: f16[9, 300]) { %c = Scan(%x) {axis = 1, combine = \"sum\"} return c = %c }",
        {{}});
  graph("pointwise", "graph @g(%x: f16[77, 128]) { %t = Tanh(%x) return t = %t }", {{}});
  EXPECT_EQ(check.run(), "");
}

// ---- choices in plans

constexpr const char* kModel = R"(
graph @main(%x: f32[batch, 8, 96], %y: f32[batch, 8, 96]) ranges {batch: 1..64} {
  %a = Fused(%x, %y) {kind = "pointwise"} body (%x, %y) {
    %s = Add(%x, %y)
    return s = %s
  }
  %d = Fused(%a) {kind = "reduction"} body (%x) {
    %m = ReduceSum(%x) {axes = [2], keepdims = 1}
    %s = Div(%x, %m)
    return s = %s
  }
  %e = Fused(%d, %y) {kind = "pointwise"} body (%x, %y) {
    %s = Add(%x, %y)
    return s = %s
  }
  return e = %e
})";

codegen::CompileOptions options() {
  codegen::CompileOptions options;
  options.target = &codegen::cuda_target();
  options.architectures = {"sm_90"};
  options.list_candidates = true;
  return options;
}

TEST(ChosenSchedules, KernelsAreListedWithWhatTheyCanBe) {
  const ir::Graph graph = ir::parse_graph(kModel);
  const auto kernels = codegen::compile(graph, options()).kernels;
  ASSERT_EQ(kernels.size(), 2u);
  EXPECT_EQ(kernels[0].uses, 2u);
  EXPECT_EQ(kernels[0].node, 0u);
  EXPECT_EQ(kernels[1].node, 1u);
  EXPECT_EQ(kernels[1].tactic, "");
  EXPECT_NE(kernels[0].key, kernels[1].key);
  EXPECT_GT(kernels[1].variants[0].candidates.size(), 4u);
  EXPECT_EQ(kernels[1].bytes, ir::Dim(2 * 4 * 8 * 96) * ir::Dim::symbol("batch"));

  auto plain = options();
  plain.list_candidates = false;
  const auto unlisted = codegen::compile(graph, plain).kernels;
  ASSERT_EQ(unlisted.size(), 2u);
  EXPECT_EQ(unlisted[0].key, kernels[0].key);
  EXPECT_TRUE(unlisted[0].variants[0].candidates.empty());
  // Names, buffers and other kernels are no part of the key; sizes and options are.
  auto precise = options();
  precise.precise_math = true;
  EXPECT_NE(codegen::compile(graph, precise).kernels[0].key, kernels[0].key);
  std::string other = kModel;
  other.replace(other.find("1..64"), 5, "1..32");
  EXPECT_NE(codegen::compile(ir::parse_graph(other), options()).kernels[0].key, kernels[0].key);
}

TEST(ChosenSchedules, TakeTheRulesPlaceInPlans) {
  const ir::Graph graph = ir::parse_graph(kModel);
  const auto by_rule = codegen::compile(graph, options());
  auto chosen = options();
  const codegen::KernelInfo& rows = by_rule.kernels[1];
  const std::string schedule = rows.variants[0].candidates.at(2);
  chosen.schedules[rows.key][0] = {schedule, "tuning on a test's GPU"};
  chosen.schedules[by_rule.kernels[0].key][0] = {"pointwise vector=3", "somebody"};
  chosen.schedules["another kernel"][0] = {"pointwise", "somebody"};
  const auto compiled = codegen::compile(graph, chosen);
  const auto variant = [](const codegen::CompiledPlan& plan, std::size_t step) -> auto& {
    return *plan.parts.meta.steps[step]->work.AsKernelStep()->variants[0];
  };
  EXPECT_EQ(variant(compiled, 1).schedule, schedule);
  EXPECT_EQ(variant(compiled, 1).chosen_by, "tuning on a test's GPU");
  EXPECT_EQ(variant(compiled, 0).schedule, variant(by_rule, 0).schedule);
  EXPECT_EQ(variant(compiled, 0).chosen_by, "");
  EXPECT_EQ(compiled.kernels[0].variants[0].refused, "pointwise vector=3");
  EXPECT_EQ(compiled.kernels[1].variants[0].refused, "");
  EXPECT_TRUE(plan::serialize_plan(compiled.parts) ==
              plan::serialize_plan(codegen::compile(graph, chosen).parts));
  EXPECT_FALSE(plan::serialize_plan(compiled.parts) == plan::serialize_plan(by_rule.parts));

  auto forced = options();
  forced.schedule = schedule;
  EXPECT_THROW(codegen::compile(graph, forced), Error);  // of the pointwise kernels, too
}

// Products and attention list theirs as well; compiling all of them would take minutes.
TEST(ChosenSchedules, ProductsAndAttentionHaveCandidates) {
  const ir::Graph graph = ir::parse_graph(R"(
graph @main(%x: f16[32, 256], %q: f16[2, 4, 64, 64], %k: f16[2, 4, 64, 64]) {
  %w = const f16[256, 512] random(1)
  %a = Fused(%x, %w) {kind = "gemm"} body (%x, %w) {
    %m = Fused(%x, %w) {kind = "matmul"} body (%x, %w) {
      %p = MatMul(%x, %w)
      return p = %p
    }
    %r = Fused(%m) {kind = "pointwise"} body (%m) {
      %t = Tanh(%m)
      return t = %t
    }
    return r = %r
  }
  %y = Fused(%q, %k) {kind = "attention"} body (%q, %k) {
    %s = Attention(%q, %k, %k) {scale = 0.125}
    return s = %s
  }
  return a = %a, y = %y
})");
  const auto compiled = codegen::compile(graph, options());
  const auto& kernels = compiled.kernels;
  std::map<std::string, const codegen::KernelInfo*> by_family;
  for (const auto& kernel : kernels) {
    const std::string& rule = kernel.variants[0].candidates.at(0);
    by_family[rule.substr(0, rule.find(' ')) + " " + kernel.tactic] = &kernel;
  }
  for (const char* family : {"warp_tile gemm", "attention "}) {
    ASSERT_TRUE(by_family.contains(family)) << family;
    const codegen::KernelInfo& kernel = *by_family[family];
    const auto& candidates = kernel.variants[0].candidates;
    ASSERT_GT(candidates.size(), 8u) << family;
    EXPECT_LE(candidates.size(), kMost) << family;
    // The first and the last beside the rule's, each as a plan of its own.
    for (const std::string& schedule : {candidates[1], candidates.back()}) {
      auto chosen = options();
      chosen.list_candidates = false;
      chosen.schedules[kernel.key][0] = {schedule, "a test"};
      const auto plan = codegen::compile(graph, chosen);
      for (const auto& other : plan.kernels)
        if (other.key == kernel.key) {
          EXPECT_EQ(other.variants[0].refused, "");
        }
      bool found = false;
      for (const auto& step : plan.parts.meta.steps)
        plan::for_each_step_work(step->work, [&](const plan::fb::WorkUnion& work) {
          if (const auto* made = work.AsKernelStep())
            for (const auto& variant : made->variants)
              found = found || (variant->schedule == schedule && variant->chosen_by == "a test");
        });
      EXPECT_TRUE(found) << schedule;
    }
  }
}

}  // namespace
}  // namespace sinter::test
#endif
