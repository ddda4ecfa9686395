// SPDX-License-Identifier: Apache-2.0
// Product kernels with schedules of every kind, each forced, against the reference: tiles, splits
// of k over clusters, rows over clusters, and both. The choice that a session makes would hide
// most.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "codegen/compile.h"
#include "codegen/targets/cuda/cuda_target.h"
#include "ir/text/text.h"
#include "runtime/plan/plan_data.h"
#include "tests/gpu/cases.h"
#include "tests/gpu/support.h"

namespace sinter::gpu_test {
namespace {

ir::Graph gelu_graph(const std::string& type, int rows) {
  return ir::parse_graph(fmt::format(R"(
graph @main(%x: {0}[{1}, 384], %w: {0}[384, 768], %b: {0}[768], %r: {0}[{1}, 768]) {{
  %p = MatMul(%x, %w)
  %s = Add(%p, %b)
  %g = Gelu(%s)
  %y = Add(%g, %r)
  return y = %y
}})",
                                     type, rows));
}

ir::Graph norm_graph(const std::string& type, int rows) {
  return ir::parse_graph(fmt::format(R"(
graph @main(%x: {0}[{1}, 640], %w: {0}[384, 640], %b: {0}[384], %r: {0}[{1}, 384], %g: {0}[384]) {{
  %t = Transpose(%w) {{perm = [1, 0]}}
  %p = MatMul(%x, %t)
  %s = Add(%p, %b)
  %e = Add(%s, %r)
  %y = LayerNorm(%e, %g, %b) {{axis = 1, epsilon = 1e-5}}
  return y = %y, e = %e
}})",
                                     type, rows));
}

void check(const ir::Graph& graph, const std::string& schedule, DType type) {
  const auto inputs = random_inputs(graph, {});
  Session session(compile_with(graph, schedule));
  const auto outputs = run(session, graph, inputs);
  EXPECT_EQ(session.launches(), 1u);
  expect_reference(graph, inputs, outputs, tolerance_of(type));
  for (int repeat = 0; repeat < 3; ++repeat) expect_same_bits(run(session, graph, inputs), outputs);
}

class Tiles : public ::testing::TestWithParam<const char*> {};

