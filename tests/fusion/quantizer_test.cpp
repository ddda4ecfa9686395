// SPDX-License-Identifier: Apache-2.0
// Float weights as integers of few bits.
#include "fusion/scales/rounding/quantizer.h"

#include <cmath>
#include <random>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sinter/error.h>

#include "codegen/targets/cpu/cpu_target.h"
#include "fusion/pipeline.h"
#include "ir/text/text.h"
#include "support.h"

namespace sinter::fusion::test {
namespace {

using ir::Tensor;
using testing::HasSubstr;
using testing::SizeIs;

WeightOptions options(int bits, std::int64_t group = 0, bool symmetric = true) {
  WeightOptions result;
  result.bits = bits;
  result.group = group;
  result.symmetric = symmetric;
  return result;
}

Tensor normal(std::int64_t n, std::int64_t k, float shift = 0) {
  std::mt19937 random(5);
  std::normal_distribution<float> deviate;
  std::vector<float> values(static_cast<std::size_t>(n * k));
  for (float& value : values) value = deviate(random) + shift;
  return Tensor::of(DType::kFloat32, {n, k}, values);
}

double error(const Tensor& weights, const WeightOptions& options) {
  return weight_error(weights, ir::dequantized(quantize(weights, options), DType::kFloat32));
}

/// Of rounding with the scale that just reaches the largest number of each row.
double error_of_largest(const Tensor& weights, int bits) {
  const std::int64_t n = weights.shape()[0], k = weights.shape()[1];
  const double most = (1 << (bits - 1)) - 1;
  std::vector<double> rounded;
  for (std::int64_t row = 0; row < n; ++row) {
    double largest = 0;
    for (std::int64_t i = 0; i < k; ++i)
      largest = std::max(largest, std::abs(weights.at(row * k + i)));
    for (std::int64_t i = 0; i < k; ++i)
      rounded.push_back(std::nearbyint(weights.at(row * k + i) / largest * most) * largest / most);
  }
  return weight_error(weights, Tensor::from_doubles(DType::kFloat32, {n, k}, rounded));
}

TEST(Quantizer, ScalesMakeTheErrorSmall) {
  const Tensor weights = normal(16, 256);
  EXPECT_LT(error(weights, options(4)), 0.9 * error_of_largest(weights, 4));
  EXPECT_LE(error(weights, options(8)), error_of_largest(weights, 8));
  EXPECT_LT(error(weights, options(8)), 0.01);
}

TEST(Quantizer, GroupsAndZeroPointsMakeItSmaller) {
  const Tensor weights = normal(16, 250);
  EXPECT_LT(error(weights, options(4, 32)), error(weights, options(4)));
  const Tensor shifted = normal(16, 250, 4);
  EXPECT_LT(error(shifted, options(4, 32, false)), 0.7 * error(shifted, options(4, 32)));
}

TEST(Quantizer, ShapesAreThoseOfTheOperator) {
  const ir::ScaledTensor four = quantize(normal(3, 21), options(4, 8, false));
  EXPECT_EQ(four.values.type(), (ir::TensorType{DType::kUInt8, {3, 11}}));
  EXPECT_EQ(four.scales.type(), (ir::TensorType{DType::kFloat32, {3, 3}}));
  ASSERT_TRUE(four.zero_points.has_value());
  EXPECT_EQ(four.zero_points->type(), (ir::TensorType{DType::kInt8, {3, 3}}));
  const ir::ScaledTensor eight = quantize(normal(3, 21), options(8, 64));
  EXPECT_EQ(eight.values.type(), (ir::TensorType{DType::kInt8, {3, 21}}));
  EXPECT_EQ(eight.format.to_string(), "i8 * f32 row");
  EXPECT_FALSE(eight.zero_points.has_value());
}

TEST(Quantizer, FloatsOfFourBitsHaveScalesOfTheirFormat) {
  const auto floats = [](std::int64_t group) {
    WeightOptions result = options(4, group);
    result.floats = true;
    return result;
  };
  const Tensor weights = normal(64, 1024);
  EXPECT_NEAR(error(weights, floats(16)), 0.0866, 0.0005);
  EXPECT_NEAR(error(weights, floats(32)), 0.1116, 0.0005);
  const ir::ScaledTensor nv = quantize(weights, floats(16)), mx = quantize(weights, floats(32));
  EXPECT_EQ(nv.format.to_string(), "f4e2m1 * f8e4m3fn group 16 * f32 row");
  EXPECT_EQ(mx.format.to_string(), "f4e2m1 * e8m0 group 32");
  // 4.5 bits a weight and a factor for each row; 4.25 bits.
  EXPECT_EQ(nv.values.byte_count() + nv.scales.byte_count(), 64U * (512 + 64));
  EXPECT_EQ(nv.factors->byte_count(), 64U * 4);
  EXPECT_EQ(mx.values.byte_count() + mx.scales.byte_count(), 64U * (512 + 32));
}

TEST(Quantizer, FloatsOfFourBitsKeepTheNumbersThatTheyHave) {
  // Each group has all numbers of 4 bits, times its scale.
  constexpr double kNumbers[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.5, -1, -1.5, -2, -3, -4, -6, 6};
  for (const std::int64_t group : {16, 32}) {
    std::vector<double> values;
    for (int i = 0; i < 4 * 64; ++i) {
      const auto number = static_cast<double>(i / group % 7);
      values.push_back(kNumbers[i % 16] * (group == 16 ? 1 + number / 8 : std::exp2(-number)));
    }
    const Tensor weights = Tensor::from_doubles(DType::kFloat32, {4, 64}, values);
    WeightOptions floats = options(4, group);
    floats.floats = true;
    EXPECT_EQ(ir::dequantized(quantize(weights, floats), DType::kFloat32).to_doubles(), values);
  }
}

TEST(Quantizer, WhatIsExactStaysSo) {
  const Tensor zeros = Tensor::from_doubles(DType::kFloat16, {2, 8}, std::vector<double>(16, 0));
  EXPECT_EQ(error(zeros, options(8)), 0);
  EXPECT_EQ(error(zeros, options(4, 8, false)), 0);
  std::vector<double> grid;
  for (int i = -7; i <= 7; ++i) grid.push_back(0.25 * i);
  const Tensor exact = Tensor::from_doubles(DType::kFloat32, {1, 15}, grid);
  EXPECT_LT(error(exact, options(4)), 1e-6);
}

TEST(Quantizer, TinyAndHugeWeightsKeepTheirSize) {
  for (const double size : {1e-30, 1e30}) {
    std::vector<double> values;
    for (int i = 0; i < 32; ++i) values.push_back(size * std::sin(i));
    EXPECT_LT(error(Tensor::from_doubles(DType::kFloat32, {1, 32}, values), options(8)), 0.01);
  }
}

TEST(Quantizer, RefusesWhatNoIntegerStandsFor) {
  const Tensor weights =
      Tensor::from_doubles(DType::kFloat32, {1, 2}, std::vector<double>{1, INFINITY});
  try {
    quantize(weights, options(8));
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidModel);
    EXPECT_THAT(error.what(), HasSubstr("--keep"));
  }
}

constexpr const char* kTwoLayers = R"(graph @main(%x: f32[batch, 32], %ids: i64[batch]) {
  %w0 = const f32[32, 16] random(1)
  %w1 = const f32[16, 8] random(2)
  %table = const f32[5, 256] random(3)
  %a = MatMul(%x, %w0)  # from first/MatMul
  %b = MatMul(%a, %w1)  # from second/MatMul
  %e = Gather(%table, %ids) {axis = 0}  # from embedding
  return y = %b, e = %e
})";

