// SPDX-License-Identifier: Apache-2.0
// float32 products and convolutions with each kernel's schedules forced, against the reference:
// exact on CUDA cores, rounded to TF32 on tensor cores.
#include <iostream>
#include <tuple>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sinter/profile.h>

#include "ir/text/text.h"
#include "tests/gpu/cases.h"
#include "tests/gpu/support.h"

namespace sinter::gpu_test {
namespace {

constexpr double kExact = 2e-5, kRounded = 3e-3;

/// x [rows, k] times w, stored as [k, n] or, with `nk`, as [n, k]; a bias, GELU and a residual.
ir::Graph product_graph(int rows, int n, int k, bool nk) {
  return ir::parse_graph(fmt::format(
      R"(
graph @main(%x: f32[{0}, {2}], %w: f32[{3}], %b: f32[{1}], %r: f32[{0}, {1}]) {{
{4}  %p = MatMul(%x, {5})
  %s = Add(%p, %b)
  %g = Gelu(%s)
  %y = Add(%g, %r)
  return y = %y
}})",
      rows, n, k, nk ? fmt::format("{}, {}", n, k) : fmt::format("{}, {}", k, n),
      nk ? "  %t = Transpose(%w) {perm = [1, 0]}\n" : "", nk ? "%t" : "%w"));
}

struct Conv {
  int images, channels, outputs, size, kernel, stride, pad, dilation = 1, group = 1, dims = 2;
};

std::string repeated(int value, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += fmt::format("{}{}", i > 0 ? ", " : "", value);
  return text;
}

/// A convolution with a bias and Relu; channels second, as models have it.
ir::Graph conv_graph(const Conv& c) {
  const int out = (c.size + 2 * c.pad - c.dilation * (c.kernel - 1) - 1) / c.stride + 1;
  return ir::parse_graph(fmt::format(
      R"(
graph @main(%x: f32[{0}, {1}, {2}], %r: f32[{0}, {3}, {10}]) {{
  %w = const f32[{3}, {4}, {5}] random(1)
  %b = const f32[{3}] random(2)
  %c = Conv(%x, %w, %b) {{strides = [{6}], dilations = [{7}], pads_begin = [{8}], pads_end = [{8}], group = {9}}}
  %s = Add(%c, %r)
  %y = Relu(%s)
  return y = %y
}})",
      c.images, c.channels, repeated(c.size, c.dims), c.outputs, c.channels / c.group,
      repeated(c.kernel, c.dims), repeated(c.stride, c.dims), repeated(c.dilation, c.dims),
      repeated(c.pad, c.dims), c.group, repeated(out, c.dims)));
}

void check_float32(const ir::Graph& graph, const std::string& schedule, bool tf32) {
  const auto inputs = random_inputs(graph, {});
  Session session(compile_with(graph, schedule, tf32));
  const auto outputs = run(session, graph, inputs);
  expect_reference(graph, inputs, outputs, tf32 ? kRounded : kExact);
  for (int repeat = 0; repeat < 3; ++repeat) expect_same_bits(run(session, graph, inputs), outputs);
}

// Ragged, strided, dilated, grouped; of one to three dimensions; channels of every alignment.
const Conv kConvs[] = {{2, 64, 72, 28, 3, 1, 1},
                       {1, 32, 48, 29, 3, 2, 1},
                       {1, 3, 64, 61, 7, 2, 3},
                       {2, 6, 40, 17, 3, 1, 1},
                       {1, 32, 64, 33, 3, 1, 2, 2},
                       {1, 64, 64, 15, 3, 1, 1, 1, 2},
                       {2, 16, 24, 211, 5, 1, 2, 1, 1, 1},
                       {1, 16, 24, 9, 3, 1, 1, 1, 1, 3},
                       {1, 256, 64, 14, 1, 1, 0}};

class Simt : public ::testing::TestWithParam<const char*> {};

