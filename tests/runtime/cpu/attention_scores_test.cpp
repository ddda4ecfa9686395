// SPDX-License-Identifier: Apache-2.0
// A score that no file of the compiler knows goes into attention, on both targets.
#include <functional>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codegen/compile.h"
#include "codegen/targets/cpu/cpu_target.h"
#include "codegen/targets/cuda/cuda_target.h"
#include "fusion/pipeline.h"
#include "ir/reference/evaluate.h"
#include "ir/text/text.h"
#include "runtime/plan/plan_file.h"
#include "sinter/session.h"

namespace sinter::testing {
namespace {

/// A penalty by the key's distance, bounded by tanh, with a slope for each head; keys may be
/// hidden.
std::string distance_penalty(const char* type) {
  std::string text = R"(graph @main(%q: T[2, 3, m, 30], %k: T[2, 3, n, 30], %v: T[2, 3, n, 24],
                                    %slopes: T[3, 1, 1], %keep: bool[2, 1, 1, n])
                          ranges {m: 1..4096, n: 1..4096} {
    %row = Iota() {axis = 0, dtype = i64, shape = [m, 1]}
    %key = Iota() {axis = 1, dtype = i64, shape = [1, n]}
    %far = Sub(%key, %row)
    %f = Cast(%far) {to = T}
    %unit = const T[] {0.05}
    %g = Mul(%f, %unit)
    %t = Tanh(%g)
    %a = Abs(%t)
    %w = Mul(%a, %slopes)
    %scale = const T[] {0.25}
    %low = const T[] {-inf}
    %kt = Transpose(%k) {perm = [0, 1, 3, 2]}
    %s = MatMul(%q, %kt)
    %s1 = Mul(%s, %scale)
    %r = Sub(%s1, %w)
    %m1 = Where(%keep, %r, %low)
    %p = Softmax(%m1) {axis = 3}
    %y = MatMul(%p, %v)
    return y = %y
  })";
  for (std::size_t at = 0; (at = text.find('T', at)) != std::string::npos; at += 2) {
    const bool is_type =
        at > 0 && (text[at - 1] == ' ') && (text[at + 1] == '[' || text[at + 1] == '}');
    if (is_type) text.replace(at, 1, type);
  }
  return text;
}

ir::Graph fused(const std::string& text, const ir::TargetTraits& target) {
  fusion::Context context;
  context.target = target;
  return fusion::run_pipeline(ir::parse_graph(text), context).graph;
}

std::size_t kernels_of(const ir::Graph& graph, const char* kind) {
  std::size_t count = 0;
  for (const ir::Node& node : graph.nodes())
    count += node.op->name == "Fused" && node.attrs.get_string("kind") == kind;
  return count;
}

TEST(AttentionScores, AToyGoesIntoTheCpusAttention) {
  const std::string text = distance_penalty("f32");
  const ir::Graph graph = fused(text, codegen::cpu_target().traits());
  ASSERT_EQ(graph.nodes().size(), 1U) << ir::print(graph);
  ASSERT_EQ(kernels_of(graph, "attention"), 1U);
  const auto compiled = codegen::compile(graph, {});
  Session session(Plan::from_memory(plan::serialize_plan(compiled.parts)), {.threads = 2});
  for (const auto& [m, n] : {std::pair<std::int64_t, std::int64_t>{1, 7}, {5, 300}, {140, 140}}) {
    std::mt19937 random(7);
    const auto drawn = [&](ir::Ints shape) {
      std::vector<double> values(static_cast<std::size_t>(
          std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>())));
      for (double& value : values) value = std::normal_distribution<>()(random);
      return ir::Tensor::from_doubles(DType::kFloat32, std::move(shape), values);
    };
    std::vector<double> keep(static_cast<std::size_t>(2 * n), 1);
    for (std::size_t i = 1; i < keep.size(); i += 3) keep[i] = 0;
    const std::vector<ir::Tensor> inputs{
        drawn({2, 3, m, 30}), drawn({2, 3, n, 30}), drawn({2, 3, n, 24}), drawn({3, 1, 1}),
        ir::Tensor::from_doubles(DType::kBool, {2, 1, 1, n}, keep)};
    for (std::size_t i = 0; i < inputs.size(); ++i)
      session.set_input(
          i, {inputs[i].dtype(), inputs[i].shape(), inputs[i].bytes().data(), Memory::kHost});
    session.run();
    const std::vector<double> expected =
        ir::evaluate(ir::parse_graph(text), inputs)[0].to_doubles();
    const std::span<const float> found = session.output(0).as<float>();
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i)
      ASSERT_NEAR(found[i], expected[i], 2e-5) << m << " " << n << " " << i;
  }
}

#ifdef SINTER_WITH_CUDA
TEST(AttentionScores, AToyIsOneKernelForTheGpu) {
  const ir::Graph graph = fused(distance_penalty("f16"), codegen::cuda_target().traits());
  ASSERT_EQ(kernels_of(graph, "attention"), 1U) << ir::print(graph);
  EXPECT_EQ(graph.nodes().size(), 1U) << ir::print(graph);
  codegen::CompileOptions options;
  options.target = &codegen::cuda_target();
  options.architectures = {"sm_80", "sm_90"};
  const auto compiled = codegen::compile(graph, options);
  ASSERT_EQ(compiled.parts.meta.steps.size(), 1U);
}
#endif

}  // namespace
}  // namespace sinter::testing