std::size_t quantized_products(const ir::Graph& graph) {
  std::size_t count = 0;
  for (const ir::Node& node : graph.nodes()) count += ir::has_scaled_weights(node);
  return count;
}

constexpr const char* kMixture = R"(graph @main(%x: f32[t, 64]) ranges {t: 1..16} {
  %router = const f32[64, 4] random(1)
  %logits = MatMul(%x, %router)  # from gate
  %choices, %shares = Route(%logits) {k = 2, scores = "softmax", normalise = 1}
  %flat = Reshape(%choices) {shape = [2*t]}
  %order, %offsets = GroupByIndex(%flat) {extent = [5]}
  %two = const i32[] {2}
  %tokens = Div(%order, %two)
  %rows = Gather(%x, %tokens) {axis = 0}
  %w1 = const f32[4, 96, 64] random(2)
  %h = GroupedMatMul(%rows, %w1, %offsets) {transposed = 1}  # from experts/up
  %a = Relu(%h)
  %w2 = const f32[4, 96, 64] random(3)
  %y = GroupedMatMul(%a, %w2, %offsets)  # from experts/down
  return y = %y, shares = %shares
})";

/// The rows of one expert of a loop: those whose choices are it.
constexpr const char* kSelectedRows = R"(
graph @main(%x: f32[8, 64]) ranges {n: 0..16 data} {
  %r = const f32[64, 4] random(1)
  %l = MatMul(%x, %r)
  %c = ArgSort(%l) {axis = 1, count = [2], descending = 1}
  %one = const i64[] {1}
  %hit = Equal(%c, %one)
  %flags = Reshape(%hit) {shape = [1, 16]}
  %i = Cast(%flags) {to = i32}
  %s = ReduceSum(%i) {axes = [1], keepdims = 0}
  %v = Cast(%s) {to = i64}
  %z = ReduceSum(%v) {axes = [0], keepdims = 0}
  %n = Extent(%z) {symbol = "n"}
  %b = Scan(%v) {axis = 0, combine = "sum", exclusive = 1}
  %j = SelectIndices(%flags, %b) {count = [n]}
  %two = const i64[] {2}
  %t = Div(%j, %two)
  %rows = Gather(%x, %t) {axis = 0}
  %w = const f32[64, 32] random(2)
  %y = MatMul(%rows, %w)
  return y = %y
})";

