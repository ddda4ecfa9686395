// SPDX-License-Identifier: Apache-2.0
// Floats of 8 bits in ONNX models.
#include <limits>

#include "tests/frontend/op_test_support.h"

namespace sinter::frontend {
namespace {

using ir::Tensor;
using testing::AllOf;
using testing::HasSubstr;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr DType kE4M3 = DType::kFloat8E4M3FN, kE5M2 = DType::kFloat8E5M2;
constexpr int kOnnxE4M3 = 17, kOnnxE5M2 = 19;

Tensor of(DType type, std::vector<std::int64_t> shape, const std::vector<double>& values) {
  return Tensor::from_doubles(type, std::move(shape), values);
}
Tensor single(double value) { return floats({}, {value}); }

/// NaN is equal to itself here.
void expect_numbers(const Tensor& actual, DType type, const std::vector<double>& values) {
  EXPECT_EQ(actual.dtype(), type);
  ASSERT_EQ(actual.element_count(), static_cast<std::int64_t>(values.size()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double found = actual.at(static_cast<std::int64_t>(i));
    EXPECT_TRUE(found == values[i] || (std::isnan(found) && std::isnan(values[i])))
        << "element " << i << " is " << found << " instead of " << values[i];
  }
}

TEST(Float8, CastSaturatesUnlessToldNotTo) {
  const Tensor x = floats({7}, {0.3, 464, 465, -1000, 1e6, -kInf, kNan});
  const auto cast = [&](int to, int saturate) {
    return OneOp{"Cast", {x}, {attr("to", to), attr("saturate", saturate)}, 19}.run();
  };
  expect_numbers(cast(kOnnxE4M3, 1), kE4M3, {0.3125, 448, 448, -448, 448, -448, kNan});
  expect_numbers(cast(kOnnxE4M3, 0), kE4M3, {0.3125, 448, kNan, kNan, kNan, kNan, kNan});
  expect_numbers(cast(kOnnxE5M2, 1), kE5M2, {0.3125, 448, 448, -1024, 57344, -57344, kNan});
  expect_numbers(cast(kOnnxE5M2, 0), kE5M2, {0.3125, 448, 448, -1024, kInf, -kInf, kNan});
  expect_numbers(OneOp{"CastLike", {x, of(kE5M2, {1}, {0})}, {attr("saturate", 0)}, 19}.run(),
                 kE5M2, {0.3125, 448, 448, -1024, kInf, -kInf, kNan});
}

TEST(Float8, InitializersLieInBothFields) {
  const Tensor codes = Tensor::of<std::uint8_t>(kE4M3, {3}, {0x38, 0xfe, 0x7f});
  for (const bool raw : {false, true}) {
    ModelBuilder model(19);
    auto* tensor = model.graph().add_initializer();
    tensor->set_name("w");
    tensor->set_data_type(kOnnxE4M3);
    tensor->add_dims(3);
    if (raw) tensor->set_raw_data(std::string("\x38\xfe\x7f", 3));
    if (!raw)
      for (const int code : {0x38, 0xfe, 0x7f}) tensor->add_int32_data(code);
    model.node("Cast", {"w"}, {"y"}, {attr("to", 1)}).output("y");
    expect_numbers(model.run({})[0], DType::kFloat32, {1, -448, kNan});
  }
}

TEST(Float8, QuantizesPerTensorAxisAndBlock) {
  const Tensor x = floats({2, 4}, {1, 2, 3, 4000, -5, 6, -0.01, 8});
  const Tensor zero = of(kE4M3, {}, {0});
  expect_numbers(OneOp{"QuantizeLinear", {x, single(2), zero}, {}, 19, {1, 2}}.run(), kE4M3,
                 {0.5, 1, 1.5, 448, -2.5, 3, -0.005859375, 4});
  expect_numbers(OneOp{"QuantizeLinear",
                       {x, floats({2}, {1, 4})},
                       {attr("axis", 0), attr("output_dtype", kOnnxE5M2)},
                       23}
                     .run(),
                 kE5M2, {1, 2, 3, 4096, -1.25, 1.5, -0.00244140625, 2});
  const std::vector<Attribute> blocks{attr("axis", 1), attr("block_size", 2)};
  const Tensor scales = floats({2, 2}, {1, 10, 0.5, 2});
  const Tensor q =
      OneOp{"QuantizeLinear", {x, scales, of(kE4M3, {2, 2}, {0, 0, 0, 0})}, blocks, 21, {1, 2}}
          .run();
  expect_numbers(q, kE4M3, {1, 2, 0.3125, 384, -10, 12, -0.005859375, 4});
  expect_numbers(OneOp{"DequantizeLinear", {q, scales}, blocks, 21}.run(), DType::kFloat32,
                 {1, 2, 3.125, 3840, -5, 6, -0.01171875, 8});
  expect_numbers(
      OneOp{"QuantizeLinear", {x, single(1), zero}, {attr("saturate", 0)}, 19, {1, 2}}.run(), kE4M3,
      {1, 2, 3, kNan, -5, 6, -0.009765625, 8});
}

TEST(Float8, DequantizesToItsScalesType) {
  const Tensor x = of(kE5M2, {3}, {1.5, -kInf, 0.25});
  const auto half = [](double value) { return of(DType::kFloat16, {}, {value}); };
  expect_numbers(OneOp{"DequantizeLinear", {x, half(2)}, {}, 19}.run(), DType::kFloat16,
                 {3, -kInf, 0.5});
  expect_numbers(OneOp{"DequantizeLinear", {x, half(2)}, {attr("output_dtype", 1)}, 23}.run(),
                 DType::kFloat32, {3, -kInf, 0.5});
}

TEST(Float8, ViewsAndTestsTakeThem) {
  const Tensor x = of(kE4M3, {2, 2}, {1, -2, kNan, 4});
  expect_numbers(OneOp{"Transpose", {x}, {attr("perm", v({1, 0}))}, 23}.run(), kE4M3,
                 {1, kNan, -2, 4});
  expect_numbers(OneOp{"Reshape", {x, int64s({1}, {4})}, {}, 21, {1}}.run(), kE4M3,
                 {1, -2, kNan, 4});
  expect_numbers(OneOp{"IsNaN", {x}, {}, 20}.run(), DType::kBool, {0, 0, 1, 0});
  expect_numbers(OneOp{"Pad", {x, int64s({4}, {0, 1, 0, 0})}, {}, 25, {1}}.run(), kE4M3,
                 {0, 1, -2, 0, kNan, 4});
}

TEST(Float8, QuantizedProducts) {
  const Tensor a = of(kE4M3, {1, 2}, {2, -3}), b = of(kE4M3, {2, 2}, {1, 2, 3, 4});
  const Tensor zero = of(kE4M3, {}, {0});
  expect_numbers(OneOp{"QLinearMatMul",
                       {a, single(0.5), zero, b, single(2), zero, single(0.25), zero},
                       {},
                       21,
                       {1, 2, 4, 5, 6, 7}}
                     .run(),
                 kE4M3, {-28, -32});
}

TEST(Float8, ModelOptimizersOperators) {
  const auto model_of = [](bool bytes) {
    ModelBuilder model(17);
    model.input("x", DType::kFloat16, {2});
    model.initializer("s", floats({}, {0.5}));
    model.initializer("w", bytes ? Tensor::of<std::uint8_t>(DType::kUInt8, {2}, {0x38, 0xb8})
                                 : of(kE4M3, {2}, {1, -1}));
    model.node("TRT_FP8QuantizeLinear", {"x", "s"}, {"q"});
    model.last_node().set_domain("trt");
    model.node("TRT_FP8DequantizeLinear", {"q", "s"}, {"d"});
    model.last_node().set_domain("trt");
    model.node("TRT_FP8DequantizeLinear", {"w", "s"}, {"v"});
    model.last_node().set_domain("trt");
    model.node("Add", {"d", "v"}, {"y"}).output("y");
    return model;
  };
  for (const bool bytes : {false, true})
    expect_numbers(model_of(bytes).run({of(DType::kFloat16, {2}, {0.3, 1000})})[0], DType::kFloat32,
                   {0.3125 + 0.5, 224 - 0.5});
}

TEST(Float8, WhatOnnxDoesNotAllowIsAnError) {
  const auto error = [](const OneOp& op) {
    return op.model().import_error(ErrorCode::kInvalidModel);
  };
  const Tensor x = of(kE4M3, {2}, {1, 2}), wide = floats({2}, {1, 2});
  EXPECT_THAT(
      error({"Add", {x, x}, {}, 19}),
      AllOf(HasSubstr("its input 0 ('A') is f8e4m3fn[2], and Add takes no floats of 8 bits"),
            HasSubstr("cast it, or dequantize it, to float16 or float32")));
  EXPECT_THAT(error({"MatMul", {of(kE5M2, {1, 1}, {1}), of(kE5M2, {1, 1}, {1})}, {}, 19}),
              HasSubstr("MatMul takes no floats of 8 bits"));
  EXPECT_THAT(error({"QuantizeLinear", {wide, single(1), of(kE4M3, {}, {1})}, {}, 19, {2}}),
              HasSubstr("input 2 (y_zero_point) is 1; of floats of 8 bits it must be 0"));
  EXPECT_THAT(error({"DequantizeLinear", {x, single(1), of(kE4M3, {}, {-2})}, {}, 19, {2}}),
              HasSubstr("input 2 (x_zero_point) is -2; of floats of 8 bits it must be 0"));
  EXPECT_THAT(error({"DequantizeLinear", {x, x}, {}, 19}), HasSubstr("its scale is f8e4m3fn[2]"));
  EXPECT_THAT(error({"QuantizeLinear", {x, single(1)}, {}, 23}),
              HasSubstr("its input is f8e4m3fn[2]"));
  EXPECT_THAT(
      (OneOp{"QuantizeLinear", {wide, single(1), of(kE4M3, {}, {0})}, {}, 19}.model().import_error(
          ErrorCode::kUnsupported)),
      HasSubstr("input 2 (y_zero_point) is computed; of floats of 8 bits it must be the constant"));
  ModelBuilder raw(19);
  auto* tensor = raw.graph().add_initializer();
  tensor->set_name("w");
  tensor->set_data_type(kOnnxE4M3);
  tensor->add_dims(3);
  tensor->set_raw_data("ab");
  raw.node("Cast", {"w"}, {"y"}, {attr("to", 1)}).output("y");
  EXPECT_THAT(raw.import_error(ErrorCode::kInvalidModel), HasSubstr("f8e4m3fn[3] needs 3"));
  EXPECT_THAT(
      (OneOp{"Cast", {wide}, {attr("to", 23)}, 23}.model().import_error(ErrorCode::kUnsupported)),
      HasSubstr("FLOAT4E2M1"));
}

}  // namespace
}  // namespace sinter::frontend
