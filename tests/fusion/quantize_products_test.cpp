// SPDX-License-Identifier: Apache-2.0
// --precision int8 and fp8: what samples decide. Goldens have what becomes of a graph.
#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sinter/error.h>

#include "codegen/targets/cpu/cpu_target.h"
#include "codegen/targets/cuda/cuda_target.h"
#include "fusion/calibration/activation_samples.h"
#include "fusion/scales/choice/activation_scale.h"
#include "ir/text/text.h"
#include "support.h"

namespace sinter::fusion::test {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

// One column of what the first product reads is a hundred times the others.
constexpr const char* kOutlier = R"(graph @main(%x: f32[batch, 32]) {
  %columns = const f32[32] {1, 1, 1, 1, 100, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}
  %w0 = const f32[32, 24] random(1)
  %w1 = const f32[24, 8] random(2)
  %w2 = const f32[8, 8] random(3)
  %a = Mul(%x, %columns)
  %b = MatMul(%a, %w0)
  %c = MatMul(%b, %w1)
  %y = MatMul(%c, %w2)
  return y = %y
})";

Context int8_context(const ir::Graph& graph, int samples) {
  Context context;
  context.target = codegen::cpu_target().traits();
  context.eight_bit.type = DType::kInt8;
  context.eight_bit.max_error = 1;
  if (samples > 0) context.weights.calibration = random_calibration(graph, samples);
  return context;
}

std::string refusal(const ir::Graph& graph, Context context) {
  try {
    run_pass("quantize_products", graph, context);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    return error.what();
  }
  ADD_FAILURE() << "accepted";
  return "";
}

TEST(QuantizeProducts, SmoothingMakesUpForAnOutlierColumn) {
  const ir::Graph graph = ir::parse_graph(kOutlier);
  const auto error_with = [&](std::optional<double> smoothing) {
    Context context = int8_context(graph, 8);
    context.eight_bit.smoothing = smoothing;
    run_pass("quantize_products", graph, context);
    return context.layers.at(0).output_error;
  };
  EXPECT_LT(error_with(std::nullopt), 0.5 * error_with(0.0));
  EXPECT_LE(error_with(std::nullopt), 1.05 * error_with(0.5));
}

TEST(QuantizeProducts, LayersStayUntilTheBudgetHolds) {
  const ir::Graph graph = ir::parse_graph(kOutlier);
  const auto kept_with = [&](double max_error) {
    Context context = int8_context(graph, 4);
    context.eight_bit.smoothing = 0;
    context.eight_bit.max_error = max_error;
    run_pass("quantize_products", graph, context);
    std::vector<bool> kept;
    for (const QuantizedLayer& layer : context.layers) kept.push_back(!layer.kept.empty());
    return kept;
  };
  EXPECT_THAT(kept_with(1), ElementsAre(false, false, true));  // no layer is behind the last
  // The layer with the outlier is off by most, and goes first.
  EXPECT_THAT(kept_with(0.02), ElementsAre(true, false, true));
  EXPECT_THAT(kept_with(1e-7), Each(true));
}

TEST(QuantizeProducts, NamesDecideBeforeErrors) {
  const ir::Graph graph = ir::parse_graph(kOutlier);
  Context context = int8_context(graph, 2);
  context.weights.keep = {"MatMul"};
  run_pass("quantize_products", graph, context);
  for (const QuantizedLayer& layer : context.layers) EXPECT_THAT(layer.kept, HasSubstr("--keep"));
  Context included = int8_context(graph, 2);
  included.eight_bit.include = {"MatMul"};
  run_pass("quantize_products", graph, included);
  for (const QuantizedLayer& layer : included.layers) EXPECT_EQ(layer.kept, "");
}

TEST(QuantizeProducts, SaysWhatItNeeds) {
  const ir::Graph graph = ir::parse_graph(kOutlier);
  EXPECT_THAT(refusal(graph, int8_context(graph, 0)),
              AllOf(HasSubstr("--calibration"), HasSubstr("--activation-scales token")));
  Context infinite = int8_context(graph, 2);
  auto samples = random_calibration(graph, 2);
  std::vector<double> values = samples->samples[1][0].to_doubles();
  values[3] = std::numeric_limits<double>::infinity();
  samples->samples[1][0] =
      ir::Tensor::from_doubles(DType::kFloat32, samples->samples[1][0].shape(), values);
  infinite.weights.calibration = samples;
  EXPECT_THAT(refusal(graph, infinite),
              AllOf(HasSubstr("MatMul"), HasSubstr("not finite in sample 1"), HasSubstr("--keep")));
}

