// SPDX-License-Identifier: Apache-2.0
// Rounding that makes up for errors on calibration samples.
#include "fusion/scales/rounding/gptq.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <tuple>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sinter/error.h>
#include <sinter/float8.h>

#include "fusion/calibration/layer_inputs.h"
#include "fusion/scales/rounding/quantizer.h"
#include "ir/reference/evaluate.h"
#include "ir/text/text.h"
#include "support.h"
#include "tests/support/paths.h"

namespace sinter::fusion::test {
namespace {

using ir::Tensor;
using testing::ElementsAre;
using testing::HasSubstr;

// The case of make_gptq.py: neighbouring inputs say nearly the same.
constexpr std::int64_t kRows = 8, kColumns = 96, kGroup = 32;

Tensor weights() {
  std::vector<double> values;
  for (std::int64_t i = 0; i < kRows * kColumns; ++i)
    values.push_back(std::sin(1.7 * static_cast<double>(i)) +
                     0.5 * std::cos(0.31 * static_cast<double>(i * i % 101)));
  return Tensor::from_doubles(DType::kFloat32, {kRows, kColumns}, values);
}

Tensor moments() {
  const auto size = [](std::int64_t i) { return 1 + 0.9 * std::sin(0.4 * static_cast<double>(i)); };
  std::vector<double> values;
  for (std::int64_t i = 0; i < kColumns; ++i)
    for (std::int64_t j = 0; j < kColumns; ++j)
      values.push_back(std::pow(0.95, std::abs(i - j)) * size(i) * size(j));
  return Tensor::from_doubles(DType::kFloat32, {kColumns, kColumns}, values);
}

WeightOptions four_bits(bool symmetric) {
  WeightOptions options;
  options.bits = 4;
  options.group = kGroup;
  options.symmetric = symmetric;
  return options;
}

double error_of(const ir::ScaledTensor& rounded) {
  return output_error(weights(), ir::dequantized(rounded, DType::kFloat32), moments());
}

TEST(Compensation, ErrorsAreNoGreaterThanNumPys) {
  std::ifstream file(source_dir() + "/tests/fusion/gptq.json");
  const auto golden = nlohmann::json::parse(file);
  for (const bool symmetric : {true, false}) {
    const auto& expected = golden.at(symmetric ? "symmetric" : "asymmetric");
    const double nearest = error_of(quantize(weights(), four_bits(symmetric))),
                 compensated = error_of(quantize(weights(), four_bits(symmetric), moments()));
    EXPECT_LE(compensated, expected.at("compensated").get<double>()) << symmetric;
    EXPECT_LT(compensated, 0.6 * nearest) << symmetric;
  }
}

/// With scales that reach the largest number of each row.
Tensor eight_bits(DType type, double largest, const Tensor& moments) {
  const std::vector<double> all = weights().to_doubles();
  std::vector<float> scales;
  for (std::int64_t row = 0; row < kRows; ++row) {
    const auto first = all.begin() + row * kColumns;
    double most = 0;
    for (auto w = first; w != first + kColumns; ++w) most = std::max(most, std::abs(*w));
    scales.push_back(static_cast<float>(most / largest));
  }
  std::vector<float> rounded = round_compensated(weights().as<float>(), kRows, kColumns, kColumns,
                                                 type, scales, moments.as<float>());
  for (std::size_t i = 0; i < rounded.size(); ++i) rounded[i] *= scales[i / kColumns];
  return Tensor::of(DType::kFloat32, {kRows, kColumns}, rounded);
}

TEST(Compensation, NumbersOfEightBitsAreNoFurtherOffThanNumPys) {
  std::ifstream file(source_dir() + "/tests/fusion/gptq.json");
  const auto golden = nlohmann::json::parse(file);
  for (const auto& [name, type, largest] :
       {std::tuple("int8", DType::kInt8, 127.0), {"e4m3", DType::kFloat8E4M3FN, 448.0}}) {
    const auto& expected = golden.at(name);
    const double found = output_error(weights(), eight_bits(type, largest, moments()), moments());
    EXPECT_NEAR(found, expected.at("compensated").get<double>(), 0.03 * found) << name;
    EXPECT_LT(found, 0.8 * expected.at("nearest").get<double>()) << name;
  }
}

TEST(Compensation, WithoutOtherInputsNumbersAreTheNearest) {
  std::vector<double> identity(kColumns * kColumns, 0);
  for (std::int64_t i = 0; i < kColumns; ++i)
    identity[static_cast<std::size_t>(i * (kColumns + 1))] = 1;
  const Tensor alone = Tensor::from_doubles(DType::kFloat32, {kColumns, kColumns}, identity);
  for (const DType type : {DType::kFloat8E4M3FN, DType::kFloat8E5M2}) {
    // Two rows at scales that reach subnormal numbers and what is too large.
    std::vector<float> exact, scales{1e-3F, 400};
    for (std::int64_t i = 0; i < 2 * kColumns; ++i)
      exact.push_back(static_cast<float>(std::sin(0.7 * static_cast<double>(i)) *
                                         std::pow(1.2, static_cast<double>(i % kColumns - 60))));
    const std::vector<float> found =
        round_compensated(exact, 2, kColumns, kColumns, type, scales, alone.as<float>());
    const double largest = decode_float8(type, float8_format(type).largest);
    for (std::size_t i = 0; i < found.size(); ++i) {
      const double wanted =
          std::clamp(static_cast<double>(exact[i] / scales[i / kColumns]), -largest, largest);
      EXPECT_EQ(static_cast<double>(found[i]), decode_float8(type, encode_float8(type, wanted)))
          << exact[i];
    }
  }
}

TEST(Compensation, ErrorsCountByWhatInputsAre) {
  std::vector<double> identity(kColumns * kColumns, 0), first(kColumns * kColumns, 0);
  for (std::int64_t i = 0; i < kColumns; ++i)
    identity[static_cast<std::size_t>(i * (kColumns + 1))] = 1;
  first[0] = 4;
  std::vector<double> moved = weights().to_doubles();
  for (std::size_t row = 0; row < kRows; ++row) moved[row * kColumns + 1] += 1;
  const Tensor rounded = Tensor::from_doubles(DType::kFloat32, {kRows, kColumns}, moved);
  const auto error_with = [&](const std::vector<double>& values) {
    return output_error(weights(), rounded,
                        Tensor::from_doubles(DType::kFloat32, {kColumns, kColumns}, values));
  };
  EXPECT_NEAR(error_with(identity), weight_error(weights(), rounded), 1e-6);
  EXPECT_EQ(error_with(first), 0);
}

TEST(Compensation, ZeroPointsAreAnyNumber) {
  const auto rounded = quantize(weights(), four_bits(false), moments());
  ASSERT_TRUE(rounded.zero_points.has_value());
  EXPECT_EQ(rounded.zero_points->dtype(), DType::kFloat32);
  EXPECT_FALSE(quantize(weights(), four_bits(true), moments()).zero_points.has_value());
}

TEST(Compensation, InputsThatNeverComeDoNotMatter) {
  // Without inputs there is nothing to make up for, and nothing to divide by either.
  const Tensor none = Tensor::from_doubles(DType::kFloat32, {kColumns, kColumns},
                                           std::vector<double>(kColumns * kColumns, 0));
  const auto rounded = quantize(weights(), four_bits(true), none);
  EXPECT_LT(weight_error(weights(), ir::dequantized(rounded, DType::kFloat32)),
            1.05 * weight_error(weights(), ir::dequantized(quantize(weights(), four_bits(true)),
                                                           DType::kFloat32)));
}

TEST(Compensation, RefusesInputsThatAreNoNumbers) {
  std::vector<double> values(kColumns * kColumns, NAN);
  const Tensor bad = Tensor::from_doubles(DType::kFloat32, {kColumns, kColumns}, values);
  try {
    quantize(weights(), four_bits(true), bad);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    EXPECT_THAT(error.what(), HasSubstr("--calibration"));
  }
}

// Two layers read %a; the third reads what both make; nothing but the fourth is behind the third.
constexpr const char* kFourLayers = R"(graph @main(%x: f32[batch, 32]) {
  %w0 = const f32[32, 24] random(1)
  %w1 = const f32[32, 24] random(2)
  %w2 = const f32[24, 16] random(3)
  %w3 = const f32[16, 40] random(4)
  %a = Mul(%x, %x)
  %b = MatMul(%a, %w0)  # from left
  %c = MatMul(%a, %w1)  # from right
  %d = Mul(%b, %c)
  %e = MatMul(%d, %w2)  # from third
  %f = Add(%e, %e)
  %g = MatMul(%f, %w3)  # from last
  return y = %g, z = %e
})";

