// SPDX-License-Identifier: Apache-2.0
// Operators that read and write at indices, resize, sample and rank. Expected values are those of
// ONNX's reference evaluator.
#include "ir/reference/evaluate.h"
#include "tests/frontend/op_test_support.h"

namespace sinter::frontend {
namespace {

using ir::Dim;
using ir::Shape;
using ir::Tensor;
using testing::HasSubstr;

TEST(Gather, ElementsAndTuples) {
  const Tensor x = floats({2, 3}, {1, 2, 3, 4, 5, 6});
  expect_tensor(
      OneOp({"GatherElements", {x, int64s({2, 2}, {0, -1, 1, 1})}, {attr("axis", 1)}}).run(),
      {2, 2}, {1, 3, 5, 5});
  // Fewer rows than the data has.
  expect_tensor(OneOp({"GatherElements", {x, int64s({1, 3}, {1, 0, -1})}}).run(), {1, 3},
                {4, 2, 6});
  expect_tensor(OneOp({"GatherND", {x, int64s({2, 2}, {0, 2, 1, -3})}}).run(), {2}, {3, 4});
  expect_tensor(OneOp({"GatherND", {x, int64s({2, 1}, {1, 0})}}).run(), {2, 3}, {4, 5, 6, 1, 2, 3});
  expect_tensor(OneOp({"GatherND", {x, int64s({2, 1}, {2, 0})}, {attr("batch_dims", 1)}}).run(),
                {2}, {3, 4});
  expect_tensor(OneOp({"GatherND", {x, int64s({2}, {1, 1})}}).run(), {}, {5});
  EXPECT_THAT(OneOp({"GatherElements",
                     {x, int64s({3, 3}, std::vector<std::int64_t>(9, 0))},
                     {attr("axis", 1)}})
                  .model()
                  .import_error(ErrorCode::kInvalidModel),
              HasSubstr("larger than the data's"));
  EXPECT_THAT(OneOp({"GatherND", {x, int64s({2, 3}, std::vector<std::int64_t>(6, 0))}})
                  .model()
                  .import_error(ErrorCode::kInvalidModel),
              HasSubstr("hold 3 numbers each"));
}

TEST(Scatter, ElementsAndTuples) {
  const Tensor x = floats({2, 3}, {1, 2, 3, 4, 5, 6}), u = floats({2, 2}, {10, 20, 30, 40});
  const Tensor i = int64s({2, 2}, {0, -1, 1, 1});
  expect_tensor(
      OneOp({"Scatter", {x, int64s({2, 2}, {0, -1, 1, 0}), u}, {attr("axis", 1)}, 9}).run(), {2, 3},
      {10, 2, 20, 40, 30, 6});
  expect_tensor(
      OneOp({"ScatterElements", {x, i, u}, {attr("axis", 1), attr("reduction", "add")}, 16}).run(),
      {2, 3}, {11, 2, 23, 4, 75, 6});
  expect_tensor(
      OneOp({"ScatterElements", {x, i, u}, {attr("axis", 1), attr("reduction", "max")}, 18}).run(),
      {2, 3}, {10, 2, 20, 4, 40, 6});
  expect_tensor(OneOp({"ScatterND", {x, int64s({1, 1}, {-1}), ramp({1, 3})}}).run(), {2, 3},
                {1, 2, 3, 0, 1, 2});
  expect_tensor(OneOp({"ScatterND",
                       {x, int64s({2, 2}, {0, 1, 0, 1}), floats({2}, {3, 5})},
                       {attr("reduction", "mul")},
                       18})
                    .run(),
                {2, 3}, {1, 30, 3, 4, 5, 6});
  expect_tensor(OneOp({"ScatterND", {x, int64s({2}, {1, 2}), floats({}, {9})}}).run(), {2, 3},
                {1, 2, 3, 4, 5, 9});
  EXPECT_THAT(OneOp({"ScatterND", {x, int64s({1, 1}, {0}), ramp({1, 2})}})
                  .model()
                  .import_error(ErrorCode::kInvalidModel),
              HasSubstr("updates must be [1, 3]"));
}

TEST(Scatter, IntoACache) {
  const Tensor cache = ramp({2, 1, 4, 1}), update = ramp({2, 1, 2, 1}, 10);
  expect_tensor(
      OneOp({"TensorScatter", {cache, update, int64s({2}, {3, 1})}, {attr("mode", "circular")}, 24})
          .run(),
      {2, 1, 4, 1}, {11, 1, 2, 10, 4, 12, 13, 7});
  expect_tensor(OneOp({"TensorScatter", {cache, update}, {attr("axis", 2)}, 24}).run(),
                {2, 1, 4, 1}, {10, 11, 2, 3, 12, 13, 6, 7});
}

TEST(Reverse, SequencesOfTheirOwnLengths) {
  expect_tensor(OneOp({"ReverseSequence",
                       {ramp({4, 2}), int64s({2}, {3, 2})},
                       {attr("time_axis", 0), attr("batch_axis", 1)}})
                    .run(),
                {4, 2}, {4, 3, 2, 1, 0, 5, 6, 7});
}

std::vector<const ir::Node*> takes_of(const ir::Graph& graph) {
  std::vector<const ir::Node*> found;
  for (const ir::Node& node : graph.nodes())
    if (node.op->name == "Take") found.push_back(&node);
  return found;
}

/// Windows that begin at each pixel are shifted images; others are gathered.
TEST(Windows, BackTogetherWithoutIndices) {
  const OneOp at_each = {
      "Col2Im", {ramp({1, 4, 4}), int64s({2}, {3, 3}), int64s({2}, {2, 2})}, {}, 18, {1, 2}};
  EXPECT_TRUE(takes_of(at_each.model().import().graph).empty());
  OneOp apart = at_each;
  apart.inputs[1] = int64s({2}, {4, 4});
  apart.attributes = {attr("strides", v({2, 2}))};
  EXPECT_EQ(takes_of(apart.model().import().graph).size(), 1u);
}

/// The last index is that of channels, which lie together.
TEST(Windows, DeformedOnesAreSampledAlongChannels) {
  const OneOp deformed = {
      "DeformConv", {ramp({1, 8, 5, 4}), ramp({3, 8, 2, 2}), ramp({1, 8, 4, 3})}, {}, 19};
  const ir::Graph graph = deformed.model().import().graph;
  const auto takes = takes_of(graph);
  ASSERT_FALSE(takes.empty());
  for (const ir::Node* take : takes) {
    EXPECT_EQ(graph.type(take->inputs[0]).shape.back(), Dim(8));
    EXPECT_EQ(graph.type(take->outputs[0]).shape.back(), Dim(8));
  }
}

TEST(Windows, BackTogether) {
  expect_tensor(OneOp({"Col2Im",
                       {ramp({1, 4, 4}, 1), int64s({2}, {3, 3}), int64s({2}, {2, 2})},
                       {},
                       18,
                       {1, 2}})
                    .run(),
                {1, 1, 3, 3}, {1, 7, 6, 12, 34, 22, 11, 27, 16});
  expect_tensor(OneOp({"Col2Im",
                       {ramp({1, 6, 6}), int64s({2}, {3, 4}), int64s({2}, {2, 3})},
                       {attr("pads", v({1, 0, 0, 2})), attr("dilations", v({1, 2}))},
                       18,
                       {1, 2}})
                    .run(),
                {1, 1, 3, 4}, {20, 22, 32, 34, 24, 26, 36, 38, 22, 23, 28, 29});
  expect_tensor(OneOp({"MaxUnpool",
                       {floats({1, 1, 2, 2}, {1, 2, 3, 4}), int64s({1, 1, 2, 2}, {5, 7, 13, 15})},
                       {attr("kernel_shape", v({2, 2})), attr("strides", v({2, 2}))},
                       11})
                    .run(),
                {1, 1, 4, 4}, {0, 0, 0, 0, 0, 1, 0, 2, 0, 0, 0, 0, 0, 3, 0, 4});
}

/// By scales, or by sizes where they are given.
OneOp resize(const Tensor& x, const Tensor& scales, const Tensor& sizes,
             std::vector<Attribute> attributes, int opset = 18) {
  return {"Resize", {x, floats({0}, {}), scales, sizes}, std::move(attributes), opset, {1, 2, 3}};
}
const Tensor kNoSizes = int64s({0}, {}), kNoScales = floats({0}, {});

TEST(Resize, Modes) {
  const Tensor x = ramp({1, 1, 2, 3}), twice = floats({4}, {1, 1, 2, 2});
  expect_tensor(resize(x, twice, kNoSizes, {attr("mode", "linear")}).run(), {1, 1, 4, 6},
                {0,    0.25, 0.75, 1.25, 1.75, 2,    0.75, 1,    1.5,  2,    2.5,  2.75,
                 2.25, 2.5,  3,    3.5,  4,    4.25, 3,    3.25, 3.75, 4.25, 4.75, 5});
  expect_tensor(resize(x, twice, kNoSizes, {}, 13).run(), {1, 1, 4, 6},
                {0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 3, 3, 4, 4, 5, 5});
  expect_tensor(
      resize(x, kNoScales, int64s({4}, {1, 1, 3, 2}),
             {attr("mode", "linear"), attr("coordinate_transformation_mode", "align_corners")}, 13)
          .run(),
      {1, 1, 3, 2}, {0, 2, 1.5, 3.5, 3, 5});
  expect_tensor(
      resize(x, kNoScales, int64s({4}, {1, 1, 2, 5}),
             {attr("mode", "cubic"), attr("cubic_coeff_a", -0.5f), attr("exclude_outside", 1)}, 13)
          .run(),
      {1, 1, 2, 5},
      {-0.0754719, 0.30597, 1, 1.69403, 2.0754719, 2.9245281, 3.30597, 4, 4.6940298, 5.0754719});
  expect_tensor(resize(ramp({1, 1, 1, 6}), floats({1}, {0.5}), kNoSizes,
                       {attr("mode", "linear"), attr("antialias", 1), attr("axes", v({3}))})
                    .run(),
                {1, 1, 1, 3}, {0.625, 2.5, 4.375});
  expect_tensor(resize(ramp({1, 1, 1, 6}), floats({1}, {0.6}), kNoSizes,
                       {attr("mode", "linear"), attr("axes", v({3})),
                        attr("coordinate_transformation_mode", "half_pixel_symmetric")},
                       19)
                    .run(),
                {1, 1, 1, 3}, {0.8333334, 2.5, 4.1666665});
  expect_tensor(resize(ramp({1, 1, 4, 6}), kNoScales, int64s({2}, {3, 3}),
                       {attr("axes", v({2, 3})), attr("keep_aspect_ratio_policy", "not_smaller")})
                    .run(),
                {1, 1, 3, 5}, {0, 1, 3, 4, 5, 6, 7, 9, 10, 11, 18, 19, 21, 22, 23});
  expect_tensor(resize(ramp({1, 1, 1, 3}), kNoScales, int64s({4}, {1, 1, 1, 7}),
                       {attr("nearest_mode", "ceil"),
                        attr("coordinate_transformation_mode", "pytorch_half_pixel")},
                       13)
                    .run(),
                {1, 1, 1, 7}, {0, 1, 1, 1, 2, 2, 2});
}

TEST(Resize, CropsAndOlderForms) {
  expect_tensor(OneOp({"Resize",
                       {ramp({1, 1, 3, 3}), floats({8}, {0, 0, .25, .5, 1, 1, .75, 1.25}),
                        kNoScales, int64s({4}, {1, 1, 2, 3})},
                       {attr("mode", "linear"), attr("extrapolation_value", 9.0f),
                        attr("coordinate_transformation_mode", "tf_crop_and_resize")},
                       13,
                       {1, 2, 3}})
                    .run(),
                {1, 1, 2, 3}, {2.5, 3.25, 9, 5.5, 6.25, 9});
  const std::vector<double> rows = {0, 1, 0, 1, 2, 3, 2, 3};
  const Tensor x = ramp({1, 1, 2, 2}), scales = floats({4}, {1, 1, 2, 1});
  expect_tensor(OneOp({"Upsample", {x}, {attr("scales", std::vector<float>{1, 1, 2, 1})}, 7}).run(),
                {1, 1, 4, 2}, rows);
  expect_tensor(OneOp({"Upsample", {x, scales}, {}, 9, {1}}).run(), {1, 1, 4, 2}, rows);
  expect_tensor(OneOp({"Resize", {x, scales}, {}, 10, {1}}).run(), {1, 1, 4, 2}, rows);
}

TEST(Resize, SymbolicSizes) {
  ModelBuilder model(18);
  model.input("x", DType::kFloat32, {1, 2, "h", "w"}).initializer("roi", floats({0}, {}));
  model.initializer("scales", floats({4}, {1, 1, 2, 0.5}));
  model.node("Resize", {"x", "roi", "scales"}, {"y"}, {attr("mode", "linear")}).output("y");
  const auto imported = model.import();
  const auto& type = imported.graph.type(imported.graph.outputs()[0]);
  EXPECT_EQ(ir::to_string(type.shape), "[1, 2, 2*h, floordiv(w, 2)]");
  const auto y = ir::evaluate(imported.graph, std::vector{ramp({1, 2, 1, 4})});
  expect_tensor(y[0], {1, 2, 2, 2}, {0.5, 2.5, 0.5, 2.5, 4.5, 6.5, 4.5, 6.5});
}

TEST(Resize, RefusesWhatDependsOnData) {
  OneOp op = resize(ramp({1, 1, 2, 3}), floats({4}, {1, 1, 2, 2}), kNoSizes, {});
  op.constants = {1, 3};
  EXPECT_THAT(op.model().import_error(ErrorCode::kUnsupported),
              HasSubstr("scales (input 2) depend on the data"));
}

TEST(GridSample, ModesAndPaddings) {
  const Tensor x = ramp({1, 1, 3, 4});
  const Tensor grid = floats({1, 2, 2, 2}, {-1, -1, .5, 0, 1.2, .3, -.2, -1.7});
  const auto run = [&](const char* mode, const char* padding) {
    return OneOp({"GridSample",
                  {x, grid},
                  {attr("mode", mode), attr("padding_mode", padding),
                   attr("align_corners", std::string(mode) == "linear" ? 1 : 0)},
                  20})
        .run();
  };
  const std::vector<std::int64_t> shape = {1, 1, 2, 2};
  expect_tensor(run("nearest", "zeros"), shape, {0, 6, 0, 0});
  expect_tensor(run("nearest", "border"), shape, {0, 6, 7, 1});
  expect_tensor(run("nearest", "reflection"), shape, {0, 6, 7, 5});
  expect_tensor(run("linear", "zeros"), shape, {0, 6.25, 5.74, 0.36});
  expect_tensor(run("linear", "border"), shape, {0, 6.25, 8.2, 1.2});
  expect_tensor(run("linear", "reflection"), shape, {0, 6.25, 7.9, 4});
  expect_tensor(run("cubic", "zeros"), shape, {-0.234375, 7.25, 0.835714, -0.0948911});
  expect_tensor(run("cubic", "border"), shape, {-0.46875, 6.59375, 9.1903781, 1.1360005});
  expect_tensor(run("cubic", "reflection"), shape, {-0.9375, 6.59375, 9.2511282, 2.9523749});
}

TEST(Sampling, GridsAndRegions) {
  expect_tensor(OneOp({"AffineGrid",
                       {floats({1, 2, 3}, {1, .5, .25, 0, 2, -1}), int64s({4}, {1, 1, 2, 3})},
                       {},
                       20,
                       {1}})
                    .run(),
                {1, 2, 3, 2},
                {-0.6666667, -2, 0, -2, 0.6666667, -2, -0.1666667, 0, 0.5, 0, 1.1666666, 0});
  const Tensor rois = floats({1, 4}, {0, 0, 3, 4}), batch = int64s({1}, {0});
  std::vector<Attribute> attributes = {attr("output_height", 2), attr("output_width", 2),
                                       attr("sampling_ratio", 2)};
  expect_tensor(OneOp({"RoiAlign", {ramp({1, 1, 5, 5}), rois, batch}, attributes, 16}).run(),
                {1, 1, 2, 2}, {2.8125, 4.25, 12.8125, 14.25});
  attributes.pop_back();  // ceil(3 / 2) samples in each direction
  expect_tensor(OneOp({"RoiAlign", {ramp({1, 1, 5, 5}), rois, batch}, attributes, 16}).run(),
                {1, 1, 2, 2}, {2.8125, 4.25, 12.8125, 14.25});
  attributes.push_back(attr("mode", "max"));
  EXPECT_THAT(OneOp({"RoiAlign", {ramp({1, 1, 5, 5}), rois, batch}, attributes, 16})
                  .model()
                  .import_error(ErrorCode::kUnsupported),
              HasSubstr("sampling_ratio 0"));
}

TEST(Ranking, LargestAndSmallest) {
  const Tensor x = floats({2, 4}, {3, 1, 3, 2, 5, 5, 0, -1});
  expect_tensor(OneOp({"ArgMax", {x}, {attr("axis", 1)}}).run(), {2, 1}, {0, 0});
  expect_tensor(
      OneOp({"ArgMax", {x}, {attr("axis", -1), attr("select_last_index", 1), attr("keepdims", 0)}})
          .run(),
      {2}, {2, 1});
  expect_tensor(OneOp({"ArgMin", {x}, {attr("keepdims", 0)}, 7}).run(), {4}, {0, 0, 1, 1});
  expect_tensor(OneOp({"ArgMax", {floats({3}, {1, NAN, 7})}}).run(), {1}, {1});
  expect_tensor(OneOp({"Hardmax", {x}, {}, 13}).run(), {2, 4}, {1, 0, 0, 0, 1, 0, 0, 0});
  expect_tensor(OneOp({"Hardmax", {floats({1, 2, 2}, {1, 3, 3, 2})}, {}, 7}).run(), {1, 2, 2},
                {0, 1, 0, 0});

  OneOp top{"TopK", {x, int64s({1}, {3})}, {}, 11, {1}, 2};
  auto both = top.run_all();
  expect_tensor(both[0], {2, 3}, {3, 3, 2, 5, 5, 0});
  expect_tensor(both[1], {2, 3}, {0, 2, 3, 0, 1, 2});
  top.inputs[1] = int64s({1}, {2});
  top.attributes = {attr("largest", 0)};
  both = top.run_all();
  expect_tensor(both[0], {2, 2}, {1, 2, -1, 0});
  expect_tensor(both[1], {2, 2}, {1, 3, 3, 2});
  expect_tensor(OneOp({"TopK", {x}, {attr("k", 1)}, 7, {}, 2}).run_all()[1], {2, 1}, {0, 0});
  top.inputs[1] = int64s({1}, {5});
  EXPECT_THAT(top.model().import_error(ErrorCode::kInvalidModel), HasSubstr("k is 5"));
}

TEST(Ranking, RunningSums) {
  const auto run = [&](const char* op, int opset, int exclusive, int reverse) {
    return OneOp({op,
                  {ramp({2, 3}, 1), int64s({}, {1})},
                  {attr("exclusive", exclusive), attr("reverse", reverse)},
                  opset,
                  {1}})
        .run();
  };
  expect_tensor(run("CumSum", 11, 0, 0), {2, 3}, {1, 3, 6, 4, 9, 15});
  expect_tensor(run("CumSum", 14, 1, 1), {2, 3}, {5, 3, 0, 11, 6, 0});
  expect_tensor(run("CumProd", 26, 1, 0), {2, 3}, {1, 1, 2, 1, 4, 20});
}

TEST(Pad, ByElements) {
  const Tensor x = floats({3}, {1, 2, 3}), pads = int64s({2}, {4, 3});
  const auto run = [&](const char* mode) {
    return OneOp({"Pad", {x, pads}, {attr("mode", mode)}, 19, {1}}).run();
  };
  expect_tensor(run("edge"), {10}, {1, 1, 1, 1, 1, 2, 3, 3, 3, 3});
  expect_tensor(run("reflect"), {10}, {1, 2, 3, 2, 1, 2, 3, 2, 1, 2});
  expect_tensor(run("wrap"), {10}, {3, 1, 2, 3, 1, 2, 3, 1, 2, 3});
  ModelBuilder model(19);
  model.input("x", DType::kFloat32, {"n"}).initializer("pads", pads);
  model.node("Pad", {"x", "pads"}, {"y"}, {attr("mode", "reflect")}).output("y");
  const auto imported = model.import();
  expect_tensor(ir::evaluate(imported.graph, std::vector{x})[0], {10},
                {1, 2, 3, 2, 1, 2, 3, 2, 1, 2});
}

TEST(Pad, SeveralDimensionsAtOnce) {
  const OneOp op{
      "Pad", {ramp({2, 3}), int64s({4}, {1, 1, 0, 2})}, {attr("mode", "reflect")}, 19, {1}};
  expect_tensor(op.run(), {3, 6}, {4, 3, 4, 5, 4, 3, 1, 0, 1, 2, 1, 0, 4, 3, 4, 5, 4, 3});
  const auto imported = op.model().import();
  // One pass over memory.
  EXPECT_EQ(std::ranges::count_if(imported.graph.nodes(),
                                  [](const auto& node) {
                                    return node.op->name == "Take" || node.op->name == "Gather";
                                  }),
            1);
}

TEST(Pad, AroundTheMiddle) {
  expect_tensor(OneOp({"CenterCropPad", {ramp({5, 2}), int64s({2}, {2, 5})}, {}, 18, {1}}).run(),
                {2, 5}, {0, 2, 3, 0, 0, 0, 4, 5, 0, 0});
}

TEST(Generators, Diagonals) {
  expect_tensor(OneOp({"EyeLike", {ramp({2, 3})}, {attr("k", 1)}}).run(), {2, 3},
                {0, 1, 0, 0, 0, 1});
  // Which diagonal may be known at run time only.
  expect_tensor(OneOp({"Trilu", {ramp({2, 3}, 1), int64s({}, {1})}, {attr("upper", 0)}}).run(),
                {2, 3}, {1, 2, 0, 4, 5, 6});
}

}  // namespace
}  // namespace sinter::frontend