TEST(QuantizeProducts, LayersThatTheTargetDoesNotMultiplyStay) {
  const ir::Graph graph = ir::parse_graph(kOutlier);
  Context context = int8_context(graph, 2);
  context.eight_bit.type = DType::kFloat8E4M3FN;
  run_pass("quantize_products", graph, context);
  for (const QuantizedLayer& layer : context.layers)
    EXPECT_THAT(layer.kept, AllOf(HasSubstr("no product of f8e4m3fn"), HasSubstr("--emulate")));
}

TEST(QuantizeProducts, PiecesAreJudgedByTheOthers) {
  ActivationSample sample;
  sample.columns = 2;
  sample.pieces = {{{{-1, -1}, {1, 8}}, {}}, {{{-1, -2}, {1, 7}}, {}}, {{{-1, -1}, {1, 9}}, {}}};
  const ActivationScale whole =
      whole_scale(ranges_of(sample), 1, {}, DType::kInt8, ZeroPoints::kNone);
  EXPECT_FLOAT_EQ(whole.scale, 9.0F / 127);
  EXPECT_EQ(whole.format.to_string(), "i8 * f32 tensor");
  EXPECT_EQ(whole_scale(ranges_of(sample), 1, {}, DType::kInt8, ZeroPoints::kAny).type(),
            DType::kUInt8);
  const auto scale_without = [&](std::size_t left_out) {
    const auto is_left_out = [&](std::size_t piece) { return piece == left_out; };
    return judging_scale(sample, whole, nullptr, is_left_out).scale;
  };
  EXPECT_FLOAT_EQ(scale_without(0), 9.0F / 127);
  EXPECT_FLOAT_EQ(scale_without(2), 8.0F / 127);
  // No part of the others' range would have it.
  sample.pieces[2].ranges.high[1] = 20;
  EXPECT_FLOAT_EQ(scale_without(2), whole.scale);
}

TEST(QuantizeProducts, TheRestIsInFloat16WhereThatIsAskedFor) {
  const ir::Graph graph = ir::parse_graph(kOutlier);
  Context context = int8_context(graph, 2);
  context.target = codegen::cuda_target().traits();
  context.eight_bit.emulate = true;
  context.precision = Precision::kFloat16;
  PipelineOptions until;
  until.stop_after = "lower_precision";
  const std::string text = ir::print(run_pipeline(graph, context, until).graph);
  EXPECT_THAT(text, AllOf(HasSubstr(": i8["), HasSubstr("MatMul"), HasSubstr(": f16[")));
}

TEST(QuantizeProducts, ScalesOfBlocksAreFormatsOnAGpu) {
  const ir::Graph graph = ir::parse_graph(R"(graph @main(%x: f32[batch, 256]) {
  %w0 = const f32[256, 160] random(1)
  %w1 = const f32[160, 8] random(2)
  %a = MatMul(%x, %w0)
  %y = MatMul(%a, %w1)
  return y = %y
})");
  for (const int samples : {0, 4}) {
    Context context = int8_context(graph, samples);
    context.target = codegen::cuda_target().traits();
    context.eight_bit.type = DType::kFloat8E4M3FN;
    context.eight_bit.activation_scales = ActivationScales::kBlock;
    context.precision = Precision::kFloat16;
    PipelineOptions until;
    until.stop_after = "sink_scales";
    EXPECT_THAT(ir::print(run_pipeline(graph, context, until).graph),
                HasSubstr("* f32 block 128x128"))
        << samples;
    EXPECT_LT(context.layers.at(0).output_error, 0.05) << samples;
    EXPECT_GT(context.layers.at(0).output_error, 0.01) << samples;
  }
}