std::set<std::size_t> products(const ir::Graph& graph) {
  std::set<std::size_t> result;
  for (std::size_t i = 0; i < graph.nodes().size(); ++i)
    if (graph.nodes()[i].op->name == "MatMul") result.insert(i);
  return result;
}

TEST(LastLayers, AreThoseThatNoOtherReadsFrom) {
  const ir::Graph graph = ir::parse_graph(kFourLayers);
  const auto last = last_layers(graph, products(graph));
  ASSERT_EQ(last.size(), 1U);
  EXPECT_THAT(graph.nodes()[*last.begin()].origins, ElementsAre("last"));
  const ir::Graph alone = ir::parse_graph(R"(graph @main(%x: f32[batch, 32]) {
    %w0 = const f32[32, 16] random(1)
    %a = MatMul(%x, %w0)
    return y = %a
  })");
  EXPECT_TRUE(last_layers(alone, products(alone)).empty());
}

std::shared_ptr<Calibration> samples_of(std::size_t count, std::int64_t batch) {
  auto calibration = std::make_shared<Calibration>();
  for (std::size_t s = 0; s < count; ++s) {
    std::vector<double> values;
    for (std::int64_t i = 0; i < batch * 32; ++i)
      values.push_back(std::sin(0.37 * static_cast<double>(i) + static_cast<double>(s)));
    calibration->samples.push_back({Tensor::from_doubles(DType::kFloat32, {batch, 32}, values)});
  }
  calibration->compile = [](const ir::Graph& graph) -> Calibration::Run {
    return [graph](std::span<const Tensor> inputs) { return ir::evaluate(graph, inputs); };
  };
  return calibration;
}