TEST_P(Simt, AgreesWithTheReference) {
  const std::string tile = GetParam();
  const bool is_narrow = tile.find("x16x32") != std::string::npos;
  for (const int splits : {1, 2, 3, 8}) {
    const std::string schedule = fmt::format("simt {} split_k={} cluster_n=1", tile, splits);
    SCOPED_TRACE(schedule);
    for (const int rows : {5, 64, 301}) {
      check_float32(product_graph(rows, 200, 640, true), schedule, false);
      if (!is_narrow) check_float32(product_graph(rows, 200, 640, false), schedule, false);
    }
    check_float32(product_graph(70, 131, 333, true), schedule, false);
    for (const Conv& conv : kConvs) {
      // One element at a time: a thread copies those of one window.
      if (tile.starts_with("256x64") && conv.channels % 2 != 0) continue;
      check_float32(conv_graph(conv), schedule, false);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Float32, Simt,
    ::testing::Values("128x128x16 warps=2x2x1 stages=4", "256x128x16 warps=4x2x1 stages=4",
                      "128x128x16 warps=4x2x1 stages=4", "256x64x16 warps=4x1x1 stages=4",
                      "128x64x16 warps=4x1x1 stages=4", "64x128x16 warps=2x2x1 stages=4",
                      "64x64x32 warps=2x1x2 stages=3", "64x64x32 warps=2x2x1 stages=3",
                      "64x64x32 warps=2x1x4 stages=3", "128x32x32 warps=4x1x1 stages=3",
                      "64x32x32 warps=2x1x2 stages=4", "32x128x32 warps=1x2x2 stages=3",
                      "32x64x32 warps=1x1x4 stages=4", "32x32x32 warps=1x1x4 stages=4",
                      "16x64x32 warps=1x1x4 stages=4", "16x32x64 warps=1x1x4 stages=4",
                      "128x16x32 warps=4x1x1 stages=4", "64x16x32 warps=2x1x2 stages=4"));

class Tf32Warps : public ::testing::TestWithParam<const char*> {};

TEST_P(Tf32Warps, AgreeWithTheReference) {
  for (const int splits : {1, 2, 8}) {
    const std::string schedule =
        fmt::format("warp_tile {} split_k={} cluster_n=1", GetParam(), splits);
    SCOPED_TRACE(schedule);
    for (const bool nk : {false, true}) {
      check_float32(product_graph(301, 200, 640, nk), schedule, true);
      check_float32(product_graph(70, 131, 333, nk), schedule, true);
    }
    for (const Conv& conv : kConvs) check_float32(conv_graph(conv), schedule, true);
  }
}

INSTANTIATE_TEST_SUITE_P(Float32, Tf32Warps,
                         ::testing::Values("16x32x64 warps=1x1x4 stages=4",
                                           "32x32x32 warps=2x2x1 stages=4",
                                           "64x64x32 warps=2x4x1 stages=4",
                                           "128x64x32 warps=4x2x1 stages=3",
                                           "128x128x16 warps=2x2x1 stages=4"));

class Tf32Groups : public WarpgroupTest, public ::testing::WithParamInterface<const char*> {};

TEST_P(Tf32Groups, AgreeWithTheReference) {
  const std::string schedule = GetParam();
  for (const int rows : {64, 301, 1500})
    check_float32(product_graph(rows, 384, 640, true), schedule, true);
  for (const Conv& conv : {Conv{8, 64, 72, 28, 3, 1, 1}, Conv{4, 96, 64, 29, 3, 2, 1},
                           Conv{8, 256, 64, 14, 1, 1, 0}, Conv{2, 32, 64, 33, 3, 1, 2, 2}})
    check_float32(conv_graph(conv), schedule, true);
}

INSTANTIATE_TEST_SUITE_P(
    Float32, Tf32Groups,
    ::testing::Values("tma 64x64x32 warpgroups=1 stages=4 split_k=1 cluster_n=1",
                      "tma 64x64x32 warpgroups=1 stages=3 split_k=3 cluster_n=1",
                      "tma 128x128x32 warpgroups=2 stages=3 split_k=1 cluster_n=1",
                      "pingpong 128x128x32 consumers=2 warpgroups=1 stages=4 blocks=132 "
                      "passes=rolled split_k=1 cluster_n=1",
                      "pingpong 128x128x32 consumers=2 warpgroups=1 stages=4 blocks=5 "
                      "passes=spread split_k=1 cluster_n=1",
                      "pingpong 128x256x32 consumers=1 warpgroups=2 stages=3 blocks=132 "
                      "passes=rolled split_k=1 cluster_n=1"));

/// One kernel beside matmuls and a softmax: a mask, which the kernel does not take, hides the same.
TEST(Float32, AttentionAgreesWithItsParts) {
  for (const auto& [heads, rows, head, values] :
       {std::tuple(16, 1100, 64, 64), std::tuple(20, 1000, 40, 32), std::tuple(16, 1030, 128, 128),
        std::tuple(128, 2048, 64, 64)}) {
    const ir::Graph graph = ir::parse_graph(fmt::format(
        R"(graph @main(%q: f32[{0}, {1}, {2}], %k: f32[{0}, {1}, {2}], %v: f32[{0}, {1}, {3}]) {{
          %y = Attention(%q, %k, %v) {{scale = 0.7, causal = 1}}
          %row = Iota() {{shape = [{1}, 1]}}
          %key = Iota() {{shape = [1, {1}], axis = 1}}
          %mask = LessOrEqual(%key, %row)
          %z = Attention(%q, %k, %v, %mask) {{scale = 0.7, fill = -inf}}
          return y = %y, z = %z
        }})",
        heads, rows, head, values));
    SCOPED_TRACE(fmt::format("{} heads of {} and {}, {} rows", heads, head, values, rows));
    const auto inputs = random_inputs(graph, {});
    Session session(compile(graph, true));
    const auto outputs = run(session, graph, inputs);
    EXPECT_LE(relative_error(outputs[0], outputs[1]), kExact);
    expect_same_bits(run(session, graph, inputs), outputs);
    for (const StepTime& step : profile_steps(session))
      std::cout << fmt::format("attention {}x{}x{} {}: {:.2f} us, {}\n", heads, rows, head,
                               step.name, step.microseconds, step.how);
  }
}

