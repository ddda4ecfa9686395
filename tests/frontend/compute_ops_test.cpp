// SPDX-License-Identifier: Apache-2.0
// Reductions, normalisations, products and windows.
#include <cmath>

#include "tests/frontend/op_test_support.h"

namespace sinter::frontend {
namespace {

using ir::Tensor;

TEST(Reduce, EveryFunction) {
  const Tensor x = floats({2, 2}, {1, -2, 3, 4});
  const auto run = [&](const char* op) {
    return OneOp({op, {x}, {attr("axes", v({1})), attr("keepdims", 0)}, 11}).run();
  };
  expect_tensor(run("ReduceSum"), {2}, {-1, 7});
  expect_tensor(run("ReduceMean"), {2}, {-0.5, 3.5});
  expect_tensor(run("ReduceMax"), {2}, {1, 4});
  expect_tensor(run("ReduceMin"), {2}, {-2, 3});
  expect_tensor(run("ReduceProd"), {2}, {-2, 12});
  expect_tensor(run("ReduceSumSquare"), {2}, {5, 25});
  expect_tensor(run("ReduceL1"), {2}, {3, 7});
  expect_tensor(run("ReduceL2"), {2}, {2.236067977, 5});
  expect_tensor(run("ReduceLogSumExp"), {2}, {1.048587352, 4.313261688});
  expect_tensor(OneOp({"ReduceLogSum", {ramp({2, 2}, 1)}, {attr("axes", v({1}))}, 11}).run(),
                {2, 1}, {1.098612289, 1.945910149});
}

TEST(Reduce, AxesInputAndDefaults) {
  const Tensor x = ramp({2, 3});
  expect_tensor(OneOp({"ReduceSum", {x, int64s({1}, {-1})}, {}, 13, {1}}).run(), {2, 1}, {3, 12});
  expect_tensor(OneOp({"ReduceMean", {x, int64s({1}, {0})}, {attr("keepdims", 0)}, 18, {1}}).run(),
                {3}, {1.5, 2.5, 3.5});
  expect_tensor(OneOp({"ReduceMax", {x}, {attr("keepdims", 0)}, 18}).run(), {}, {5});
  expect_tensor(OneOp({"ReduceSum", {x, int64s({0}, {})}, {}, 13, {1}}).run(), {1, 1}, {15});
}

TEST(Reduce, NoopKeepsElementsButAppliesTheirFunction) {
  const Tensor x = floats({2}, {-3, 2});
  const auto run = [&](const char* op) {
    return OneOp({op, {x}, {attr("noop_with_empty_axes", 1)}, 18}).run();
  };
  expect_tensor(run("ReduceSum"), {2}, {-3, 2});
  expect_tensor(run("ReduceSumSquare"), {2}, {9, 4});
  expect_tensor(run("ReduceL1"), {2}, {3, 2});
}

TEST(Reduce, RootsAndLogarithmsOfIntegersTruncate) {
  const Tensor x = int64s({3}, {2, 3, 4});
  const auto run = [&](const char* op) {
    return OneOp({op, {x}, {attr("keepdims", 0)}, 18}).run();
  };
  EXPECT_EQ(run("ReduceL2").to_ints(), v({5}));
  EXPECT_EQ(run("ReduceLogSum").to_ints(), v({2}));
  EXPECT_EQ(run("ReduceLogSumExp").to_ints(), v({4}));
}

TEST(Reduce, LogSumExpDoesNotOverflow) {
  expect_tensor(
      OneOp({"ReduceLogSumExp", {floats({2}, {1000, 1000})}, {attr("keepdims", 0)}, 17}).run(), {},
      {1000.693147});
}

TEST(Reduce, Booleans) {
  const Tensor x = bools({2, 2}, {1, 0, 1, 1});
  const auto run = [&](const char* op) {
    return OneOp({op, {x, int64s({1}, {1})}, {attr("keepdims", 0)}, 20, {1}}).run();
  };
  EXPECT_EQ(run("ReduceMax").dtype(), DType::kBool);
  expect_tensor(run("ReduceMin"), {2}, {0, 1});
}

TEST(GlobalPool, OverSpatialDimensions) {
  const Tensor x = ramp({1, 2, 2, 2});
  expect_tensor(OneOp({"GlobalAveragePool", {x}}).run(), {1, 2, 1, 1}, {1.5, 5.5});
  expect_tensor(OneOp({"GlobalMaxPool", {x}}).run(), {1, 2, 1, 1}, {3, 7});
}

TEST(Softmax, OverOneAxis) {
  expect_tensor(OneOp({"Softmax", {floats({2, 2}, {0, 1, 0, 0})}}).run(), {2, 2},
                {0.268941421, 0.731058579, 0.5, 0.5});
  expect_tensor(OneOp({"Softmax", {floats({2, 2}, {0, 1, 0, 1})}, {attr("axis", 0)}}).run(), {2, 2},
                {0.5, 0.5, 0.5, 0.5});
}

TEST(Softmax, FlattensBeforeOpset13) {
  // axis 1 of [1, 2, 2]: over all four elements.
  expect_tensor(OneOp({"Softmax", {floats({1, 2, 2}, {0, 0, 0, 0})}, {}, 11}).run(), {1, 2, 2},
                {0.25, 0.25, 0.25, 0.25});
  expect_tensor(OneOp({"LogSoftmax", {floats({1, 2, 2}, {0, 0, 0, 0})}, {}, 11}).run(), {1, 2, 2},
                {-1.386294361, -1.386294361, -1.386294361, -1.386294361});
}

TEST(LogSoftmax, DoesNotUnderflow) {
  expect_tensor(OneOp({"LogSoftmax", {floats({2}, {0, 200})}}).run(), {2}, {-200, 0});
}

TEST(LayerNormalization, WithAndWithoutBias) {
  const Tensor x = floats({2, 2}, {1, 3, 2, 2}), scale = floats({2}, {1, 2}),
               bias = floats({2}, {10, 20});
  const auto epsilon = attr("epsilon", 0.0f);
  expect_tensor(
      OneOp({"LayerNormalization", {floats({1, 2}, {1, 3}), scale, bias}, {epsilon}}).run(), {1, 2},
      {9, 22});
  expect_tensor(OneOp({"LayerNormalization", {x, scale}, {attr("epsilon", 1.0f)}}).run(), {2, 2},
                {-0.707106781, 1.414213562, 0, 0});
}

TEST(RMSNormalization, OverTheLastAxis) {
  expect_tensor(OneOp({"RMSNormalization",
                       {floats({1, 2}, {3, 4}), floats({2}, {1, 2})},
                       {attr("epsilon", 0.0f)},
                       23})
                    .run(),
                {1, 2}, {0.848528137, 2.262741700});
}

TEST(BatchNormalization, InferenceForm) {
  const OneOp op{"BatchNormalization",
                 {floats({1, 2, 1}, {1, 2}), floats({2}, {2, 1}), floats({2}, {0, 1}),
                  floats({2}, {0, 1}), floats({2}, {4, 1})},
                 {attr("epsilon", 0.0f)}};
  expect_tensor(op.run(), {1, 2, 1}, {1, 2});
}

TEST(InstanceNormalization, PerImageAndChannel) {
  const OneOp op{"InstanceNormalization",
                 {floats({1, 2, 2}, {1, 3, 5, 9}), floats({2}, {1, 10}), floats({2}, {0, 1})},
                 {attr("epsilon", 0.0f)}};
  expect_tensor(op.run(), {1, 2, 2}, {-1, 1, -9, 11});
}

TEST(GroupNormalization, PerGroup) {
  const OneOp op{"GroupNormalization",
                 {floats({1, 2, 2}, {1, 1, 3, 3}), floats({2}, {1, 10}), floats({2}, {0, 1})},
                 {attr("epsilon", 0.0f), attr("num_groups", 1)},
                 21};
  expect_tensor(op.run(), {1, 2, 2}, {-1, -1, 11, 11});
}

TEST(MatMul, VectorsAndBatches) {
  const Tensor m = ramp({2, 3}), row = ramp({2}, 1), column = ramp({3}, 1);
  expect_tensor(OneOp({"MatMul", {m, column}}).run(), {2}, {8, 26});
  expect_tensor(OneOp({"MatMul", {row, m}}).run(), {3}, {6, 9, 12});
  expect_tensor(OneOp({"MatMul", {column, column}}).run(), {}, {14});
  EXPECT_EQ(OneOp({"MatMul", {ramp({5, 1, 2, 3}), ramp({4, 3, 2})}}).run().shape(),
            v({5, 4, 2, 2}));
}

TEST(Gemm, TransposesScalesAndAdds) {
  const OneOp op{"Gemm",
                 {ramp({3, 2}), ramp({2, 3}), floats({2}, {1, 2})},
                 {attr("transA", 1), attr("transB", 1), attr("alpha", 2.0f), attr("beta", 0.5f)}};
  expect_tensor(op.run(), {2, 2}, {20.5, 57, 26.5, 81});
  expect_tensor(OneOp({"Gemm", {ramp({1, 2}), ramp({2, 1})}}).run(), {1, 1}, {1});
}

TEST(Conv, PadsStridesBias) {
  // One dimension: [1 2 3 4], kernel [1 10], bias 100.
  const Tensor x = ramp({1, 1, 4}, 1), w = floats({1, 1, 2}, {1, 10}), bias = floats({1}, {100});
  expect_tensor(
      OneOp({"Conv", {x, w, bias}, {attr("pads", v({1, 0})), attr("strides", v({2}))}}).run(),
      {1, 1, 2}, {110, 132});
  expect_tensor(OneOp({"Conv", {x, w}, {attr("dilations", v({2}))}}).run(), {1, 1, 2}, {31, 42});
}

TEST(Conv, AutoPad) {
  const Tensor x = ramp({1, 1, 4}, 1), w = floats({1, 1, 2}, {1, 10});
  const auto run = [&](const char* mode) {
    return OneOp({"Conv", {x, w}, {attr("auto_pad", mode)}}).run();
  };
  expect_tensor(run("SAME_UPPER"), {1, 1, 4}, {21, 32, 43, 4});
  expect_tensor(run("SAME_LOWER"), {1, 1, 4}, {10, 21, 32, 43});
  expect_tensor(run("VALID"), {1, 1, 3}, {21, 32, 43});
}

TEST(Conv, Groups) {
  const OneOp op{"Conv", {ramp({1, 2, 1}, 1), floats({2, 1, 1}, {10, 100})}, {attr("group", 2)}};
  expect_tensor(op.run(), {1, 2, 1}, {10, 200});
}

TEST(MaxPool, PaddingNeverWins) {
  const OneOp op{"MaxPool",
                 {floats({1, 1, 3}, {-3, -1, -2})},
                 {attr("kernel_shape", v({2})), attr("pads", v({1, 0}))}};
  expect_tensor(op.run(), {1, 1, 3}, {-3, -1, -1});
}

TEST(MaxPool, CeilModeAddsAWindow) {
  const auto run = [](int ceil) {
    return OneOp({"MaxPool",
                  {ramp({1, 1, 5})},
                  {attr("kernel_shape", v({2})), attr("strides", v({2})), attr("ceil_mode", ceil)}})
        .run();
  };
  expect_tensor(run(0), {1, 1, 2}, {1, 3});
  expect_tensor(run(1), {1, 1, 3}, {1, 3, 4});
}

TEST(AveragePool, PaddingCountsOnlyIfAskedTo) {
  const auto run = [](int include) {
    return OneOp({"AveragePool",
                  {ramp({1, 1, 2}, 2, 2)},
                  {attr("kernel_shape", v({2})), attr("pads", v({1, 0})),
                   attr("count_include_pad", include)}})
        .run();
  };
  expect_tensor(run(0), {1, 1, 2}, {2, 3});
  expect_tensor(run(1), {1, 1, 2}, {1, 3});
}

}  // namespace
}  // namespace sinter::frontend