std::size_t quantized_groups(const ir::Graph& graph) {
  std::size_t count = 0;
  for (const ir::Node& node : graph.nodes())
    count += node.op->name == "GroupedMatMul" && ir::ProductFormats(node.attrs).w.has_value();
  return count;
}

/// An expert's rows are selected by the order of a router's results.
TEST(ChosenWeights, RoutersOfLoopsAreNotRounded) {
  Context context;
  context.weights = options(8);
  context.weights.last_as_others = true;
  const ir::Graph graph = run_pass("quantize_weights", ir::parse_graph(kSelectedRows), context);
  EXPECT_EQ(quantized_products(graph), 1U);
  ASSERT_THAT(context.layers, SizeIs(2));
  EXPECT_THAT(context.layers[0].kept, HasSubstr("it chooses experts"));
  EXPECT_EQ(context.layers[1].bits, 8);
}

/// Rows are in the order of the sorted choices, as granitemoe is exported.
TEST(ChosenWeights, RoutersOfSortedChoicesAreNotRounded) {
  Context context;
  context.weights = options(8);
  context.weights.last_as_others = true;
  const ir::Graph graph = run_pass("quantize_weights", ir::parse_graph(R"(
    graph @main(%x: f32[8, 64]) {
      %r = const f32[64, 4] random(1)
      %l = MatMul(%x, %r)
      %c = ArgSort(%l) {axis = 1, count = [2], descending = 1}
      %flat = Reshape(%c) {shape = [16]}
      %order = ArgSort(%flat) {axis = 0, count = [16]}
      %two = const i64[] {2}
      %t = Div(%order, %two)
      %rows = Gather(%x, %t) {axis = 0}
      %w = const f32[64, 32] random(2)
      %y = MatMul(%rows, %w)
      return y = %y
    })"),
                                   context);
  EXPECT_EQ(quantized_products(graph), 1U);
  ASSERT_THAT(context.layers, SizeIs(2));
  EXPECT_THAT(context.layers[0].kept, HasSubstr("it chooses experts"));
}

/// In all formats the experts' weights are rounded, and the router's are not.
TEST(ChosenWeights, ExpertsAreRoundedAndWhatChoosesThemIsNot) {
  WeightOptions floats = options(8), four = options(4, 16), powers = options(4, 32);
  floats.floats = four.floats = powers.floats = true;
  for (WeightOptions wanted :
       {options(8), options(4, 32), options(4, 32, false), options(8, 16), floats, four, powers}) {
    wanted.last_as_others = true;
    Context context;
    context.weights = wanted;
    const ir::Graph before = ir::parse_graph(kMixture);
    const ir::Graph graph = run_pass("quantize_weights", before, context);
    EXPECT_EQ(quantized_groups(graph), 2U);
    EXPECT_EQ(quantized_products(graph), 0U);
    expect_equivalent(before, graph, wanted.bits == 8 ? 0.05 : 0.25);
    ASSERT_THAT(context.layers, SizeIs(3));
    EXPECT_THAT(context.layers[0].kept, HasSubstr("it chooses experts"));
    EXPECT_EQ(context.layers[1].name, "experts/up");
    EXPECT_EQ(context.layers[1].n, 4 * 96);
    EXPECT_EQ(context.layers[1].k, 64);
    EXPECT_EQ(context.layers[1].bits, wanted.bits);
    EXPECT_EQ(context.layers[2].n, 4 * 64);
    EXPECT_EQ(context.layers[2].k, 96);
    EXPECT_GT(context.layers[2].output_error, 0);
    EXPECT_LT(context.layers[2].output_error, wanted.bits == 8 ? 0.04 : 0.2);
  }
}

/// As MXFP4 mixtures are exported, with scales that ONNX Runtime takes as a type of 16 bits.
TEST(StoredWeights, PowersOfTwoAreScalesOfEightBits) {
  for (const char* scale : {"0.25", "0.3"}) {
    Context context;
    const ir::Graph before = ir::parse_graph(fmt::format(
        R"(graph @main(%x: f32[t, 32]) ranges {{t: 1..16}} {{
          %w = const u8[2, 3, 16] random(1)
          %s = const f32[2, 3, 1] {{1, 0.5, 2, 4, 8, {}}}
          %narrow = Cast(%s) {{to = bf16}}
          %offsets = const i32[3] {{0, 1, 1}}
          %y = GroupedMatMul(%x, %w, %narrow, %offsets) {{w = "f4e2m1 * bf16 group 32"}}
          return y = %y
        }})",
        scale));
    const ir::Graph graph = run_pass("quantize_weights", before, context);
    EXPECT_EQ(graph.nodes().back().attrs.get_string("w"),
              scale == std::string("0.25") ? "f4e2m1 * e8m0 group 32" : "f4e2m1 * bf16 group 32");
    expect_equivalent(before, graph, 1e-6);
  }
}

