// SPDX-License-Identifier: Apache-2.0
// Quantized operators, Einsum and transforms of signals.
#include "tests/frontend/op_test_support.h"

namespace sinter::frontend {
namespace {

using ir::Tensor;

Tensor scalar(double value) { return floats({}, {value}); }
Tensor bytes(std::vector<std::int64_t> shape, const std::vector<std::int64_t>& values,
             DType type = DType::kUInt8) {
  return Tensor::from_ints(type, std::move(shape), values);
}

TEST(Quantize, RoundsToEvenAndSaturates) {
  const Tensor x = floats({6}, {0, 2, 3, 1000, -254, -1000});
  expect_tensor(OneOp({"QuantizeLinear", {x, scalar(2), bytes({}, {128})}}).run(), {6},
                {128, 129, 130, 255, 1, 0});
  const Tensor y = OneOp({"QuantizeLinear", {x, scalar(2)}, {attr("output_dtype", 3)}, 21}).run();
  EXPECT_EQ(y.dtype(), DType::kInt8);
  expect_tensor(y, {6}, {0, 1, 2, 127, -127, -128});
}

TEST(Quantize, PerAxisAndInBlocks) {
  const Tensor x = floats({2, 3}, {1, 2, 3, 4, 5, 6});
  expect_tensor(
      OneOp({"QuantizeLinear", {x, floats({2}, {1, 2}), bytes({2}, {0, 10})}, {attr("axis", 0)}})
          .run(),
      {2, 3}, {1, 2, 3, 12, 12, 13});
  // Blocks of two along the last dimension; the second one is cut short.
  const Tensor scales = floats({2, 2}, {1, 3, 2, 6});
  expect_tensor(OneOp({"QuantizeLinear",
                       {x, scales, bytes({2, 2}, {0, 1, 2, 3})},
                       {attr("axis", 1), attr("block_size", 2)},
                       21})
                    .run(),
                {2, 3}, {1, 2, 2, 4, 4, 4});
  expect_tensor(OneOp({"DequantizeLinear",
                       {bytes({2, 3}, {1, 2, 3, 4, 5, 6}), scales},
                       {attr("axis", 1), attr("block_size", 2)},
                       21})
                    .run(),
                {2, 3}, {1, 2, 9, 8, 10, 36});
}

TEST(Quantize, ParametersThatDoNotFitAreErrors) {
  const auto error = [](const Tensor& scale, const Tensor& zero,
                        const std::vector<Attribute>& attributes) {
    const Tensor x = bytes({20, 6}, std::vector<std::int64_t>(120, 1), DType::kInt8);
    return OneOp({"DequantizeLinear", {x, scale, zero}, attributes, 21})
        .model()
        .import_error(ErrorCode::kInvalidModel);
  };
  const auto ones = [](std::vector<std::int64_t> shape, DType type) {
    std::size_t count = 1;
    for (const std::int64_t dim : shape) count *= static_cast<std::size_t>(dim);
    return Tensor::from_doubles(type, std::move(shape), std::vector<double>(count, 1));
  };
  const auto scales = [&](std::vector<std::int64_t> shape) {
    return ones(std::move(shape), DType::kFloat32);
  };
  const std::vector<Attribute> blocks{attr("axis", 0), attr("block_size", 7)};
  EXPECT_THAT(error(scales({4, 6}), ones({4, 6}, DType::kInt8), blocks),
              testing::HasSubstr("[4, 6] do not fit blocks of 7 along dimension 0 of [20, 6]: "
                                 "these need [3, 6]"));
  EXPECT_THAT(error(scales({3, 5}), ones({3, 5}, DType::kInt8), blocks),
              testing::HasSubstr("these need [3, 6]"));
  EXPECT_THAT(error(scales({2, 3}), ones({2, 3}, DType::kInt8), {}),
              testing::HasSubstr("[2, 3] do not fit [20, 6]"));
  EXPECT_THAT(
      error(scales({6}), ones({6}, DType::kUInt8), {}),
      testing::HasSubstr(
          "its inputs 0 ('x') i8[20, 6] and 2 ('x_zero_point') u8[6] must have one element type"));
  EXPECT_THAT(error(ones({6}, DType::kInt32), ones({6}, DType::kInt8), {}),
              testing::HasSubstr("its scale is i32[6]; scales are f32, f16 or bf16"));
}

TEST(Quantize, TypesThatContradictAreErrors) {
  const auto error = [](const char* op, std::vector<ir::Tensor> inputs,
                        const std::vector<Attribute>& attributes, int opset) {
    return OneOp{op, std::move(inputs), attributes, opset}.model().import_error(
        ErrorCode::kInvalidModel);
  };
  const auto of = [](DType type, std::vector<std::int64_t> shape) {
    return ir::Tensor::from_doubles(type, shape, std::vector<double>(2, 1));
  };
  const auto one = [](DType type) { return ir::Tensor::from_doubles(type, {}, {{1}}); };
  const ir::Tensor x = ramp({2}), scale = floats({}, {0.5});
  EXPECT_THAT(error("QuantizeLinear", {x, scale, one(DType::kUInt8)},
                    {attr("output_dtype", 3 /* INT8 */)}, 21),
              testing::HasSubstr("'output_dtype' is INT8, but its zero point is u8[]"));
  EXPECT_THAT(error("QuantizeLinear", {x, one(DType::kFloat16)}, {}, 19),
              testing::HasSubstr(
                  "its inputs 0 ('x') f32[2] and 1 ('y_scale') f16[] must have one element type"));
  EXPECT_NO_THROW((OneOp{"QuantizeLinear", {x, one(DType::kFloat16)}, {}, 23}.model().import()));
  EXPECT_THAT(error("QuantizeLinear", {x, scale, one(DType::kInt32)}, {}, 17),
              testing::HasSubstr("its zero point is i32[]; it must be of 8 or 16 bits"));
  EXPECT_THAT(error("QuantizeLinear", {of(DType::kInt8, {2}), scale}, {}, 17),
              testing::HasSubstr("its input is i8[2]"));
  EXPECT_THAT(error("QuantizeLinear", {x, of(DType::kFloat32, {2}), one(DType::kInt8)},
                    {attr("axis", 0)}, 17),
              testing::HasSubstr("its zero point is i8[]; it must be [2]"));
  EXPECT_THAT(error("DequantizeLinear", {of(DType::kInt64, {2}), scale}, {}, 17),
              testing::HasSubstr("its input is i64[2]"));
  EXPECT_THAT(error("DequantizeLinear", {of(DType::kInt8, {2}), scale},
                    {attr("output_dtype", 3 /* INT8 */)}, 23),
              testing::HasSubstr("'output_dtype' is i8"));
  const ir::Tensor matrix = ir::Tensor::from_ints(DType::kInt32, {1, 1}, {{1}});
  EXPECT_THAT(error("MatMulInteger", {matrix, matrix}, {}, 17),
              testing::HasSubstr("A is i32[1, 1]; its elements must be i8 or u8"));
}

TEST(Quantize, MicrosoftsOwnMeanTheSame) {
  auto model = microsoft("DequantizeLinear", {"w", "s", "z"}, {attr("axis", 1)});
  model.input("w", DType::kUInt8, {1, 2}).initializer("s", floats({2}, {0.5, 2}));
  model.initializer("z", bytes({2}, {10, 3}));
  expect_tensor(model.run({bytes({1, 2}, {12, 1})})[0], {1, 2}, {1, -4});
}

TEST(Quantize, MicrosoftsIntegerProductsGiveFloats) {
  // Quantized to 0, 100 and 255 in steps of 0.01 from -1.
  const Tensor w = bytes({3, 2}, {1, 2, 3, 4, 5, 6}, DType::kInt8);
  const Tensor steps = floats({2}, {0.5, 2}), zeros = bytes({2}, {1, 0}, DType::kInt8);
  auto dynamic = microsoft("DynamicQuantizeMatMul", {"a", "w", "s", "z", "b"});
  dynamic.input("a", DType::kFloat32, {1, 3}).initializer("w", w).initializer("s", steps);
  dynamic.initializer("z", zeros).initializer("b", floats({2}, {10, 20}));
  expect_tensor(dynamic.run({floats({1, 3}, {-1, 0, 1.55})})[0], {1, 2},
                {10 + (0 * -1 + 4 * 1.55) * 0.5, 20 + (2 * -1 + 6 * 1.55) * 2});
  auto stated = microsoft("MatMulIntegerToFloat", {"a", "w", "as", "s", "az", "z", "b"});
  stated.input("a", DType::kUInt8, {1, 3}).initializer("w", w).initializer("s", steps);
  stated.initializer("as", floats({}, {0.01})).initializer("az", bytes({}, {100}));
  stated.initializer("z", zeros).initializer("b", floats({2}, {10, 20}));
  expect_tensor(stated.run({bytes({1, 3}, {0, 100, 255})})[0], {1, 2},
                {10 + (0 * -1 + 4 * 1.55) * 0.5, 20 + (2 * -1 + 6 * 1.55) * 2});
}

TEST(Quantize, DequantizeIsExactInWideTypes) {
  const Tensor x = bytes({2}, {2147483647, -5}, DType::kInt32);
  expect_tensor(OneOp({"DequantizeLinear", {x, scalar(2)}}).run(), {2}, {4294967296.0, -10});
}

TEST(Quantize, DynamicRangeAlwaysHoldsZero) {
  const auto run = [](std::vector<double> values) {
    const auto count = static_cast<std::int64_t>(values.size());
    OneOp op{"DynamicQuantizeLinear", {floats({count}, values)}};
    op.outputs = 3;
    return op.run_all();
  };
  const auto both = run({-1, 0, 1.55});
  expect_tensor(both[0], {3}, {0, 100, 255});
  expect_tensor(both[1], {}, {0.01});
  expect_tensor(both[2], {}, {100});
  expect_tensor(run({2, 5.1})[2], {}, {0});
  expect_tensor(run({0, 0})[0], {2}, {0, 0});
}

TEST(Quantize, IntegerProducts) {
  const Tensor a = bytes({2, 2}, {255, 1, 0, 2}), b = bytes({2, 2}, {255, 3, 4, 0});
  const Tensor y = OneOp({"MatMulInteger", {a, b, bytes({}, {1}), bytes({2}, {0, 3})}}).run();
  EXPECT_EQ(y.dtype(), DType::kInt32);
  expect_tensor(y, {2, 2}, {64770, 0, -251, -3});
  // Two rows of a with scales of their own.
  expect_tensor(OneOp({"QLinearMatMul",
                       {bytes({2, 1}, {10, 20}), floats({2}, {1, 0.5}), bytes({2}, {0, 10}),
                        bytes({1, 1}, {3}), scalar(2), bytes({}, {1}), scalar(4), bytes({}, {7})}})
                    .run(),
                {2, 1}, {17, 12});
}

TEST(Quantize, Convolutions) {
  const Tensor x = bytes({1, 1, 3}, {2, 3, 4}), w = bytes({1, 1, 2}, {1, 1});
  // The padding is the zero point: it adds nothing.
  expect_tensor(
      OneOp(
          {"ConvInteger", {x, w, bytes({}, {1})}, {attr("pads", std::vector<std::int64_t>{1, 0})}})
          .run(),
      {1, 1, 3}, {1, 3, 5});
  expect_tensor(OneOp({"QLinearConv",
                       {x, scalar(1), bytes({}, {1}), w, floats({1}, {2}), bytes({1}, {0}),
                        scalar(4), bytes({}, {5}),
                        Tensor::from_ints(DType::kInt32, {1}, std::vector<std::int64_t>{10})}})
                    .run(),
                {1, 1, 2}, {11, 13});
}

struct EinsumCase {
  std::string equation;
  std::vector<Tensor> inputs;
  std::vector<std::int64_t> shape;
  std::vector<double> values;
};

TEST(Einsum, Equations) {
  const Tensor a = floats({2, 2}, {1, 2, 3, 4}), b = floats({2, 3}, {1, 0, 2, 0, 1, 1});
  const Tensor v = floats({2}, {10, 100});
  const std::vector<EinsumCase> cases = {
      {"ij,jk->ik", {a, b}, {2, 3}, {1, 2, 4, 3, 4, 10}},
      {"ij, jk", {a, b}, {2, 3}, {1, 2, 4, 3, 4, 10}},
      {"ij->ji", {a}, {2, 2}, {1, 3, 2, 4}},
      {"ba", {a}, {2, 2}, {1, 3, 2, 4}},
      {"ii->i", {a}, {2}, {1, 4}},
      {"ii", {a}, {}, {5}},
      {"ij->", {a}, {}, {10}},
      {"i,j->ij", {v, v}, {2, 2}, {100, 1000, 1000, 10000}},
      {"ij,i->ij", {a, v}, {2, 2}, {10, 20, 300, 400}},
      {"ij,i", {a, v}, {2}, {310, 420}},
      {"...j,j->...", {a, v}, {2}, {210, 430}},
      {"...ij,...jk->...ik", {floats({1, 1, 2}, {1, 2}), b}, {1, 1, 3}, {1, 2, 4}},
      {"i,ij,j->", {v, a, v}, {}, {45100}},
      {"ij,kl->il", {a, floats({1, 2}, {1, 2})}, {2, 2}, {3, 6, 7, 14}},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.equation);
    expect_tensor(OneOp({"Einsum", c.inputs, {attr("equation", c.equation.c_str())}}).run(),
                  c.shape, c.values);
  }
}

TEST(Einsum, RefusesWhatDoesNotFit) {
  const auto error = [](const char* equation) {
    return OneOp({"Einsum", {floats({2, 3}, {1, 2, 3, 4, 5, 6})}, {attr("equation", equation)}})
        .model()
        .import_error(ErrorCode::kInvalidModel);
  };
  EXPECT_THAT(error("ijk->i"), testing::HasSubstr("term 'ijk' does not fit f32[2, 3]"));
  EXPECT_THAT(error("ij->k"), testing::HasSubstr("the result's 'k' is in no input"));
  EXPECT_THAT(error("ii->i"), testing::HasSubstr("of sizes 2 and 3"));
  EXPECT_THAT(error("i,j->ij"), testing::HasSubstr("2 terms for 1 inputs"));
}

TEST(Signal, TransformsAndBack) {
  const Tensor x = floats({1, 4, 1}, {1, 2, 3, 4});
  const Tensor y = OneOp({"DFT", {x}, {attr("axis", 1)}}).run();
  expect_tensor(y, {1, 4, 2}, {10, 0, -2, 2, -2, 0, -2, -2});
  expect_tensor(OneOp({"DFT", {y}, {attr("inverse", 1)}}).run(), {1, 4, 2},
                {1, 0, 2, 0, 3, 0, 4, 0});
  const Tensor half = OneOp({"DFT", {x}, {attr("onesided", 1)}}).run();
  expect_tensor(half, {1, 3, 2}, {10, 0, -2, 2, -2, 0});
  expect_tensor(OneOp({"DFT", {half}, {attr("onesided", 1), attr("inverse", 1)}}).run(), {1, 4, 1},
                {1, 2, 3, 4});
  // Shorter and longer than the signal.
  expect_tensor(OneOp({"DFT", {x, int64s({}, {2})}, {}, 17, {1}}).run(), {1, 2, 2}, {3, 0, -1, 0});
}

TEST(Signal, FramesOfASignal) {
  const Tensor x = floats({1, 4, 1}, {1, 2, 3, 4});
  expect_tensor(OneOp({"STFT", {x, int64s({}, {2}), floats({2}, {1, 2})}, {}, 17, {1}}).run(),
                {1, 2, 2, 2}, {5, 0, -3, 0, 11, 0, -5, 0});
}

TEST(Signal, Windows) {
  expect_tensor(OneOp({"HannWindow", {int64s({}, {4})}, {}, 17, {0}}).run(), {4}, {0, 0.5, 1, 0.5});
  expect_tensor(OneOp({"HannWindow", {int64s({}, {3})}, {attr("periodic", 0)}, 17, {0}}).run(), {3},
                {0, 1, 0});
}

TEST(Det, OfBatches) {
  expect_tensor(OneOp({"Det", {floats({2, 2, 2}, {1, 2, 3, 4, 2, 0, 0, 5})}}).run(), {2}, {-2, 10});
  expect_tensor(OneOp({"Det", {floats({3, 3}, {2, 0, 1, 1, 3, 2, 1, 1, 4})}}).run(), {}, {18});
}

TEST(Det, OfAnySize) {
  // Twice the identity, its first two rows exchanged.
  const auto matrix = [](std::int64_t n) {
    std::vector<double> values(static_cast<std::size_t>(n * n));
    for (std::int64_t i = 0; i < n; ++i)
      values[static_cast<std::size_t>((i < 2 ? 1 - i : i) * n + i)] = 2;
    return floats({n, n}, values);
  };
  expect_tensor(OneOp({"Det", {matrix(6)}}).run(), {}, {-64});
  expect_tensor(OneOp({"Det", {matrix(12)}}).run(), {}, {-4096});
  expect_tensor(OneOp({"Det", {floats({2, 0, 0}, {})}}).run(), {2}, {1, 1});
  EXPECT_THAT(OneOp({"Det", {floats({2, 3}, {1, 2, 3, 4, 5, 6})}})
                  .model()
                  .import_error(ErrorCode::kInvalidModel),
              testing::HasSubstr("input must be square matrices"));
}

TEST(Inverse, OfBatches) {
  ModelBuilder model = microsoft("Inverse", {"x"});
  model.input("x", DType::kFloat32, {2, 2, 2});
  expect_tensor(model.run({floats({2, 2, 2}, {1, 2, 3, 4, 2, 0, 0, 5})})[0], {2, 2, 2},
                {-2, 1, 1.5, -0.5, 0.5, 0, 0, 0.2});
}

}  // namespace
}  // namespace sinter::frontend