TEST(LayerInputs, MomentsAreOfWhatEarlierLayersMakeNow) {
  const ir::Graph graph = ir::parse_graph(kFourLayers);
  ConstantValues values(graph);
  const auto calibration = samples_of(3, 5);
  const auto layers = products(graph);
  LayerInputs inputs(graph, values, *calibration, layers);
  // Every layer makes twice what it did.
  std::map<std::size_t, Tensor> found;
  for (const std::size_t layer : layers) {
    found[layer] = inputs.moments(layer);
    const ir::Tensor twice = values.tensor(graph.nodes()[layer].inputs[1]);
    std::vector<double> numbers = twice.to_doubles();
    for (double& number : numbers) number *= 2;
    inputs.replace(layer, Tensor::from_doubles(DType::kFloat32, twice.shape(), numbers));
  }
  const double doubled[] = {1, 1, 4, 8};  // what the layers in front multiply their input by
  std::size_t place = 0;
  for (const std::size_t layer : layers) {
    const ir::ValueId x = graph.nodes()[layer].inputs[0];
    const std::int64_t k = graph.type(x).shape[1].value();
    std::vector<double> expected(static_cast<std::size_t>(k * k));
    for (const auto& sample : calibration->samples) {
      ir::EvaluateOptions options;
      options.on_node = [&](const ir::Node& node, std::span<const Tensor> results) {
        if (node.outputs[0] != x) return;
        for (std::int64_t row = 0; row < 5; ++row)
          for (std::int64_t i = 0; i < k; ++i)
            for (std::int64_t j = 0; j < k; ++j)
              expected[static_cast<std::size_t>(i * k + j)] +=
                  results[0].at(row * k + i) * results[0].at(row * k + j);
      };
      ir::evaluate(graph, sample, options);
    }
    const double factor = doubled[place] * doubled[place] / 15;
    ++place;
    ASSERT_EQ(found[layer].shape(), (std::vector<std::int64_t>{k, k}));
    for (std::int64_t i = 0; i < k * k; ++i) {
      const double wanted = factor * expected[static_cast<std::size_t>(i)];
      ASSERT_NEAR(found[layer].at(i), wanted, 1e-4 * (std::abs(wanted) + 1)) << place;
    }
  }
}