/// What is gathered for each row is a mixture before weights are rounded.
TEST(ChosenWeights, ExpertsThatAreGatheredAreRounded) {
  Context context;
  context.target = codegen::cpu_target().traits();
  context.weights = options(8);
  context.weights.last_as_others = true;
  const ir::Graph before = ir::parse_graph(R"(graph @main(%x: f32[t, 32], %chosen: i64[t, 2])
      ranges {t: 1..8} {
    %w = const f32[4, 16, 32] random(1)
    %g = Gather(%w, %chosen) {axis = 0}
    %turned = Transpose(%g) {perm = [0, 3, 1, 2]}
    %flat = Reshape(%turned) {shape = [t, 32, 32]}
    %rows = Reshape(%x) {shape = [t, 1, 32]}
    %y = MatMul(%rows, %flat)
    return y = %y
  })");
  PipelineOptions until;
  until.stop_after = "quantize_weights";
  const ir::Graph graph = run_checked(before, context, until).graph;
  EXPECT_EQ(quantized_groups(graph), 1U);
  ASSERT_THAT(context.layers, SizeIs(1));
  EXPECT_EQ(context.layers[0].n, 64);
}

TEST(ChosenWeights, NamesAndErrorsKeepExperts) {
  Context context;
  context.weights = options(4);
  context.weights.keep = {"down"};
  ir::Graph graph = run_pass("quantize_weights", ir::parse_graph(kMixture), context);
  EXPECT_EQ(quantized_groups(graph), 1U);
  EXPECT_THAT(context.layers[2].kept, HasSubstr("'down'"));
  Context strict;
  strict.weights = options(4);
  strict.weights.max_error = 1e-4;
  graph = run_pass("quantize_weights", ir::parse_graph(kMixture), strict);
  EXPECT_EQ(quantized_groups(graph), 0U);
  EXPECT_THAT(strict.layers[1].kept, HasSubstr("--max-layer-error"));
}

TEST(ChosenWeights, EveryLayerHasARow) {
  Context context;
  context.weights = options(8);
  const ir::Graph graph = run_pass("quantize_weights", ir::parse_graph(kTwoLayers), context);
  EXPECT_EQ(quantized_products(graph), 2U);
  ASSERT_THAT(context.layers, SizeIs(2));
  EXPECT_EQ(context.layers[0].name, "first/MatMul");
  EXPECT_EQ(context.layers[0].n, 16);
  EXPECT_EQ(context.layers[0].k, 32);
  EXPECT_EQ(context.layers[0].bytes_before, 2048);
  EXPECT_EQ(context.layers[0].bytes_after, 512 + 64);
  EXPECT_GT(context.layers[0].output_error, 0);
  EXPECT_LT(context.layers[0].output_error, 0.02);
}

TEST(ChosenWeights, NamesAndErrorsKeepLayers) {
  Context context;
  context.weights = options(4);
  context.weights.keep = {"second"};
  ir::Graph graph = run_pass("quantize_weights", ir::parse_graph(kTwoLayers), context);
  EXPECT_EQ(quantized_products(graph), 1U);
  EXPECT_THAT(context.layers[1].kept, HasSubstr("'second'"));
  Context strict;
  strict.weights = options(4);
  strict.weights.max_error = 1e-4;
  graph = run_pass("quantize_weights", ir::parse_graph(kTwoLayers), strict);
  EXPECT_EQ(quantized_products(graph), 0U);
  EXPECT_THAT(strict.layers[0].kept, HasSubstr("--max-layer-error"));
  EXPECT_EQ(strict.layers[0].bytes_after, strict.layers[0].bytes_before);
}

TEST(ChosenWeights, EmbeddingsOnlyIfAskedFor) {
  Context context;
  context.weights = options(4);
  context.weights.embeddings = true;
  const ir::Graph before = ir::parse_graph(kTwoLayers);
  const ir::Graph graph = run_pass("quantize_weights", before, context);
  ASSERT_THAT(context.layers, SizeIs(3));
  EXPECT_EQ(context.layers[2].name, "embedding");
  EXPECT_EQ(context.layers[2].bytes_after, 5 * 256 + 5 * 4);
  expect_equivalent(before, graph, 0.2);
}

}  // namespace
}  // namespace sinter::fusion::test