/// Two products of experts, whose rows are sorted by `offsets`.
ir::Graph experts(bool sorted) {
  return ir::parse_graph(fmt::format(R"(graph @main(%x: f32[t, 64]) ranges {{t: 4..16}} {{
    %router = const f32[64, 16] random(1)
    %logits = MatMul(%x, %router)  # from gate
    %choices, %shares = Route(%logits) {{k = 1, scores = "softmax"}}
    %flat = Reshape(%choices) {{shape = [t]}}
    %order, %sorted = GroupByIndex(%flat) {{extent = [17]}}
    %given = const i32[17] {{0, 0, 1, 1, 1, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 4}}
    %rows = Gather(%x, %order) {{axis = 0}}
    %w1 = const f32[16, 96, 64] random(2)
    %h = GroupedMatMul(%rows, %w1, %{0}) {{transposed = 1}}  # from experts/up
    %a = Relu(%h)
    %w2 = const f32[16, 96, 64] random(3)
    %y = GroupedMatMul(%a, %w2, %{0})  # from experts/down
    %w3 = const f32[64, 32] random(4)
    %z = MatMul(%y, %w3)  # from behind
    return z = %z
  }})",
                                     sorted ? "sorted" : "given"));
}

Context token_context(const TargetTraits& target) {
  Context context;
  context.target = target;
  context.eight_bit.type = DType::kFloat8E4M3FN;
  context.eight_bit.activation_scales = ActivationScales::kToken;
  return context;
}

TEST(QuantizeProducts, ExpertsAreFloatsOfEightBitsAndWhatChoosesThemIsNot) {
  for (const bool sorted : {true, false}) {
    const ir::Graph graph = experts(sorted);
    Context context = token_context(codegen::cuda_target().traits());
    const ir::Graph rounded = run_pass("quantize_products", graph, context),
                    sunk = run_pass("sink_scales", rounded, context);
    expect_equivalent(graph, rounded, 0.1);
    expect_equivalent(rounded, sunk, 1e-4);
    std::size_t grouped = 0;
    for (const ir::Node& node : sunk.nodes()) {
      if (node.op->name != "GroupedMatMul") continue;
      ++grouped;
      EXPECT_EQ(sunk.type(node.inputs[0]).dtype, DType::kFloat8E4M3FN);
      EXPECT_EQ(sunk.type(node.inputs[1]).dtype, DType::kFloat8E4M3FN);
      EXPECT_EQ(sunk.type(node.outputs[0]).dtype, DType::kFloat32);
    }
    EXPECT_EQ(grouped, 2U);
    ASSERT_EQ(context.layers.size(), 4U);
    EXPECT_THAT(context.layers[0].kept, HasSubstr(sorted ? "it chooses experts" : ""));
    EXPECT_EQ(context.layers[1].type, "f8e4m3fn x f8e4m3fn, each token");
    EXPECT_EQ(context.layers[1].n, 16 * 96);
    EXPECT_EQ(context.layers[2].k, 96);
    EXPECT_LT(context.layers[2].output_error, 0.05);
    EXPECT_THAT(context.layers[3].kept, HasSubstr("no layer is behind it"));
  }
}

TEST(QuantizeProducts, ExpertsThatTheTargetCannotMultiplyStay) {
  const ir::Graph graph = experts(true);
  Context context = token_context(codegen::cuda_target().traits());
  context.eight_bit.type = DType::kInt8;
  run_pass("quantize_products", graph, context);
  ASSERT_EQ(context.layers.size(), 4U);
  EXPECT_EQ(context.layers[1].kept, "the target has no grouped product of i8 (--emulate)");
  Context emulated = token_context(codegen::cpu_target().traits());
  emulated.eight_bit.emulate = true;
  expect_equivalent(graph, run_pass("quantize_products", graph, emulated), 0.1);
  EXPECT_TRUE(emulated.layers[1].kept.empty());
  Context blocks = token_context(codegen::cuda_target().traits());
  blocks.eight_bit.activation_scales = ActivationScales::kBlock;
  run_pass("quantize_products", graph, blocks);
  EXPECT_THAT(blocks.layers[1].kept, HasSubstr("no scales of blocks"));
}

}  // namespace
}  // namespace sinter::fusion::test
