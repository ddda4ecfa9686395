// SPDX-License-Identifier: Apache-2.0
// --precision int8 and fp8: choices by errors are by those of what a model computes, on what it has
// not been chosen by.
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codegen/targets/cpu/cpu_target.h"
#include "fusion/calibration/held_out.h"
#include "fusion/calibration/trial.h"
#include "ir/reference/evaluate.h"
#include "ir/reference/relative_error.h"
#include "ir/text/text.h"
#include "support.h"

namespace sinter::fusion::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Context emulated(DType type, const Calibration& calibration) {
  Context context;
  context.target = codegen::cpu_target().traits();
  context.eight_bit.type = type;
  context.eight_bit.emulate = true;
  context.eight_bit.include = {"MatMul"};
  context.weights.calibration = std::make_shared<Calibration>(calibration);
  return context;
}

/// One sample of `x`.
Calibration sample_of(const ir::Tensor& x) {
  Calibration calibration;
  calibration.samples = {{x}};
  calibration.compile = [](const Graph& part) -> Calibration::Run {
    return [part](std::span<const Tensor> inputs) { return ir::evaluate(part, inputs); };
  };
  return calibration;
}

/// Normal deviates, of rows times `size(row)`.
ir::Tensor deviates(std::int64_t rows, std::int64_t columns, std::uint64_t seed,
                    double spread = 0) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  std::vector<double> values;
  for (std::int64_t row = 0; row < rows; ++row) {
    const double size = std::exp(spread * normal(random));
    for (std::int64_t column = 0; column < columns; ++column)
      values.push_back(size * normal(random));
  }
  return ir::Tensor::from_doubles(DType::kFloat32, {rows, columns}, values);
}

/// The number behind `what` in the note of the precision.
double said(const Context& context, std::string_view what = "off by ") {
  const std::string& note = context.precision_notes.at(0);
  return std::stod(note.substr(note.find(what) + what.size()));
}

double error_between(const ir::Graph& found, const ir::Graph& exact, const ir::Tensor& x) {
  const std::vector<ir::Tensor> inputs{x};
  ir::RelativeError error;
  error.add(ir::evaluate(found, inputs)[0], ir::evaluate(exact, inputs)[0]);
  return error.value();
}

/// Two layers; `behind` makes %y of their result %d, [batch, 8], a mask of every fourth column.
ir::Graph masked_layers(const std::string& behind) {
  return ir::parse_graph(R"(graph @main(%x: f32[batch, 24]) {
  %w0 = const f32[24, 24] random(1)
  %w1 = const f32[24, 8] random(2)
  %real = const bool[8] {true, true, true, false, true, true, true, false}
  %a = MatMul(%x, %w0)
  %c = Relu(%a)
  %d = MatMul(%c, %w1)
)" + behind + R"(
  return y = %y
})");
}

TEST(EightBitChoices, MasksDoNotHideErrors) {
  const Calibration calibration = sample_of(deviates(32, 24, 1));
  const auto outcome = [&](const std::string& behind, double max_error) {
    const ir::Graph graph = masked_layers(behind);
    Context context = emulated(DType::kFloat8E4M3FN, calibration);
    context.eight_bit.max_error = max_error;
    run_pass("quantize_products", graph, context);
    std::vector<bool> kept;
    for (const QuantizedLayer& layer : context.layers) kept.push_back(!layer.kept.empty());
    return std::pair(kept, said(context));
  };
  const std::string plain = "  %z = const f32[] {0}\n  %y = Add(%d, %z)";
  const double error = outcome(plain, 10).second;
  EXPECT_GT(error, 0.02);
  for (const std::string fill : {"-1e3", "-1e4", "-1e9", "-3.4028235e38", "-inf", "1e9"}) {
    const std::string where =
        fmt::format("  %f = const f32[] {{{}}}\n  %y = Where(%real, %d, %f)", fill);
    EXPECT_THAT(outcome(where, 0.015).first, ElementsAre(true, true)) << fill;
    EXPECT_NEAR(outcome(where, 10).second, error, 0.3 * error) << fill;
  }
  // A mask that is added hides errors of what it is added to.
  for (const std::string fill : {"-1e4", "-3.4028235e38"}) {
    const std::string add =
        fmt::format("  %m = const f32[8] {{0, 0, 0, {0}, 0, 0, 0, {0}}}\n  %y = Add(%d, %m)", fill);
    EXPECT_THAT(outcome(add, 0.015).first, ElementsAre(true, true)) << fill;
    EXPECT_NEAR(outcome(add, 10).second, error, 0.3 * error) << fill;
  }
}

