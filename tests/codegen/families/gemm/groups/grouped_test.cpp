// SPDX-License-Identifier: Apache-2.0
// Matmuls of rows sorted by group, each kernel of the family: emitted with given schedules, run on
// the emulator and compared with the reference evaluation of their region.
#ifdef SINTER_WITH_CUDA
#include <numeric>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codegen/compile.h"
#include "codegen/targets/cuda/cuda_target.h"
#include "fusion/pipeline.h"
#include "ir/text/text.h"
#include "runtime/plan/plan_data.h"
#include "tests/codegen/families/gemm/gemm_check.h"
#include "tests/codegen/families/gemm/quantized_graphs.h"

namespace sinter::test {
namespace {

/// y = silu(x w + bias) + r; `offsets` are of `groups` groups.
std::string grouped_graph(const char* type, const std::string& m, int groups, int n, int k) {
  return fmt::format(
      "graph @g(%x: {0}[{1}, {4}], %w: {0}[{2}, {4}, {3}], %o: i32[{5}], %b: {0}[{3}], %r: "
      "{0}[{1}, {3}]) {{\n"
      "  %0 = GroupedMatMul(%x, %w, %o) : {0}[{1}, {3}]\n"
      "  %1 = Add(%0, %b) : {0}[{1}, {3}]\n"
      "  %2 = Silu(%1) : {0}[{1}, {3}]\n"
      "  %3 = Add(%2, %r) : {0}[{1}, {3}]\n"
      "  return y = %3\n}}\n",
      type, m, groups, n, k, groups + 1);
}

/// y = silu(left half) * right half of x w.
std::string gated_groups(const char* type, int m, int groups, int n, int k) {
  return fmt::format(
      "graph @g(%x: {0}[{1}, {4}], %w: {0}[{2}, {4}, {5}], %o: i32[{6}]) {{\n"
      "  %0 = GroupedMatMul(%x, %w, %o) : {0}[{1}, {5}]\n"
      "  %1 = Slice(%0) {{shape = [{1}, {3}], starts = [0, 0], steps = [1, 1]}} : {0}[{1}, {3}]\n"
      "  %2 = Slice(%0) {{shape = [{1}, {3}], starts = [0, {3}], steps = [1, 1]}} : {0}[{1}, {3}]\n"
      "  %3 = Silu(%1) : {0}[{1}, {3}]\n"
      "  %4 = Mul(%3, %2) : {0}[{1}, {3}]\n"
      "  return y = %4\n}}\n",
      type, m, groups, n, k, 2 * n, groups + 1);
}

/// y = silu(even columns) * odd columns of x w + bias, or of w in a format.
std::string alternating_groups(std::string graph, int m, int n) {
  const std::string type =
      graph.substr(graph.find("%x: ") + 4, graph.find('[') - graph.find("%x: ") - 4);
  graph.erase(graph.find("  %1 ="));
  return graph + fmt::format(
                     "  %e = Slice(%0) {{shape = [{1}, {2}], starts = [0, 0], steps = [1, 2]}} : "
                     "{0}[{1}, {2}]\n"
                     "  %o1 = Slice(%0) {{shape = [{1}, {2}], starts = [0, 1], steps = [1, 2]}} : "
                     "{0}[{1}, {2}]\n"
                     "  %a = Silu(%e) : {0}[{1}, {2}]\n"
                     "  %g = Mul(%a, %o1) : {0}[{1}, {2}]\n"
                     "  return y = %g\n}}\n",
                     type, m, n);
}

/// y = x w + r with weights in a format.
std::string scaled_graph(const char* type, int m, int groups, int n, int k, const Weights& w) {
  const int scales = w.group == 0 ? 1 : (k + w.group - 1) / w.group;
  const std::string weight =
      w.bits == 8 ? fmt::format("{}[{}, {}, {}]", w.floats ? "f8e4m3fn" : "i8", groups, n, k)
                  : fmt::format("u8[{}, {}, {}]", groups, n, (k + 1) / 2);
  const bool zeros = w.zeros[0] != '\0';
  return fmt::format(
      "graph @g(%x: {0}[{1}, {3}], %w: {4}, %s: {5}[{10}, {2}, {6}]{7}, %o: i32[{11}], %r: "
      "{0}[{1}, {2}]) {{\n"
      "  %0 = GroupedMatMul(%x, %w, %s{8}, %o) {{w = \"{9}\"}} : {0}[{1}, {2}]\n"
      "  %1 = Add(%0, %r) : {0}[{1}, {2}]\n"
      "  return y = %1\n}}\n",
      type, m, n, k, weight, w.scales, scales,
      w.has_factors() ? fmt::format(", %f: f32[{}, {}, 1]", groups, n)
      : zeros         ? fmt::format(", %z: {}[{}, {}, {}]", w.zeros, groups, n, scales)
                      : "",
      w.has_factors() ? ", %f"
      : zeros         ? ", %z"
                      : "",
      format_text(w), groups, groups + 1);
}

/// `graph` with rows x gathered from 9.
std::string gathered(std::string graph) {
  const auto x = graph.find("%x: "), row = graph.find('[', x), comma = graph.find(',', row);
  const std::string rows = graph.substr(row + 1, comma - row - 1);
  const std::string type = graph.substr(x + 4, graph.find(']', x) - x - 3);
  graph.replace(row + 1, comma - row - 1, "9");
  graph.insert(x, fmt::format("%i: i64[{}], ", rows));
  const auto body = graph.find("{\n");
  graph.insert(body + 2, fmt::format("  %rows = Gather(%x, %i) {{axis = 0}} : {}\n", type));
  const auto product = graph.find("MatMul(%x");
  return graph.replace(product, 9, "MatMul(%rows");
}

// Rows in front of the first group and behind the last; groups without rows, of one and of many.
const std::vector<std::int64_t> kOffsets[] = {{0, 0, 5, 5, 6, 40, 41, 70},
                                              {3, 3, 17, 17, 17, 60, 61, 61},
                                              {0, 0, 0, 0, 0, 0, 0, 0},
                                              {0, 70, 70, 70, 70, 70, 70, 70},
                                              {70, 70, 70, 70, 70, 70, 70, 70}};

constexpr int kGroups = 7, kRows = 70;

void add_all(GemmCheck& check, const std::string& graph, const std::string& schedule) {
  for (const auto& offsets : kOffsets) {
    check.offsets = offsets;
    check.add(fmt::format("g{}", check.kernels.size()), graph, schedule);
  }
}

TEST(CudaGrouped, ByWarps) {
  GemmCheck check;
  add_all(check, grouped_graph("f16", std::to_string(kRows), kGroups, 72, 136),
          "warp_tile 32x64x64 warps=1x2x2 stages=4 split_k=1 cluster_n=1");
  check.programmatic_launch = true;
  add_all(check, grouped_graph("bf16", std::to_string(kRows), kGroups, 40, 200),
          "warp_tile 16x32x128 warps=1x1x4 stages=4 split_k=2 cluster_n=1");
  EXPECT_EQ(check.run(), "");
}

TEST(CudaGrouped, ExactFloat32) {
  GemmCheck check;
  check.offsets = kOffsets[0];
  check.add("exact", grouped_graph("f32", std::to_string(kRows), kGroups, 72, 136), "");
  check.offsets = kOffsets[1];
  check.add("clipped", grouped_graph("f32", std::to_string(kRows), kGroups, 33, 20), "");
  EXPECT_EQ(check.run(), "");
}

TEST(CudaGrouped, SmallMOfFloatsAndGates) {
  GemmCheck check;
  add_all(check, gated_groups("f16", kRows, kGroups, 48, 264),
          small_m_scheduled("8x64x128 warps=1x1x4 stages=3", 2));
  add_all(check, grouped_graph("bf16", std::to_string(kRows), kGroups, 72, 136),
          small_m_scheduled("16x64x64 warps=1x2x2 stages=4"));
  EXPECT_EQ(check.run(), "");
}

TEST(CudaGrouped, SmallMOfQuantizedWeights) {
  GemmCheck check;
  check.programmatic_launch = true;
  add_all(check, scaled_graph("f16", kRows, kGroups, 48, 264, {4, 32}),
          small_m_scheduled("4x16x128 warps=1x1x2 stages=3"));
  add_all(check, scaled_graph("f16", kRows, kGroups, 80, 264, {8, 0}),
          small_m_scheduled("8x32x128 warps=1x1x4 stages=3", 2));
  check.offsets = kOffsets[0];
  check.add("zeros", scaled_graph("bf16", kRows, kGroups, 48, 264, {4, 64, "f16", "i8"}),
            small_m_scheduled("16x64x64 warps=1x2x1 stages=2"));
  check.add("nvfp4", scaled_graph("f16", kRows, kGroups, 48, 264, {4, 16, "f8e4m3fn", "", true}),
            "");
  check.add("many", scaled_graph("f16", kRows, kGroups, 48, 264, {4, 32}),
            small_m_scheduled("64x64x64 warps=1x4x1 stages=3"));
  EXPECT_EQ(check.run(), "");
}

TEST(CudaGrouped, RowsAreReadWhereTheyLie) {
  GemmCheck check;
  check.with_prologue = true;
  const std::string rows = std::to_string(kRows);
  add_all(check, gathered(gated_groups("f16", kRows, kGroups, 48, 264)),
          small_m_scheduled("8x64x128 warps=1x1x4 stages=3", 2));
  check.programmatic_launch = true;
  add_all(check, gathered(scaled_graph("bf16", kRows, kGroups, 48, 264, {4, 32})),
          small_m_scheduled("4x16x128 warps=1x1x2 stages=3"));
  add_all(check, gathered(grouped_graph("f16", rows, kGroups, 72, 136)),
          "warp_tile 32x64x64 warps=1x2x2 stages=4 split_k=1 cluster_n=1");
  check.offsets = kOffsets[0];
  check.add("exact", gathered(grouped_graph("f32", rows, kGroups, 33, 20)), "");
  check.add("chosen", gathered(grouped_graph("f16", rows, kGroups, 72, 136)), "");
  EXPECT_EQ(check.run(), "");
  check.expect_code();
}

TEST(CudaGrouped, WeightsOfKnownGroupsComeFirst) {
  GemmCheck check;
  check.programmatic_launch = check.b_is_weight = true;
  add_all(check, grouped_graph("f16", std::to_string(kRows), kGroups, 72, 136),
          small_m_scheduled("8x64x64 warps=1x2x2 stages=4"));
  add_all(check, scaled_graph("f16", kRows, kGroups, 48, 264, {4, 32}),
          small_m_scheduled("4x16x128 warps=1x1x2 stages=3"));
  add_all(check, grouped_graph("bf16", std::to_string(kRows), kGroups, 72, 136),
          "warp_tile 32x64x64 warps=1x2x2 stages=4 split_k=1 cluster_n=1");
  check.offsets = kOffsets[0];
  check.by_warpgroups = true;
  check.add("tma", grouped_graph("f16", std::to_string(kRows), kGroups, 72, 136), "");
  EXPECT_EQ(check.run(), "");
  check.expect_code();
  for (const auto& kernel : check.kernels)  // tiles wait behind the copies of weights
    EXPECT_THAT(kernel.source, testing::Not(testing::HasSubstr("grid_dependency_wait();")));
}

TEST(CudaGrouped, ByWarpgroups) {
  GemmCheck check;
  for (const char* tile : {"pingpong 64x64x64 consumers=2 warpgroups=1 stages=4 blocks=3 "
                           "passes=spread split_k=1 cluster_n=1",
                           "pingpong 128x64x64 consumers=1 warpgroups=2 stages=3 blocks=132 "
                           "passes=rolled split_k=1 cluster_n=1",
                           "tma 64x64x64 warpgroups=1 stages=4 split_k=1 cluster_n=1"})
    add_all(check, grouped_graph("f16", std::to_string(kRows), kGroups, 72, 136), tile);
  check.offsets = kOffsets[0];
  check.add("gated", gated_groups("f16", kRows, kGroups, 64, 136),
            "pingpong 64x128x64 consumers=2 warpgroups=1 stages=4 blocks=132 passes=spread "
            "split_k=1 cluster_n=1");
  EXPECT_EQ(check.run(), "");
}

TEST(CudaGrouped, AlternatingGates) {
  GemmCheck check;
  const auto plain = [&](const char* type) {
    return alternating_groups(gated_groups(type, kRows, kGroups, 48, 264), kRows, 48);
  };
  add_all(check, plain("f16"), small_m_scheduled("8x32x128 warps=1x1x4 stages=3", 2));
  check.programmatic_launch = true;
  add_all(check,
          alternating_groups(scaled_graph("bf16", kRows, kGroups, 96, 264, {4, 32}), kRows, 48),
          small_m_scheduled("4x16x128 warps=1x1x2 stages=3"));
  check.offsets = kOffsets[0];
  check.add("chosen", plain("bf16"), "");
  check.by_warpgroups = true;
  check.add("tma", plain("f16"), "");
  EXPECT_EQ(check.run(), "");
  check.expect_code();
}

/// y = r + the sum over a token's rows of x w, times shares; choices are sorted in front.
std::string combined_graph(const char* type, int tokens, int chosen, int groups, int n, int k) {
  return fmt::format(
      "graph @g(%c: i32[{1}, {2}], %x: {0}[{6}, {5}], %w: {0}[{3}, {4}, {5}], %s: f32[{1}, {2}], "
      "%r: f32[{1}, {4}]) {{\n"
      "  %flat = Reshape(%c) {{shape = [{6}]}} : i32[{6}]\n"
      "  %order, %o = GroupByIndex(%flat) {{extent = [{7}]}} : i32[{6}], i32[{8}]\n"
      "  %places = LastByIndex(%order) {{extent = [{6}]}} : i32[{6}]\n"
      "  %rows = Reshape(%places) {{shape = [{1}, {2}]}} : i32[{1}, {2}]\n"
      "  %0 = GroupedMatMul(%x, %w, %o) {{transposed = 1}} : {0}[{6}, {4}]\n"
      "  %1 = Gather(%0, %rows) {{axis = 0}} : {0}[{1}, {2}, {4}]\n"
      "  %2 = Cast(%1) {{to = f32}} : f32[{1}, {2}, {4}]\n"
      "  %3 = Reshape(%s) {{shape = [{1}, {2}, 1]}} : f32[{1}, {2}, 1]\n"
      "  %4 = Mul(%2, %3) : f32[{1}, {2}, {4}]\n"
      "  %5 = ReduceSum(%4) {{axes = [1], keepdims = 0}} : f32[{1}, {4}]\n"
      "  %6 = Add(%5, %r) : f32[{1}, {4}]\n"
      "  %7 = Cast(%6) {{to = {0}}} : {0}[{1}, {4}]\n"
      "  return y = %7\n}}\n",
      type, tokens, chosen, groups, n, k, tokens * chosen, groups + 1, groups + 2);
}

TEST(CudaGrouped, RowsOfFewTokensAreAddedUp) {
  GemmCheck check;
  // The last row has no expert, and is zero.
  check.offsets = {0, 0, 3, 3, 4, 9, 9, 11, 12};
  check.add("chosen", combined_graph("f16", 3, 4, 7, 72, 264), "");
  check.programmatic_launch = check.b_is_weight = true;
  check.add("known", combined_graph("bf16", 4, 3, 7, 48, 136), "");
  check.add("given", combined_graph("f16", 2, 6, 7, 64, 200),
            small_m_scheduled("1x32x256 warps=1x1x8 stages=3", 6));
  check.offsets = {0, 0, 1, 1, 1, 1, 1, 1, 1};
  check.add("one", combined_graph("f16", 1, 1, 7, 64, 200), "");
  EXPECT_EQ(check.run(), "");
  check.expect_code();
}

/// Floats of 8 bits with a scale for each row of x, and for each column of each group.
std::string eight_bit_graph(int m, int groups, int n, int k) {
  return fmt::format(
      "graph @g(%x: f8e4m3fn[{0}, {3}], %w: f8e4m3fn[{1}, {2}, {3}], %o: i32[{4}], %s: "
      "f32[{0}, 1], %c: f32[{0}, {2}]) {{\n"
      "  %0 = GroupedMatMul(%x, %w, %o) {{transposed = 1}} : f32[{0}, {2}]\n"
      "  %1 = Mul(%0, %s) : f32[{0}, {2}]\n"
      "  %2 = Mul(%1, %c) : f32[{0}, {2}]\n"
      "  %3 = Cast(%2) {{to = bf16}} : bf16[{0}, {2}]\n"
      "  return y = %3\n}}\n",
      m, groups, n, k, groups + 1);
}

TEST(CudaGrouped, EightBitFloats) {
  GemmCheck check;
  const std::string graph = eight_bit_graph(kRows, kGroups, 80, 272);
  add_all(check, graph, "warp_tile 32x32x128 warps=2x2x1 stages=3 split_k=1 cluster_n=1");
  check.offsets = kOffsets[0];
  check.add("tma", graph, "tma 64x32x128 warpgroups=1 stages=3 split_k=1 cluster_n=1");
  check.offsets = kOffsets[1];
  check.add("pingpong", graph,
            "pingpong 64x64x128 consumers=2 warpgroups=1 stages=4 blocks=3 passes=spread split_k=1 "
            "cluster_n=1");
  EXPECT_EQ(check.run(), "");
}

TEST(CudaGrouped, MixedInput) {
  GemmCheck check;
  check.by_warpgroups = true;
  check.offsets = kOffsets[1];
  check.add("nibbles", scaled_graph("f16", kRows, kGroups, 128, 264, {4, 32}), "");
  check.add("bytes", scaled_graph("bf16", kRows, kGroups, 128, 264, {8, 0}), "");
  EXPECT_EQ(check.run(), "");
}

TEST(CudaGrouped, ChosenSchedulesTakeAnyRows) {
  GemmCheck check({{"m", {0, 4096}}});
  check.offsets = kOffsets[0];
  std::vector<ir::Bindings> rows;
  for (const std::int64_t m : {1, 9, 33, 70, 200}) rows.push_back({{"m", m}});
  check.add("floats", grouped_graph("f16", "m", kGroups, 72, 136), "", rows);
  check.add("wide", grouped_graph("f32", "m", kGroups, 72, 136), "", rows);
  EXPECT_EQ(check.run(), "");
  check.expect_code();
}

// While tactics are timed, rows choose groups evenly: with offsets of zero no group has rows.
TEST(CudaGrouped, TimedRowsChooseGroupsEvenly) {
  fusion::Context context;
  context.target = codegen::cuda_target().traits();
  codegen::CompileOptions options;
  options.target = &codegen::cuda_target();
  options.architectures = {"sm_90"};
  const auto compiled = codegen::compile(
      fusion::run_pipeline(ir::parse_graph(grouped_graph("f16", "4096", 4, 72, 136)), context)
          .graph,
      options);
  const auto parsed = plan::parse_plan(plan::serialize_plan(compiled.parts));
  ASSERT_EQ(parsed->meta.steps.size(), 1u);
  const auto* choice = parsed->meta.steps[0]->work.AsTacticStep();
  ASSERT_NE(choice, nullptr);
  ASSERT_EQ(choice->samples.size(), 1u);
  const auto& buffer = *parsed->meta.buffers[choice->samples[0].buffer()];
  EXPECT_EQ(static_cast<DType>(buffer.dtype), DType::kInt32);
  EXPECT_EQ(parsed->meta.expressions[choice->samples[0].last()].value(), 4096);
}

}  // namespace
}  // namespace sinter::test
#endif
