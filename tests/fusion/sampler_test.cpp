// SPDX-License-Identifier: Apache-2.0
// What append_sampler makes of a decoder, as text.
#include <gtest/gtest.h>

#include "codegen/targets/cpu/cpu_target.h"
#include "codegen/targets/cuda/cuda_target.h"
#include "fusion/append_sampler.h"
#include "fusion/pipeline.h"
#include "ir/text/text.h"
#include "support.h"

namespace sinter::fusion::test {
namespace {

constexpr const char* kDecoder = R"(
graph @main(%input_ids: i64[1, n], %position: i64[1], %cache: f32[8, 4]) ranges {n: 1..4} {
  %table = const f32[4, 4] {1, 2, 3, 5, 8, 13, 21, 34, 55, 2, 4, 6, -1, -2, -3, -4}
  %x = Gather(%table, %input_ids) {axis = 0}
  %rows = Reshape(%x) {shape = [n, 4]}
  %row = Iota() {axis = 0, dtype = i64, shape = [n, 1]}
  %place = Add(%row, %position)
  %column = Iota() {axis = 1, dtype = i64, shape = [1, 4]}
  %next = Scatter(%cache, %rows, %place, %column)
  %sum = ReduceSum(%next) {axes = [0], keepdims = 1}
  %logits = Add(%sum, %x)
  return logits = %logits, cache_next = %next
}
)";

TEST(AppendSampler, FeedsTheTokenBack) {
  const ir::Graph found = append_sampler(ir::parse_graph(kDecoder), {});
  ir::verify(found);
  EXPECT_EQ(
      ir::print(found),
      R"(graph @main(%input_ids: i64[1, n], %position: i64[1], %cache: f32[8, 4], %sampled_token: i64[1]) ranges {n: 1..4} states {output 2 -> input 3, output 3 -> input 1} {
  %0 = const i64[] {0}
  %1 = Less(%input_ids, %0) : bool[1, n]  # from sampler
  %2 = Where(%1, %sampled_token, %input_ids) : i64[1, n]  # from sampler
  %table = const f32[4, 4] {1, 2, 3, 5, 8, 13, 21, 34, 55, 2, 4, 6, -1, -2, -3, -4}
  %x = Gather(%table, %2) {axis = 0} : f32[1, n, 4]
  %rows = Reshape(%x) {shape = [n, 4]} : f32[n, 4]
  %row = Iota() {shape = [n, 1]} : i64[n, 1]
  %place = Add(%row, %position) : i64[n, 1]
  %column = Iota() {axis = 1, shape = [1, 4]} : i64[1, 4]
  %next = Scatter(%cache, %rows, %place, %column) : f32[8, 4]
  %sum = ReduceSum(%next) {axes = [0]} : f32[1, 4]
  %logits = Add(%sum, %x) : f32[1, n, 4]
  %3 = Reshape(%logits) {shape = [n, 4]} : f32[n, 4]  # from sampler
  %4 = Slice(%3) {shape = [1, 4], starts = [n - 1, 0], steps = [1, 1]} : f32[1, 4]  # from sampler
  %5 = ReduceMax(%4) {axes = [1]} : f32[1, 1]  # from sampler
  %6 = Equal(%4, %5) : bool[1, 4]  # from sampler
  %7 = const i64[] {4}
  %8 = Where(%6, %column, %7) : i64[1, 4]  # from sampler
  %9 = ReduceMin(%8) {axes = [1]} : i64[1, 1]  # from sampler
  %10 = Equal(%9, %7) : bool[1, 1]  # from sampler
  %11 = const i64[] {-1}
  %12 = Where(%10, %11, %9) : i64[1, 1]  # from sampler
  %13 = Reshape(%12) {shape = [1]} : i64[1]  # from sampler
  %14 = Size() {value = [n]} : i64[]  # from sampler
  %15 = Add(%position, %14) : i64[1]  # from sampler
  return cache_next = %next, token = %13, next_sampled_token = %13, next_position = %15
}
)");
}

/// The passes find the cache as before, and change nothing of what is computed.
TEST(AppendSampler, GoesThroughThePasses) {
  SamplerOptions draws;
  draws.temperature = 0.7, draws.top_k = 3, draws.top_p = 0.9;
  for (const SamplerOptions& options : {SamplerOptions(), draws})
    for (const TargetTraits& target :
         {codegen::cpu_target().traits(), codegen::cuda_target().traits()}) {
      const ir::Graph before = append_sampler(ir::parse_graph(kDecoder), options);
      Context context;
      context.target = target;
      const ir::Graph after = run_checked(before, context).graph;
      expect_fused(after);
      expect_equivalent(before, after, 1e-6);
      EXPECT_EQ(after.states().size(), options.is_greedy() ? 3u : 4u);
    }
}

}  // namespace
}  // namespace sinter::fusion::test