TEST(EightBitChoices, MasksDoNotHideErrorsOfAttention) {
  const ir::Graph graph =
      ir::parse_graph(R"(graph @main(%q: f32[2, 5, 16], %k: f32[2, 7, 16], %v: f32[2, 7, 16]) {
  %real = const bool[16] {true, true, true, false, true, true, true, false, true, true, true, false, true, true, true, false}
  %f = const f32[] {-1e4}
  %a = Attention(%q, %k, %v) {scale = 0.25}
  %y = Where(%real, %a, %f)
  return y = %y
})");
  Context context;
  context.target = codegen::cpu_target().traits();
  context.eight_bit.attention = DType::kFloat8E4M3FN;
  context.eight_bit.emulate = true;
  context.weights.calibration = random_calibration(graph, 2);
  run_pass("quantize_attention", graph, context);
  EXPECT_THAT(context.layers.at(0).kept, HasSubstr("--max-error is 0.015"));
}

TEST(EightBitChoices, LayersAreOffByWhatTheyCompute) {
  // The layer is the mask with the sum in front, of which all but masked elements are a tenth off.
  const ir::Graph graph = masked_layers("  %f = const f32[] {-1e9}\n  %y = Where(%real, %d, %f)");
  const Calibration calibration = sample_of(deviates(8, 24, 1));
  std::vector<std::size_t> places{graph.nodes().size() - 1};
  ASSERT_EQ(graph.nodes()[places[0]].op->name, "Where");
  EightBitTrial trial(
      graph, calibration, places,
      [](GraphBuilder& builder, std::size_t, const Node& node, std::span<const ValueId> inputs) {
        const ValueId more = builder.add("Mul", {inputs[1], builder.scalar(DType::kFloat32, 1.1)});
        return builder.add(node.op->name, {inputs[0], more, inputs[2]});
      });
  EXPECT_NEAR(trial.layer_errors().at(0), 0.1, 1e-4);
  EXPECT_NEAR(trial.output_error({0}), 0.1, 1e-4);
}

/// Integers from -127 to 127 of the largest magnitude, of the samples and of each output channel.
double plain_error(const ir::Tensor& x, const ir::Tensor& w) {
  const std::int64_t k = w.shape()[0], n = w.shape()[1];
  const auto round = [](double value, double largest) {
    return std::nearbyint(value / largest * 127) * largest / 127;
  };
  double largest = 0, difference = 0, size = 0;
  for (std::int64_t i = 0; i < x.element_count(); ++i)
    largest = std::max(largest, std::abs(x.at(i)));
  for (std::int64_t column = 0; column < n; ++column) {
    double own = 0;
    for (std::int64_t j = 0; j < k; ++j) own = std::max(own, std::abs(w.at(j * n + column)));
    for (std::int64_t row = 0; row < x.shape()[0]; ++row) {
      double exact = 0, found = 0;
      for (std::int64_t j = 0; j < k; ++j) {
        const double a = x.at(row * k + j), b = w.at(j * n + column);
        exact += a * b;
        found += round(a, largest) * round(b, own);
      }
      difference += (found - exact) * (found - exact);
      size += exact * exact;
    }
  }
  return std::sqrt(difference / size);
}

TEST(EightBitChoices, RowsCountByTheirSizeWhereNoNormIsBehind) {
  for (const auto& [k, spread] : {std::pair<std::int64_t, double>(1, 0), {24, 1.5}}) {
    const ir::Graph graph = ir::parse_graph(fmt::format(R"(graph @main(%x: f32[batch, {0}]) {{
  %w = const f32[{0}, 16] random(1)
  %y = MatMul(%x, %w)
  return y = %y
}})",
                                                        k));
    const ir::Tensor x = deviates(128, k, 3, spread);
    for (const auto smoothing : {std::optional<double>(), std::optional<double>(0)}) {
      Context context = emulated(DType::kInt8, sample_of(x));
      context.eight_bit.smoothing = smoothing;
      context.eight_bit.max_error = 10;
      const ir::Graph rounded = run_pass("quantize_products", graph, context);
      EXPECT_LE(error_between(rounded, graph, x),
                1.15 * plain_error(x, *graph.value(graph.nodes()[0].inputs[1]).constant))
          << k << " columns";
    }
  }
}

