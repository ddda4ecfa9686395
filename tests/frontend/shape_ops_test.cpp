// SPDX-License-Identifier: Apache-2.0
#include "tests/frontend/op_test_support.h"

namespace sinter::frontend {
namespace {

using ir::Tensor;

TEST(Identity, PassesTheValueOn) {
  expect_tensor(OneOp({"Identity", {ramp({2})}}).run(), {2}, {0, 1});
}

/// The mask is of the input's type before opset 10, and of zeros before opset 12.
TEST(Dropout, DoesNothingInInference) {
  for (const int opset : {7, 9, 10, 11, 12, 13, 22}) {
    const auto outputs = OneOp({"Dropout", {ramp({2}, 3)}, {}, opset, {}, 2}).run_all();
    expect_tensor(outputs[0], {2}, {3, 4});
    EXPECT_EQ(outputs[1].dtype(), opset < 10 ? DType::kFloat32 : DType::kBool) << opset;
    expect_tensor(outputs[1], {2}, std::vector<double>(2, opset < 12 ? 0 : 1));
  }
}

TEST(Reshape, ZeroCopiesAndMinusOneInfers) {
  const OneOp op{"Reshape", {ramp({2, 3, 4}), int64s({3}, {0, -1, 2})}, {}, 17, {1}};
  EXPECT_EQ(op.run().shape(), (std::vector<std::int64_t>{2, 6, 2}));
}

TEST(Reshape, AllowzeroTakesZeroAsItIs) {
  const OneOp op{
      "Reshape", {floats({0, 3}, {}), int64s({2}, {3, 0})}, {attr("allowzero", 1)}, 17, {1}};
  EXPECT_EQ(op.run().shape(), (std::vector<std::int64_t>{3, 0}));
}

TEST(Flatten, CutsAtTheAxis) {
  const auto shape = [](int axis) {
    return OneOp({"Flatten", {ramp({2, 3, 4})}, {attr("axis", axis)}}).run().shape();
  };
  EXPECT_EQ(shape(1), (std::vector<std::int64_t>{2, 12}));
  EXPECT_EQ(shape(0), (std::vector<std::int64_t>{1, 24}));
  EXPECT_EQ(shape(3), (std::vector<std::int64_t>{24, 1}));
  EXPECT_EQ(shape(-1), (std::vector<std::int64_t>{6, 4}));
}

TEST(Squeeze, DropsTheAxesOfOne) {
  const Tensor x = ramp({1, 3, 1, 2});
  const auto attribute = attr("axes", std::vector<std::int64_t>{0, -2});
  EXPECT_EQ(OneOp({"Squeeze", {x}, {attribute}, 11}).run().shape(),
            (std::vector<std::int64_t>{3, 2}));
  EXPECT_EQ(OneOp({"Squeeze", {x, int64s({1}, {2})}, {}, 13, {1}}).run().shape(),
            (std::vector<std::int64_t>{1, 3, 2}));
  EXPECT_EQ(OneOp({"Squeeze", {x}, {}, 13}).run().shape(), (std::vector<std::int64_t>{3, 2}));
}

TEST(Unsqueeze, AxesCountInTheResult) {
  const Tensor x = ramp({3, 2});
  EXPECT_EQ(
      OneOp({"Unsqueeze", {x}, {attr("axes", std::vector<std::int64_t>{-1, 0})}, 11}).run().shape(),
      (std::vector<std::int64_t>{1, 3, 2, 1}));
  EXPECT_EQ(OneOp({"Unsqueeze", {x, int64s({1}, {1})}, {}, 13, {1}}).run().shape(),
            (std::vector<std::int64_t>{3, 1, 2}));
}

TEST(Transpose, PermutesAndReverses) {
  expect_tensor(OneOp({"Transpose", {ramp({2, 3})}}).run(), {3, 2}, {0, 3, 1, 4, 2, 5});
  EXPECT_EQ(
      OneOp({"Transpose", {ramp({2, 3, 4})}, {attr("perm", std::vector<std::int64_t>{1, 2, 0})}})
          .run()
          .shape(),
      (std::vector<std::int64_t>{3, 4, 2}));
}

TEST(Expand, BroadcastsBothWays) {
  const OneOp op{"Expand", {ramp({3, 1}), int64s({3}, {2, 1, 2})}, {}, 17, {1}};
  expect_tensor(op.run(), {2, 3, 2}, {0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2});
}

TEST(Expand, FromQueriesToPastAndQueries) {
  ModelBuilder model;
  model.input("x", DType::kFloat32, {"queries"}).input("past", DType::kFloat32, {"past"});
  model.node("Concat", {"past", "x"}, {"keys"}, {attr("axis", 0)});
  model.node("Shape", {"keys"}, {"shape"}).node("Expand", {"x", "shape"}, {"y"}).output("y");
  expect_tensor(model.run({ramp({3}, 5), ramp({0})})[0], {3}, {5, 6, 7});
  expect_tensor(model.run({ramp({1}, 5), ramp({2})})[0], {3}, {5, 5, 5});
}

TEST(Tile, RepeatsEachDimension) {
  const OneOp op{"Tile", {ramp({1, 2}), int64s({2}, {2, 2})}, {}, 17, {1}};
  expect_tensor(op.run(), {2, 4}, {0, 1, 0, 1, 0, 1, 0, 1});
}

TEST(DepthToSpace, BothModes) {
  const Tensor x = ramp({1, 8, 1, 1});
  const auto run = [&](const char* mode) {
    return OneOp({"DepthToSpace", {x}, {attr("blocksize", 2), attr("mode", mode)}}).run();
  };
  expect_tensor(run("DCR"), {1, 2, 2, 2}, {0, 2, 4, 6, 1, 3, 5, 7});
  expect_tensor(run("CRD"), {1, 2, 2, 2}, {0, 1, 2, 3, 4, 5, 6, 7});
}

TEST(SpaceToDepth, MovesBlocksIntoChannels) {
  expect_tensor(OneOp({"SpaceToDepth", {ramp({1, 1, 2, 4})}, {attr("blocksize", 2)}}).run(),
                {1, 4, 1, 2}, {0, 2, 1, 3, 4, 6, 5, 7});
}

TEST(Shape, TellsThePartAskedFor) {
  const Tensor x = ramp({2, 3, 4});
  expect_tensor(OneOp({"Shape", {x}}).run(), {3}, {2, 3, 4});
  expect_tensor(OneOp({"Shape", {x}, {attr("start", -2), attr("end", 9)}}).run(), {2}, {3, 4});
  expect_tensor(OneOp({"Shape", {x}, {attr("start", 2), attr("end", 1)}}).run(), {0}, {});
}

TEST(Size, CountsElements) { expect_tensor(OneOp({"Size", {ramp({2, 3})}}).run(), {}, {6}); }

struct SliceCase {
  std::string name;
  std::vector<std::int64_t> starts, ends, axes, steps;
  std::vector<std::int64_t> shape;
  std::vector<double> expected;
};
class Slice : public testing::TestWithParam<SliceCase> {};

TEST_P(Slice, OfFourByThree) {
  const SliceCase& c = GetParam();
  const auto vector = [](const std::vector<std::int64_t>& v) {
    return int64s({static_cast<std::int64_t>(v.size())}, v);
  };
  const OneOp op{"Slice",
                 {ramp({4, 3}), vector(c.starts), vector(c.ends), vector(c.axes), vector(c.steps)},
                 {},
                 13,
                 {1, 2, 3, 4}};
  expect_tensor(op.run(), c.shape, c.expected);
}

// clang-format off
INSTANTIATE_TEST_SUITE_P(Numpy, Slice, testing::ValuesIn(std::vector<SliceCase>{
    {"Rows", {1}, {3}, {0}, {1}, {2, 3}, {3, 4, 5, 6, 7, 8}},
    {"ToTheEnd", {2}, {INT64_MAX}, {0}, {1}, {2, 3}, {6, 7, 8, 9, 10, 11}},
    {"NegativeBounds", {-2}, {-1}, {0}, {1}, {1, 3}, {6, 7, 8}},
    {"BothAxes", {1, 0}, {4, 3}, {0, 1}, {2, 2}, {2, 2}, {3, 5, 9, 11}},
    {"NegativeAxis", {1}, {2}, {-1}, {1}, {4, 1}, {1, 4, 7, 10}},
    {"Reversed", {-1}, {INT64_MIN}, {1}, {-1}, {4, 3}, {2, 1, 0, 5, 4, 3, 8, 7, 6, 11, 10, 9}},
    {"ReversedBeyond", {INT64_MAX}, {0}, {0}, {-2}, {2, 3}, {9, 10, 11, 3, 4, 5}},
    {"Empty", {3}, {1}, {0}, {1}, {0, 3}, {}},
    {"BeyondTheEnd", {9}, {12}, {0}, {1}, {0, 3}, {}},
    {"HugeStep", {0}, {4}, {0}, {INT64_MAX}, {1, 3}, {0, 1, 2}},
}), [](const auto& info) { return info.param.name; });
// clang-format on

TEST(SliceBackwards, OfNothingIsNothing) {
  const OneOp op{"Slice",
                 {floats({0, 3}, {}), int64s({1}, {-1}), int64s({1}, {-9}), int64s({1}, {0}),
                  int64s({1}, {-1})},
                 {},
                 13,
                 {1, 2, 3, 4}};
  expect_tensor(op.run(), {0, 3}, {});
}

TEST(NonZero, OfWhatIsKnownWhenCompiling) {
  const Tensor x = floats({2, 3}, {0, 1.5, 0, -2, 0, NAN});
  expect_tensor(OneOp({"NonZero", {x}, {}, 17, {0}}).run(), {2, 3}, {0, 1, 1, 1, 0, 2});
  expect_tensor(OneOp({"NonZero", {floats({2}, {0, 0})}, {}, 17, {0}}).run(), {1, 0}, {});
  // A mask of sizes is known, too.
  ModelBuilder model;
  model.input("x", DType::kFloat32, {3, 4}).initializer("three", int64s({}, {3}));
  model.node("Shape", {"x"}, {"shape"})
      .node("Greater", {"shape", "three"}, {"mask"})
      .node("NonZero", {"mask"}, {"y"})
      .output("y");
  expect_tensor(model.run({ramp({3, 4})})[0], {1, 1}, {1});
}

TEST(SliceAttributes, BeforeOpset10) {
  const OneOp op{
      "Slice",
      {ramp({4, 3})},
      {attr("starts", std::vector<std::int64_t>{1}), attr("ends", std::vector<std::int64_t>{2}),
       attr("axes", std::vector<std::int64_t>{0})},
      9};
  expect_tensor(op.run(), {1, 3}, {3, 4, 5});
}

TEST(Split, EveryFormOfEveryOpset) {
  const auto by_attribute =
      OneOp({"Split", {ramp({5})}, {attr("split", std::vector<std::int64_t>{2, 3})}, 11, {}, 2})
          .run_all();
  expect_tensor(by_attribute[1], {3}, {2, 3, 4});
  const auto by_input =
      OneOp({"Split", {ramp({5}), int64s({2}, {4, 1})}, {}, 13, {1}, 2}).run_all();
  expect_tensor(by_input[0], {4}, {0, 1, 2, 3});
  const auto equal = OneOp({"Split", {ramp({2, 4})}, {attr("axis", 1)}, 13, {}, 2}).run_all();
  expect_tensor(equal[1], {2, 2}, {2, 3, 6, 7});
  const auto uneven = OneOp({"Split", {ramp({5})}, {attr("num_outputs", 2)}, 18, {}, 2}).run_all();
  expect_tensor(uneven[0], {3}, {0, 1, 2});
  expect_tensor(uneven[1], {2}, {3, 4});
}

TEST(Concat, AlongANegativeAxis) {
  expect_tensor(OneOp({"Concat", {ramp({2, 1}), ramp({2, 2}, 10)}, {attr("axis", -1)}}).run(),
                {2, 3}, {0, 10, 11, 1, 12, 13});
}

TEST(Gather, CountsNegativeIndicesFromTheEnd) {
  const OneOp op{"Gather", {ramp({3, 2}), int64s({2}, {-1, 0})}, {attr("axis", 0)}};
  expect_tensor(op.run(), {2, 2}, {4, 5, 0, 1});
  EXPECT_EQ(OneOp({"Gather", {ramp({3, 2}), int64s({}, {1})}, {attr("axis", 1)}}).run().shape(),
            (std::vector<std::int64_t>{3}));
}

TEST(Pad, InputsWithAxesAndFill) {
  const OneOp op{"Pad",
                 {ramp({1, 2}), int64s({2}, {1, 2}), floats({}, {9}), int64s({1}, {-1})},
                 {},
                 18,
                 {1, 2, 3}};
  expect_tensor(op.run(), {1, 5}, {9, 0, 1, 9, 9});
}

TEST(Pad, FillThatIsComputed) {
  const OneOp op{"Pad",
                 {int64s({2}, {5, 6}), int64s({2}, {1, -1}), int64s({}, {9007199254740993})},
                 {},
                 13,
                 {1}};
  EXPECT_EQ(op.run().to_ints(), (std::vector<std::int64_t>{9007199254740993, 5}));
}

TEST(Pad, NegativePadsCrop) {
  const OneOp op{"Pad", {ramp({4}), int64s({2}, {-1, 2})}, {}, 13, {1}};
  expect_tensor(op.run(), {5}, {1, 2, 3, 0, 0});
}

TEST(Pad, AttributesBeforeOpset11) {
  const OneOp op{
      "Pad", {ramp({2})}, {attr("pads", std::vector<std::int64_t>{1, 0}), attr("value", 5.0f)}, 10};
  expect_tensor(op.run(), {3}, {5, 0, 1});
}

TEST(Constant, EveryForm) {
  const auto run = [](Attribute attribute) {
    return ModelBuilder()
        .node("Constant", {}, {"c"}, {std::move(attribute)})
        .output("c")
        .run({})
        .at(0);
  };
  expect_tensor(run(attr("value", ramp({2}, 3))), {2}, {3, 4});
  expect_tensor(run(attr("value_float", 2.5f)), {}, {2.5});
  expect_tensor(run(attr("value_int", 7)), {}, {7});
  expect_tensor(run(attr("value_floats", std::vector<float>{1, 2})), {2}, {1, 2});
  const Tensor ints = run(attr("value_ints", std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(ints.dtype(), DType::kInt64);
  expect_tensor(ints, {2}, {1, 2});
}

TEST(ConstantOfShape, FillsWithTheValue) {
  expect_tensor(
      OneOp({"ConstantOfShape", {int64s({2}, {1, 2})}, {attr("value", int64s({1}, {4}))}, 17, {0}})
          .run(),
      {1, 2}, {4, 4});
  expect_tensor(OneOp({"ConstantOfShape", {int64s({1}, {2})}, {}, 17, {0}}).run(), {2}, {0, 0});
}

TEST(Range, IntegersAndFloats) {
  const auto run = [](Tensor a, Tensor b, Tensor c) {
    return OneOp({"Range", {a, b, c}, {}, 17, {0, 1, 2}}).run();
  };
  expect_tensor(run(int64s({}, {10}), int64s({}, {4}), int64s({}, {-3})), {2}, {10, 7});
  expect_tensor(run(floats({}, {0}), floats({}, {1}), floats({}, {0.4})), {3}, {0, 0.4, 0.8});
  expect_tensor(run(int64s({}, {3}), int64s({}, {3}), int64s({}, {1})), {0}, {});
}

TEST(Trilu, UpperAndLowerWithOffset) {
  expect_tensor(OneOp({"Trilu", {ramp({2, 3}, 1)}}).run(), {2, 3}, {1, 2, 3, 0, 5, 6});
  expect_tensor(
      OneOp({"Trilu", {ramp({2, 3}, 1), int64s({}, {-1})}, {attr("upper", 0)}, 17, {1}}).run(),
      {2, 3}, {0, 0, 0, 4, 0, 0});
}

TEST(OneHot, NegativeIndicesAndAxis) {
  const OneOp op{"OneHot",
                 {int64s({2}, {1, -1}), int64s({}, {3}), floats({2}, {0, 5})},
                 {attr("axis", 0)},
                 17,
                 {1}};
  expect_tensor(op.run(), {3, 2}, {0, 0, 5, 0, 0, 5});
}

}  // namespace
}  // namespace sinter::frontend