/// What a session chooses, with the times of all steps for people.
TEST(Float32, ChosenTacticsAgreeWithTheReference) {
  for (const bool tf32 : {false, true})
    for (const Conv& conv :
         {Conv{1, 64, 64, 56, 3, 1, 1}, Conv{1, 512, 512, 7, 3, 1, 1},
          Conv{16, 64, 256, 56, 1, 1, 0}, Conv{16, 128, 128, 28, 3, 1, 1},
          Conv{1, 32, 64, 160000, 9, 1, 4, 1, 1, 1}, Conv{1, 64, 64, 24, 3, 1, 1, 1, 1, 3}}) {
      const ir::Graph graph = conv_graph(conv);
      const auto inputs = random_inputs(graph, {});
      Session session(compile_with(graph, "", tf32));
      const auto outputs = run(session, graph, inputs);
      const bool is_small = conv.images < 16 && conv.size < 1000;  // for the reference
      if (is_small) expect_reference(graph, inputs, outputs, tf32 ? kRounded : kExact);
      expect_same_bits(run(session, graph, inputs), outputs);
      for (const StepTime& step : profile_steps(session))
        std::cout << fmt::format("{} {}x{} {}^{} k{} {}: {:.2f} us, {:.1f} TFLOP/s, {}\n",
                                 tf32 ? "tf32" : "exact", conv.channels, conv.outputs, conv.size,
                                 conv.dims, conv.kernel, step.name, step.microseconds,
                                 static_cast<double>(step.flops) / step.microseconds * 1e-6,
                                 step.how);
    }
}

}  // namespace
}  // namespace sinter::gpu_test