TEST(EightBitChoices, RowsCountAlikeWhereANormIsBehind) {
  // Where all rows count alike, a few that are far larger than the others saturate.
  const auto scale_with = [](const std::string& behind) {
    const ir::Graph graph = ir::parse_graph(R"(graph @main(%x: f32[batch, 24]) {
  %w = const f32[24, 16] random(1)
  %g = const f32[16] random(2)
  %a = MatMul(%x, %w)
)" + behind + R"(
  return y = %y
})");
    Context context = emulated(DType::kInt8, sample_of(deviates(128, 24, 3, 1.5)));
    context.eight_bit.smoothing = 0;
    context.eight_bit.max_error = 10;
    const ir::Graph rounded = run_pass("quantize_products", graph, context);
    for (const ir::Node& node : rounded.nodes())
      if (node.op->name == "Quotient") return rounded.value(node.inputs[1]).constant->at(0);
    ADD_FAILURE() << "nothing is rounded";
    return 0.0;
  };
  EXPECT_LT(scale_with("  %y = RmsNorm(%a, %g) {axis = 1}"),
            0.8 * scale_with("  %y = Add(%a, %g)"));
}

TEST(EightBitChoices, WhatIsChosenOnSamplesHoldsOnOthers) {
  double automatic = 0, off = 0, reported = 0;
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    const ir::Graph graph = ir::parse_graph(fmt::format(R"(graph @main(%x: f32[batch, 8]) {{
  %w0 = const f32[8, 48] random({0}1)
  %w1 = const f32[48, 48] random({0}2)
  %w2 = const f32[48, 2] random({0}3)
  %a = MatMul(%x, %w0)
  %b = Relu(%a)
  %c = MatMul(%b, %w1)
  %d = Relu(%c)
  %y = MatMul(%d, %w2)
  return y = %y
}})",
                                                        seed));
    const Calibration calibration = sample_of(deviates(256, 8, seed));
    const ir::Tensor fresh = deviates(1024, 8, 100 + seed);
    for (const auto smoothing : {std::optional<double>(), std::optional<double>(0)}) {
      Context context = emulated(DType::kInt8, calibration);
      context.eight_bit.smoothing = smoothing;
      context.eight_bit.max_error = 10;
      const double error =
          error_between(run_pass("quantize_products", graph, context), graph, fresh);
      (smoothing ? off : automatic) += error;
      if (!smoothing) reported += said(context);
    }
  }
  EXPECT_LT(automatic, 1.1 * off);
  EXPECT_LT(automatic, 1.4 * reported);
}

TEST(EightBitChoices, RowsOfAFewSamplesAreAsGoodAsSamples) {
  const auto parts_of = [](const std::string& text, std::int64_t rows) {
    const ir::Graph graph = ir::parse_graph(text);
    const Calibration divided = with_rows_as_samples(graph, sample_of(deviates(rows, 4, 1)));
    return divided.samples.size();
  };
  const std::string rows = R"(graph @main(%x: f32[batch, 4]) {
  %w = const f32[4, 4] random(1)
  %y = MatMul(%x, %w)
  return y = %y
})";
  EXPECT_EQ(parts_of(rows, 100), 16U);
  EXPECT_EQ(parts_of(rows, 5), 5U);
  EXPECT_EQ(parts_of(rows, 3), 1U);
  // Rows that see each other are no samples, and neither are those of a fixed number.
  EXPECT_EQ(parts_of(R"(graph @main(%x: f32[tokens, 4]) {
  %t = Transpose(%x) {perm = [1, 0]}
  %s = MatMul(%x, %t)
  %y = MatMul(%s, %x)
  return y = %y
})",
                     100),
            1U);
  EXPECT_EQ(parts_of(R"(graph @main(%x: f32[100, 4]) {
  %y = Relu(%x)
  return y = %y
})",
                     100),
            1U);
}

TEST(EightBitChoices, PiecesAreFewHoweverManySamplesThereAre) {
  Calibration calibration;
  const auto count_of = [&](std::size_t samples) {
    calibration.samples.resize(samples);
    return piece_count(calibration);
  };
  EXPECT_EQ(count_of(1), 4U);
  EXPECT_EQ(count_of(4), 4U);
  EXPECT_EQ(count_of(1000), 16U);
  EXPECT_EQ(piece_of(calibration, 17, 0), 1U);
}