TEST(LayerInputs, RefusesSamplesOfTwoShapes) {
  const ir::Graph graph = ir::parse_graph(kFourLayers);
  ConstantValues values(graph);
  const auto calibration = samples_of(2, 5);
  calibration->samples[1] = samples_of(1, 6)->samples[0];
  try {
    LayerInputs(graph, values, *calibration, products(graph));
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    EXPECT_THAT(error.what(), HasSubstr("'x'"));
  }
}

double model_error(const ir::Graph& exact, const ir::Graph& rounded) {
  double difference = 0, size = 0;
  const auto calibration = samples_of(4, 40);
  for (const auto& sample : calibration->samples) {
    const Tensor a = ir::evaluate(exact, sample)[0], b = ir::evaluate(rounded, sample)[0];
    for (std::int64_t i = 0; i < a.element_count(); ++i) {
      difference += (a.at(i) - b.at(i)) * (a.at(i) - b.at(i));
      size += a.at(i) * a.at(i);
    }
  }
  return std::sqrt(difference / size);
}

TEST(CalibratedWeights, TheModelsErrorIsSmallerAndTheLastLayerWider) {
  const ir::Graph graph = ir::parse_graph(kFourLayers);
  Context nearest, calibrated, narrow;
  nearest.weights = calibrated.weights = four_bits(true);
  calibrated.weights.calibration = samples_of(4, 40);
  const double before = model_error(graph, run_pass("quantize_weights", graph, nearest)),
               after = model_error(graph, run_pass("quantize_weights", graph, calibrated));
  EXPECT_LT(after, 0.6 * before);
  ASSERT_EQ(calibrated.layers.size(), 4U);
  EXPECT_EQ(calibrated.layers[2].bits, 4);
  EXPECT_EQ(calibrated.layers[3].bits, 8);
  EXPECT_EQ(nearest.layers[3].bits, 8);
  narrow.weights = four_bits(true);
  narrow.weights.last_as_others = true;
  run_pass("quantize_weights", graph, narrow);
  EXPECT_EQ(narrow.layers[3].bits, 4);
}

TEST(CalibratedWeights, OfExpertsToo) {
  const ir::Graph graph = ir::parse_graph(R"(graph @main(%in: f32[batch, 32]) {
    %w0 = const f32[32, 64] random(6)
    %x = MatMul(%in, %w0)  # from front
    %router = const f32[64, 3] random(7)
    %logits = MatMul(%x, %router)
    %choices, %shares = Route(%logits) {k = 1, scores = "softmax"}
    %flat = Reshape(%choices) {shape = [batch]}
    %order, %offsets = GroupByIndex(%flat) {extent = [4]}
    %rows = Gather(%x, %order) {axis = 0}
    %w1 = const f32[3, 48, 64] random(8)
    %h = GroupedMatMul(%rows, %w1, %offsets) {transposed = 1}
    %w2 = const f32[3, 48, 16] random(9)
    %y = GroupedMatMul(%h, %w2, %offsets)
    return y = %y
  })");
  Context nearest, calibrated;
  for (Context* context : {&nearest, &calibrated}) {
    context->weights = four_bits(true);
    context->weights.keep = {"front"};
    context->weights.last_as_others = true;
  }
  calibrated.weights.calibration = samples_of(4, 40);
  const double before = model_error(graph, run_pass("quantize_weights", graph, nearest)),
               after = model_error(graph, run_pass("quantize_weights", graph, calibrated));
  EXPECT_LT(after, 0.6 * before);
}

}  // namespace
}  // namespace sinter::fusion::test
