// SPDX-License-Identifier: Apache-2.0
// Values at the edges of their types, and sizes that no plan can hold.
#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "frontend/ops/node_context.h"
#include "tests/frontend/op_test_support.h"

namespace sinter::frontend {
namespace {

using ir::Tensor;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

const double kNotANumber = std::nan("");

TEST(EdgeValues, DiagonalsBeyondTheMatrix) {
  for (const std::int64_t k :
       {INT64_MAX, INT64_MIN, std::int64_t{1} << 62, std::int64_t{3}, std::int64_t{-3}})
    for (const bool upper : {true, false})
      for (const bool constant : {true, false}) {
        const OneOp op{"Trilu",
                       {floats({2, 2}, {1, 2, 3, 4}), int64s({}, {k})},
                       {attr("upper", upper ? 1 : 0)},
                       17,
                       constant ? std::vector<std::size_t>{1} : std::vector<std::size_t>{}};
        const bool keeps_all = upper == (k < 0);
        expect_tensor(op.run(), {2, 2},
                      keeps_all ? std::vector<double>{1, 2, 3, 4} : std::vector<double>(4, 0));
      }
}

TEST(EdgeValues, ScalesOfResize) {
  const auto error = [](ErrorCode code, double scale, const char* mode, int antialias = 0) {
    return OneOp{"Resize",
                 {ramp({1, 1, 4}), floats({0}, {}), floats({3}, {1, 1, scale})},
                 {attr("mode", mode), attr("antialias", antialias)},
                 18,
                 {1, 2}}
        .model()
        .import_error(code);
  };
  EXPECT_THAT(error(ErrorCode::kInvalidModel, kInfinity, "nearest"),
              HasSubstr("not a positive number"));
  EXPECT_THAT(error(ErrorCode::kInvalidModel, kNotANumber, "linear"),
              HasSubstr("not a positive number"));
  EXPECT_THAT(error(ErrorCode::kUnsupported, 1e30, "nearest"), HasSubstr("elements"));
  EXPECT_THAT(error(ErrorCode::kUnsupported, 1e15, "linear"), HasSubstr("elements"));
}

TEST(EdgeValues, RegionsOfResizeThatAreNoNumbers) {
  const OneOp op{
      "Resize",
      {ramp({4}), floats({2}, {kNotANumber, kInfinity}), floats({1}, {0.5})},
      {attr("mode", "nearest"), attr("coordinate_transformation_mode", "tf_crop_and_resize")},
      18,
      {1, 2}};
  EXPECT_EQ(op.run().shape(), v({2}));  // without undefined behaviour
}

/// Of float16, where each operator's result is rounded to its type: what is computed on the way may
/// be beyond it.
TEST(EdgeValues, SumsBeyondFloat16) {
  const double large = 24576;
  const Tensor x =
      Tensor::from_doubles(DType::kFloat16, {1, 1, 4}, {{large, -large, large, large}});
  const auto expect = [&](OneOp op, const std::vector<double>& expected) {
    op.inputs.insert(op.inputs.begin(), x);
    const Tensor y = op.run();
    EXPECT_EQ(y.dtype(), DType::kFloat16);
    ASSERT_EQ(y.element_count(), std::ssize(expected)) << op.op;
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_NEAR(y.at(static_cast<std::int64_t>(i)), expected[i], std::abs(expected[i]) * 1e-3)
          << op.op << ", element " << i;
  };
  expect({"ReduceL2", {}, {attr("axes", v({2}))}, 13}, {2 * large});
  expect({"ReduceLogSum", {}, {attr("axes", v({2}))}, 13}, {std::log(2 * large)});
  expect({"GlobalLpPool", {}, {}}, {2 * large});
  expect({"LpPool", {}, {attr("kernel_shape", v({4})), attr("p", 3)}, 18},
         {std::cbrt(4.0) * large});
  expect({"LpNormalization", {}, {attr("p", 1)}}, {0.25, -0.25, 0.25, 0.25});
  expect({"LpNormalization", {}}, {0.5, -0.5, 0.5, 0.5});
  expect({"Mean", {x, x, x}}, {large, -large, large, large});
  const double low = -std::sqrt(3.0), high = 1 / std::sqrt(3.0);
  expect({"MeanVarianceNormalization", {}, {attr("axes", v({2}))}}, {high, low, high, high});
  // x / sqrt(x^2).
  expect(
      {"LRN", {}, {attr("size", 1), attr("alpha", 1.0F), attr("beta", 0.5F), attr("bias", 0.0F)}},
      {1, -1, 1, 1});
  const std::int64_t count = 1 << 17;
  const OneOp many{"LogSoftmax",
                   {Tensor::from_doubles(DType::kFloat16, {count}, std::vector<double>(count, 1))}};
  EXPECT_NEAR(many.run().at(0), -17 * std::log(2.0), 1e-2);
}

TEST(EdgeValues, ConstantIndices) {
  const auto pick = [](const char* name, std::vector<std::int64_t> shape,
                       std::vector<std::int64_t> indices) {
    return OneOp{name, {ramp({3, 2}), int64s(std::move(shape), std::move(indices))}, {}, 17, {1}}
        .model();
  };
  for (const std::int64_t index :
       {INT64_MAX, INT64_MIN, std::int64_t{1} << 53, std::int64_t{3}, std::int64_t{-4}}) {
    const std::string message = fmt::format("index {} is out of range", index);
    EXPECT_THAT(pick("Gather", {2}, {0, index}).import_error(ErrorCode::kInvalidModel),
                HasSubstr(message));
    EXPECT_THAT(pick("GatherElements", {1, 2}, {0, index}).import_error(ErrorCode::kInvalidModel),
                HasSubstr(message));
    EXPECT_THAT(pick("GatherND", {2, 2}, {0, 1, index, 0}).import_error(ErrorCode::kInvalidModel),
                HasSubstr(message));
  }
  EXPECT_NO_THROW(pick("Gather", {2}, {2, -3}).import());
  EXPECT_NO_THROW(pick("GatherND", {2, 2}, {2, 1, -3, -2}).import());
}

TEST(EdgeValues, RangesWrapAsTheirTypeDoes) {
  const OneOp op{"Range",
                 {int64s({}, {INT64_MAX - 1}), int64s({}, {INT64_MAX}), int64s({}, {INT64_MAX})},
                 {},
                 17,
                 {0, 1, 2}};
  EXPECT_NO_THROW(op.model().import());
}

TEST(EdgeValues, WhatExportersWriteForNothing) {
  // No axes as an empty tensor; no clipping as a bound of zero, as other runtimes read it.
  const OneOp squeeze{"Squeeze", {ramp({1, 2, 1}), int64s({0}, {})}, {}, 17, {1}};
  expect_tensor(squeeze.run(), {2}, {0, 1});
  const auto rnn = [](std::vector<Attribute> attributes) {
    attributes.push_back(attr("hidden_size", 1));
    return OneOp{
        "RNN", {ramp({2, 1, 1}), floats({1, 1, 1}, {1}), floats({1, 1, 1}, {0.5})}, attributes};
  };
  const Tensor free = rnn({}).run();
  expect_tensor(rnn({attr("clip", 0.0F)}).run(), {2, 1, 1, 1}, free.to_doubles());
  EXPECT_THAT(rnn({attr("clip", 0.0F)}).model().import().warnings,
              Contains(HasSubstr("taken as no clipping")));
  // One scale for a vector: the axis, 1 where none is given, is none of its dimensions.
  const OneOp bias{
      "DequantizeLinear",
      {Tensor::from_ints(DType::kInt32, {2}, std::vector<std::int64_t>{4, -6}), floats({1}, {0.5})},
      {},
      17};
  expect_tensor(bias.run(), {2}, {2, -3});
}

TEST(EdgeValues, WindowsOfNoSize) {
  for (const char* op : {"HannWindow", "HammingWindow", "BlackmanWindow"}) {
    const OneOp window{op, {int64s({}, {-5})}, {}, 17, {0}};
    EXPECT_THAT(window.model().import_error(ErrorCode::kInvalidModel),
                HasSubstr("a dimension is negative"));
  }
}

TEST(EdgeValues, MaxPoolOfNaN) {
  // NaN is the greatest, as for PyTorch; its place is that of the first, as for numpy.argmax.
  OneOp op{"MaxPool",
           {floats({1, 1, 4}, {1, kNotANumber, 3, 2})},
           {attr("kernel_shape", v({2})), attr("strides", v({2}))}};
  op.outputs = 2;
  const std::vector<Tensor> results = op.run_all();
  EXPECT_TRUE(std::isnan(results[0].at(0)));
  EXPECT_EQ(results[0].at(1), 3);
  EXPECT_EQ(results[1].at_int(0), 1);
  EXPECT_EQ(results[1].at_int(1), 2);
}

TEST(EdgeValues, ShiftsOfSignedIntegers) {
  const auto i8 = [](std::vector<std::int64_t> values) {
    return Tensor::from_ints(DType::kInt8, {static_cast<std::int64_t>(values.size())}, values);
  };
  const OneOp right{
      "BitShift", {i8({-8, -8, 8, -1}), i8({1, 8, -1, 7})}, {attr("direction", "RIGHT")}, 28};
  expect_tensor(right.run(), {4}, {-4, -1, 0, -1});
  const OneOp left{"BitShift", {i8({-8, -8, 64}), i8({1, 8, 1})}, {attr("direction", "LEFT")}, 28};
  expect_tensor(left.run(), {3}, {-16, 0, -128});
}

TEST(EdgeValues, ModOfFloats) {
  const OneOp op{"Mod", {floats({4}, {-5, 5, -1, 0}), floats({4}, {3, -3, kInfinity, -2})}, {}, 28};
  const Tensor result = op.run();
  EXPECT_EQ(result.at(0), 1);
  EXPECT_EQ(result.at(1), -1);
  EXPECT_EQ(result.at(2), kInfinity);
  EXPECT_TRUE(std::signbit(result.at(3)));
  // Before, ONNX wants fmod: see Leniency.
  EXPECT_THAT((OneOp{"Mod", {ramp({2}), ramp({2})}, {}, 27}.model().import().warnings),
              testing::Contains(HasSubstr("as opset 28 says")));
}

TEST(Opset28, SpaceToDepthAndSwiGLU) {
  const OneOp op{
      "SpaceToDepth", {ramp({1, 2, 2, 2})}, {attr("blocksize", 2), attr("mode", "CRD")}, 28};
  expect_tensor(op.run(), {1, 8, 1, 1}, {0, 1, 2, 3, 4, 5, 6, 7});
  const auto silu = [](double x, double alpha) { return x / (1 + std::exp(-alpha * x)); };
  for (const double alpha : {1.0, 2.0}) {
    const OneOp glu{"SwiGLU",
                    {floats({2}, {1, -2}), floats({2}, {3, 4})},
                    {attr("alpha", static_cast<float>(alpha))},
                    28};
    expect_tensor(glu.run(), {2}, {3 * silu(1, alpha), 4 * silu(-2, alpha)});
  }
}

TEST(Sizes, BeyondAnyPlanAreRefused) {
  ModelBuilder deep;
  deep.input("x", DType::kFloat32, std::vector<ModelDim>(33, 1))
      .node("Relu", {"x"}, {"y"})
      .output("y");
  EXPECT_THAT(deep.import_error(ErrorCode::kUnsupported),
              HasSubstr("33 dimensions: at most 32 are supported"));
  ModelBuilder reshaped;
  reshaped.input("x", DType::kFloat32, {2}).ints("to", std::vector<std::int64_t>(33, 1));
  reshaped.node("Expand", {"x", "to"}, {"y"}).output("y");
  EXPECT_THAT(reshaped.import_error(ErrorCode::kUnsupported), HasSubstr("at most 32"));
  ModelBuilder wide;
  wide.input("x", DType::kFloat32, {"n", 1 << 30}).ints("to", {1 << 30, 1, 1});
  wide.node("Expand", {"x", "to"}, {"y"}).output("y");
  EXPECT_THAT(wide.import_error(ErrorCode::kUnsupported),
              HasSubstr("elements cannot be addressed"));
}

TEST(Sizes, DefaultRangesBeginWhereWindowsFit) {
  ModelBuilder model;
  model.input("x", DType::kFloat32, {1, 1, "n"}).initializer("w", ramp({2, 1, 8}));
  model.node("Conv", {"x", "w"}, {"y"}, {attr("strides", v({4}))}).output("y");
  const ImportedModel narrowed = model.import();
  EXPECT_EQ(narrowed.graph.ranges().at("n").min, 8);
  EXPECT_THAT(narrowed.warnings,
              Contains(AllOf(HasSubstr("'n' is limited to 8..65536"), HasSubstr("the_Conv"))));
  ImportOptions given;
  given.ranges["n"] = {1, 100, nullptr};
  const ImportedModel kept = model.import(given);
  EXPECT_EQ(kept.graph.ranges().at("n").min, 1);
  EXPECT_THAT(kept.warnings, IsEmpty());
}

}  // namespace
}  // namespace sinter::frontend