TEST(EightBitChoices, OneTextIsJudgedInPieces) {
  // Attention over the rows of the one sample: the products are chosen, and their errors are known.
  const ir::Graph graph = ir::parse_graph(R"(graph @main(%x: f32[1, tokens, 16]) {
  %w0 = const f32[16, 16] random(1)
  %w1 = const f32[16, 16] random(2)
  %a = MatMul(%x, %w0)
  %t = Transpose(%a) {perm = [0, 2, 1]}
  %s = MatMul(%a, %t)
  %p = Softmax(%s) {axis = 2}
  %b = MatMul(%p, %x)
  %y = MatMul(%b, %w1)
  return y = %y
})");
  Context context = emulated(DType::kInt8, sample_of(deviates(32, 16, 1).reshaped({1, 32, 16})));
  context.eight_bit.max_error = 10;
  run_pass("quantize_products", graph, context);
  ASSERT_EQ(context.layers.size(), 2U);
  for (const QuantizedLayer& layer : context.layers) {
    EXPECT_THAT(layer.kept, IsEmpty());
    EXPECT_GT(layer.output_error, 1e-3);
    EXPECT_LT(layer.output_error, 0.05);
  }
}

/// A product of no layer that is quantized, and one behind it.
ir::Graph odd_product(const std::string& product) {
  return ir::parse_graph("graph @main(%x: f32[3, batch, 16], %n: f32[n]) ranges {n: 1..8} {\n" +
                         product + R"(
  %v = const f32[8, 8] random(9)
  %y = MatMul(%t, %v)
  return y = %y
})");
}

TEST(EightBitChoices, ProductsByConstantsThatStaySayWhy) {
  struct Row {
    std::string product, reason;
    std::int64_t n, k;
    double bytes;
  };
  const Row rows[] = {
      {R"(  %w = const f32[3, 16, 8] random(1)
  %t = MatMul(%x, %w)  # from odd)",
       "[3, 16, 8] are a matrix for each of a batch", 8, 16, 1536},
      {R"(  %w = const f32[8, 3] random(1)
  %i = Transpose(%x) {perm = [1, 0, 2]}
  %l = MatMul(%w, %i)  # from odd
  %c = const f32[16, 8] random(2)
  %t = MatMul(%l, %c))",
       "the left operand", 8, 3, 96},
      {R"(  %w = const f64[16, 8] random(1)
  %d = Cast(%x) {to = f64}
  %l = MatMul(%d, %w)  # from odd
  %t = Cast(%l) {to = f32})",
       "f64", 8, 16, 1024},
      {R"(  %w = const f32[16, 16] random(1)
  %c = const f32[16, 8] random(2)
  %zero = const i64[] {0}
  %l = While(%zero, %x, %w) {states = 1, trips = [n]} : f32[3, batch, 16] body(%i, %a, %b) {
    %m = MatMul(%a, %b) : f32[3, batch, 16]  # from odd
    return %m
  }
  %t = MatMul(%l, %c))",
       "in the body of a loop", 16, 16, 1024},
  };
  for (const Row& row : rows) {
    const ir::Graph graph = odd_product(row.product);
    for (const char* pass : {"quantize_weights", "quantize_products"}) {
      Context context;
      context.target = codegen::cpu_target().traits();
      if (pass == std::string("quantize_weights")) {
        context.weights.bits = 8;
      } else {
        context.eight_bit.type = DType::kInt8;
        context.eight_bit.activation_scales = ActivationScales::kToken;
      }
      run_pass(pass, graph, context);
      const auto found = std::ranges::find(context.layers, "odd", &QuantizedLayer::name);
      ASSERT_NE(found, context.layers.end()) << pass << row.product;
      EXPECT_THAT(found->kept, HasSubstr(row.reason)) << pass;
      EXPECT_EQ(found->bits, 0);
      EXPECT_EQ(found->n, row.n) << row.reason;
      EXPECT_EQ(found->k, row.k) << row.reason;
      EXPECT_EQ(found->bytes_before, row.bytes) << row.reason;
      EXPECT_EQ(found->bytes_after, row.bytes) << row.reason;
    }
  }
}

}  // namespace
}  // namespace sinter::fusion::test