TEST_P(Tiles, AgreeWithTheReference) {
  for (const int splits : {1, 2, 3, 8}) {
    const std::string schedule =
        fmt::format("warp_tile {} split_k={} cluster_n=1", GetParam(), splits);
    SCOPED_TRACE(schedule);
    for (const int rows : {5, 64, 197}) check(gelu_graph("f16", rows), schedule, DType::kFloat16);
    check(gelu_graph("bf16", 70), schedule, DType::kBFloat16);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Product, Tiles,
    ::testing::Values("16x16x128 warps=1x1x4 stages=4", "16x32x128 warps=1x1x4 stages=4",
                      "16x64x128 warps=1x2x2 stages=4", "32x32x64 warps=2x2x1 stages=4",
                      "64x32x64 warps=2x1x2 stages=4", "64x64x64 warps=2x2x1 stages=4",
                      "64x128x64 warps=2x2x1 stages=3", "128x128x32 warps=2x2x1 stages=4"));

class Norms : public ::testing::TestWithParam<const char*> {};

TEST_P(Norms, AgreeWithTheReference) {
  const std::string schedule = fmt::format("warp_tile {}", GetParam());
  for (const int rows : {1, 64, 130}) check(norm_graph("f16", rows), schedule, DType::kFloat16);
  check(norm_graph("bf16", 33), schedule, DType::kBFloat16);
}

INSTANTIATE_TEST_SUITE_P(Product, Norms,
                         ::testing::Values("16x384x64 warps=1x4x1 stages=3 split_k=1 cluster_n=1",
                                           "16x384x64 warps=1x4x1 stages=3 split_k=4 cluster_n=1",
                                           "16x48x128 warps=1x1x4 stages=3 split_k=1 cluster_n=8",
                                           "16x96x64 warps=1x2x2 stages=3 split_k=2 cluster_n=4",
                                           "32x64x64 warps=1x2x2 stages=3 split_k=1 cluster_n=6",
                                           "16x24x128 warps=1x1x4 stages=3 split_k=1 cluster_n=16",
                                           "16x48x128 warps=1x1x4 stages=3 split_k=2 cluster_n=8"));

class Groups : public WarpgroupTest, public ::testing::WithParamInterface<const char*> {};

TEST_P(Groups, AgreeWithTheReference) {
  for (const int splits : {1, 2, 3, 6}) {
    const std::string schedule = fmt::format("tma {} split_k={} cluster_n=1", GetParam(), splits);
    SCOPED_TRACE(schedule);
    for (const int rows : {64, 197, 300}) check(gelu_graph("f16", rows), schedule, DType::kFloat16);
    check(gelu_graph("bf16", 70), schedule, DType::kBFloat16);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Product, Groups,
    ::testing::Values("64x64x64 warpgroups=1 stages=6", "64x64x64 warpgroups=1 stages=2",
                      "64x128x64 warpgroups=1 stages=4", "64x192x64 warpgroups=1 stages=3",
                      "64x256x64 warpgroups=1 stages=2", "128x64x64 warpgroups=2 stages=4",
                      "128x128x64 warpgroups=2 stages=3", "128x128x64 warpgroups=1 stages=3",
                      "128x256x64 warpgroups=2 stages=4", "256x128x64 warpgroups=4 stages=3"));

// Blocks with many tiles, with fewer than they have teams, and as many as there are.
class Turns : public Groups {};

TEST_P(Turns, AgreeWithTheReference) {
  for (const int blocks : {1, 5, 132}) {
    for (const char* passes : {"rolled", "spread"}) {
      const std::string schedule = fmt::format(
          "pingpong {} blocks={} passes={} split_k=1 cluster_n=1", GetParam(), blocks, passes);
      SCOPED_TRACE(schedule);
      for (const int rows : {64, 197, 1500})
        check(gelu_graph("f16", rows), schedule, DType::kFloat16);
      check(gelu_graph("bf16", 700), schedule, DType::kBFloat16);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Product, Turns,
                         ::testing::Values("128x192x64 consumers=2 warpgroups=1 stages=5",
                                           "192x128x64 consumers=2 warpgroups=1 stages=4",
                                           "128x128x64 consumers=2 warpgroups=1 stages=6",
                                           "128x128x64 consumers=2 warpgroups=1 stages=2",
                                           "64x256x64 consumers=2 warpgroups=1 stages=4",
                                           "128x256x64 consumers=1 warpgroups=2 stages=4"));

// Two blocks have a tile, each half of k.
class Halves : public Groups {};

TEST_P(Halves, AgreeWithTheReference) {
  for (const int blocks : {2, 132})
    for (const char* passes : {"rolled", "spread"}) {
      const std::string schedule = fmt::format(
          "pingpong {} blocks={} passes={} split_k=2 cluster_n=1", GetParam(), blocks, passes);
      SCOPED_TRACE(schedule);
      for (const int rows : {64, 197, 1500})
        check(gelu_graph("f16", rows), schedule, DType::kFloat16);
      check(gelu_graph("bf16", 700), schedule, DType::kBFloat16);
    }
}

INSTANTIATE_TEST_SUITE_P(Product, Halves,
                         ::testing::Values("64x128x64 consumers=2 warpgroups=1 stages=6",
                                           "128x128x64 consumers=1 warpgroups=2 stages=5",
                                           "128x192x64 consumers=1 warpgroups=2 stages=3",
                                           "256x128x64 consumers=1 warpgroups=2 stages=2"));

// Where k is contiguous in both operands tiles may have other widths, and share copies.
class OtherWidths : public WarpgroupTest {};

TEST_F(OtherWidths, AgreeWithTheReference) {
  for (const char* type : {"f16", "bf16"})
    for (const int rows : {*type == 'f' ? 64 : 197, 700}) {
      const ir::Graph graph = ir::parse_graph(fmt::format(R"(
graph @main(%x: {0}[{1}, 1104], %w: {0}[1008, 1104], %b: {0}[1008]) {{
  %t = Transpose(%w) {{perm = [1, 0]}}
  %p = MatMul(%x, %t)
  %s = Add(%p, %b)
  %g = Slice(%s) {{starts = [0, 0], steps = [1, 1], shape = [{1}, 504]}}
  %u = Slice(%s) {{starts = [0, 504], steps = [1, 1], shape = [{1}, 504]}}
  %o = Silu(%g)
  %y = Mul(%o, %u)
  return y = %y
}})",
                                                          type, rows));
      for (const char* tile :
           {"128x224x64 consumers=1 warpgroups=2 stages=5 blocks=132 passes=spread split_k=1",
            "128x224x64 consumers=1 warpgroups=2 stages=4 blocks=2 passes=spread multicast=2 "
            "split_k=1",
            "128x128x64 consumers=2 warpgroups=1 stages=6 blocks=4 passes=spread multicast=2 "
            "split_k=1",
            "128x192x64 consumers=1 warpgroups=2 stages=4 blocks=2 passes=spread split_k=2",
            "128x192x64 consumers=1 warpgroups=2 stages=4 blocks=128 passes=spread multicast=2 "
            "split_k=2",
            "256x128x64 consumers=1 warpgroups=2 stages=4 blocks=132 passes=spread multicast=2 "
            "split_k=1"}) {
        const std::string schedule = fmt::format("pingpong {} cluster_n=1", tile);
        SCOPED_TRACE(fmt::format("{} {} {}", type, rows, schedule));
        check(graph, schedule, *type == 'f' ? DType::kFloat16 : DType::kBFloat16);
      }
    }
}

// Blocks that compute their few rows themselves, by warps and by all threads, with and without
// clusters.
TEST(Rows, AgreeWithTheReference) {
  for (const char* type : {"f16", "bf16"})
    for (const int rows : {1, 3, 8}) {
      const ir::Graph graph = ir::parse_graph(fmt::format(R"(
graph @main(%x: {0}[{1}, 1104], %w: {0}[1104, 384], %g: {0}[1104], %r: {0}[{1}, 384]) {{
  %n = RmsNorm(%x, %g) {{axis = 1, epsilon = 1e-5}}
  %p = MatMul(%n, %w)
  %t = Abs(%p)
  %y = Add(%t, %r)
  return y = %y
}})",
                                                          type, rows));
      for (const int splits : {1, 2, 8})
        for (const char* tile :
             {"8x32x256 warps=1x1x4 stages=3", "8x64x128 warps=1x2x4 stages=2"}) {
          const std::string schedule =
              fmt::format("small_m {} split_k={} cluster_n=1", tile, splits);
          SCOPED_TRACE(fmt::format("{} {} {}", type, rows, schedule));
          check(graph, schedule, *type == 'f' ? DType::kFloat16 : DType::kBFloat16);
        }
    }
}

// Weights that few rows alone read, which are packed: sizes that fill no unit, an order that no
// pass has changed, gates, two products that share their weights, and a table that is read
// otherwise too.
TEST(PackedElements, AgreeWithTheReference) {
  for (const char* type : {"f16", "bf16"})
    for (const int rows : {1, 3, 8, 16})
      for (const auto& [n, k] : {std::pair(384, 1024), std::pair(74, 523), std::pair(37, 45)}) {
        SCOPED_TRACE(fmt::format("{} {} {} {}", type, rows, n, k));
        const ir::Graph graph = ir::parse_graph(fmt::format(R"(
graph @main(%x: {0}[{1}, {3}], %z: {0}[{1}, {3}], %b: {0}[{2}], %id: i64[2]) {{
  %w = const {0}[{3}, {2}] random(1)
  %p = MatMul(%x, %w)
  %s = Add(%p, %b)
  %y = Gelu(%s)
  %q = MatMul(%z, %w)
  %u = const {0}[{4}, {3}] random(2)
  %ut = Transpose(%u) {{perm = [1, 0]}}
  %g = MatMul(%x, %ut)
  %l = Slice(%g) {{starts = [0, 0], steps = [1, 1], shape = [{1}, {2}]}}
  %r = Slice(%g) {{starts = [0, {2}], steps = [1, 1], shape = [{1}, {2}]}}
  %a = Silu(%l)
  %h = Mul(%a, %r)
  %t = const {0}[{2}, {3}] random(3)
  %tt = Transpose(%t) {{perm = [1, 0]}}
  %o = MatMul(%z, %tt)
  %e = Gather(%t, %id) {{axis = 0}}
  return y = %y, q = %q, h = %h, o = %o, e = %e
}})",
                                                            type, rows, n, k, 2 * n));
        const auto inputs = random_inputs(graph, {});
        Session session(compile_with(graph, ""));
        const auto outputs = run(session, graph, inputs);
        expect_reference(graph, inputs, outputs,
                         tolerance_of(*type == 'f' ? DType::kFloat16 : DType::kBFloat16));
        expect_same_bits(run(session, graph, inputs), outputs);
      }
}

// Every way to do one step, and the one that a session finds to be the fastest.
TEST(Ways, AgreeWithTheReference) {
  const ir::Graph graph = norm_graph("f16", 64);
  const auto inputs = random_inputs(graph, {});
  for (const char* way : {"library", "alone", "warp-specialized alone", ""}) {
    if (std::string(way) == "warp-specialized alone" && architecture() != "sm_90") continue;
    SCOPED_TRACE(way);
    Session session(compile_with(graph, way));
    const auto outputs = run(session, graph, inputs);
    if (*way != 0) {
      EXPECT_EQ(session.launches(), 2u);
    }
    expect_reference(graph, inputs, outputs, tolerance_of(DType::kFloat16));
    expect_same_bits(run(session, graph, inputs), outputs);
  }
}

// Kernels that start before the one in front has ended see all that it wrote.
TEST(EarlyLaunch, ChainsOfProductsAgreeWithTheReference) {
  std::string text = "graph @main(%x: f16[64, 384], %g: f16[384]) {\n";
  std::string last = "x";
  for (int i = 0; i < 12; ++i) {
    text += fmt::format(
        "  %w{0} = const f16[384, 384] random({0})\n  %p{0} = MatMul(%{1}, %w{0})\n"
        "  %n{0} = LayerNorm(%p{0}, %g, %g) {{axis = 1, epsilon = 1e-5}}\n",
        i, last);
    last = fmt::format("n{}", i);
  }
  const ir::Graph graph = ir::parse_graph(text + "  return y = %" + last + "\n}");
  const auto inputs = random_inputs(graph, {});
  fusion::Context context;
  context.target = codegen::cuda_target().traits();
  codegen::CompileOptions options;
  options.target = &codegen::cuda_target();
  options.architectures = {architecture()};
  const ir::Graph fused = fusion::run_pipeline(graph, context).graph;
  for (const char* way : {"", "alone", "library"}) {
    SCOPED_TRACE(way);
    options.gemm = way;
    std::vector<std::vector<ir::Tensor>> outputs;
    for (const bool early : {false, true}) {
      options.programmatic_launch = early;
      Session session(
          Plan::from_memory(plan::serialize_plan(codegen::compile(fused, options).parts)));
      for (int repeat = 0; repeat < 20; ++repeat) outputs.push_back(run(session, graph, inputs));
    }
    // A chain of a dozen norms doubles what rounding did before it a few times.
    expect_reference(graph, inputs, outputs[0], 4 * tolerance_of(DType::kFloat16));
    if (*way == 0) continue;  // the two plans may choose differently
    for (const auto& output : outputs) expect_same_bits(output, outputs[0]);
  }
}

}  // namespace
}  // namespace sinter::gpu_test
