// SPDX-License-Identifier: Apache-2.0
// Shape arithmetic disappears: what is left has symbolic shapes and no integer computation.
#include "ir/reference/evaluate.h"
#include "tests/frontend/op_test_support.h"

namespace sinter::frontend {
namespace {

using ir::Dim;
using ir::Shape;

const Dim kBatch = Dim::symbol("batch"), kSeq = Dim::symbol("seq");

ModelBuilder batch_by_seq(int opset = 17) {
  ModelBuilder model(opset);
  model.input("x", DType::kFloat32, {"batch", "seq", 384});
  return model;
}

std::vector<std::string> op_names(const ir::Graph& graph) {
  std::vector<std::string> names;
  for (const auto& node : graph.nodes()) names.push_back(node.op->name);
  return names;
}

const Shape& output_shape(const ImportedModel& model) {
  return model.graph.type(model.graph.outputs()[0]).shape;
}

TEST(ShapeFolding, SplitsHeadsAsExportersDo) {
  // x.reshape(x.shape[0], x.shape[1], 12, 32), by Shape, Gather, Unsqueeze and Concat.
  auto model = batch_by_seq();
  model.ints("zero", {0}).initializer("i0", int64s({}, {0})).initializer("i1", int64s({}, {1}));
  model.ints("heads", {12}).ints("width", {32});
  model.node("Shape", {"x"}, {"shape"})
      .node("Gather", {"shape", "i0"}, {"b"}, {attr("axis", 0)})
      .node("Gather", {"shape", "i1"}, {"s"}, {attr("axis", 0)})
      .node("Unsqueeze", {"b", "zero"}, {"b1"})
      .node("Unsqueeze", {"s", "zero"}, {"s1"})
      .node("Concat", {"b1", "s1", "heads", "width"}, {"to"}, {attr("axis", 0)})
      .node("Reshape", {"x", "to"}, {"y"})
      .output("y");
  const auto imported = model.import();
  EXPECT_THAT(op_names(imported.graph), testing::ElementsAre("Reshape"));
  EXPECT_EQ(output_shape(imported), (Shape{kBatch, kSeq, 12, 32}));
}

TEST(ShapeFolding, InfersMinusOneSymbolically) {
  auto model = batch_by_seq();
  model.ints("to", {0, -1, 32}).node("Reshape", {"x", "to"}, {"y"}).output("y");
  EXPECT_EQ(output_shape(model.import()), (Shape{kBatch, kSeq * 12, 32}));
}

TEST(ShapeFolding, ComputesWithSizes) {
  // ConstantOfShape(Concat(shape[0] * shape[1], (shape[2] - 4) / 2)), through a cast and a slice.
  auto model = batch_by_seq();
  model.ints("a0", {0}).ints("a1", {1}).ints("a2", {2}).ints("a3", {3});
  model.ints("four", {4}).ints("two", {2});
  model.node("Shape", {"x"}, {"shape"})
      .node("Cast", {"shape"}, {"shape32"}, {attr("to", 6)})
      .node("Cast", {"shape32"}, {"shape64"}, {attr("to", 7)})
      .node("Slice", {"shape64", "a0", "a2"}, {"first"})
      .node("ReduceProd", {"first"}, {"rows"}, {attr("keepdims", 1)})
      .node("Slice", {"shape64", "a2", "a3"}, {"last"})
      .node("Sub", {"last", "four"}, {"less"})
      .node("Div", {"less", "two"}, {"half"})
      .node("Concat", {"rows", "half"}, {"to"}, {attr("axis", 0)})
      .node("ConstantOfShape", {"to"}, {"y"})
      .output("y");
  const auto imported = model.import();
  EXPECT_EQ(output_shape(imported), (Shape{kBatch * kSeq, 190}));
  EXPECT_THAT(op_names(imported.graph), testing::ElementsAre("Expand"));
}

TEST(ShapeFolding, ExpandIdiomWithEqualAndWhere) {
  // Exporters write expand(-1, seq) as Where(shape == -1, 1, shape).
  ModelBuilder model;
  model.input("x", DType::kFloat32, {"batch", 1}).input("m", DType::kFloat32, {"batch", "seq"});
  model.ints("a0", {0}).ints("minus", {-1}).ints("ones", {1, 1});
  model.node("Shape", {"m"}, {"shape"})
      .node("Equal", {"shape", "minus"}, {"is_minus"})
      .node("Where", {"is_minus", "ones", "shape"}, {"to"})
      .node("Expand", {"x", "to"}, {"y"})
      .output("y");
  const auto imported = model.import();
  EXPECT_THAT(op_names(imported.graph), testing::ElementsAre("Expand"));
  EXPECT_EQ(output_shape(imported), (Shape{kBatch, kSeq}));
}

TEST(ShapeFolding, SymbolicSliceOfATableLimitsTheDefaultRange) {
  ModelBuilder model;
  model.input("x", DType::kFloat32, {"seq", 8}).initializer("table", ramp({512, 8}));
  model.ints("a0", {0}).ints("a1", {1});
  model.node("Shape", {"x"}, {"shape"})
      .node("Slice", {"shape", "a0", "a1"}, {"length"})
      .node("Slice", {"table", "a0", "length", "a0"}, {"rows"})
      .node("Add", {"x", "rows"}, {"y"})
      .output("y");
  const auto imported = model.import();
  EXPECT_EQ(imported.graph.ranges().at("seq").max, 512);
  ASSERT_EQ(imported.warnings.size(), 1u);
  EXPECT_THAT(imported.warnings[0], testing::HasSubstr("'seq' is limited to 1..512"));
  // A range that the user gives is never narrowed: it is contradicted.
  ImportOptions options;
  options.ranges["seq"] = ir::Range{1, 1024, nullptr};
  const std::string message = model.import_error(ErrorCode::kInvalidModel, options);
  EXPECT_THAT(message, testing::HasSubstr("importing node 'the_Add' (Add-17)"));
}

TEST(ShapeFolding, SliceFromTheEndOfATableLimitsTheDefaultRange) {
  ModelBuilder model;
  model.input("x", DType::kFloat32, {"seq", 8}).initializer("table", ramp({64, 8}));
  model.ints("a0", {0}).ints("a1", {1}).ints("end", {64});
  model.node("Shape", {"x"}, {"shape"})
      .node("Slice", {"shape", "a0", "a1"}, {"length"})
      .node("Sub", {"end", "length"}, {"first"})
      .node("Slice", {"table", "first", "end", "a0"}, {"rows"})
      .node("Add", {"x", "rows"}, {"y"})
      .output("y");
  const auto imported = model.import();
  EXPECT_EQ(imported.graph.ranges().at("seq").max, 64);
  ASSERT_EQ(imported.warnings.size(), 1u);
  EXPECT_THAT(imported.warnings[0], testing::HasSubstr("'the_Slice' has no result for more"));
  ImportOptions options;  // a range of the user's is never changed
  options.ranges["seq"] = ir::Range{1, 100, nullptr};
  EXPECT_THAT(model.import_error(ErrorCode::kUnsupported, options),
              testing::HasSubstr("a bound of -seq + 64 may be negative or not"));
}

TEST(ShapeFolding, PositionsByRange) {
  ModelBuilder model;
  model.input("ids", DType::kInt64, {"batch", "seq"}).initializer("table", ramp({64, 2}));
  model.initializer("i0", int64s({}, {0})).initializer("i1", int64s({}, {1}));
  model.node("Shape", {"ids"}, {"shape"})
      .node("Gather", {"shape", "i1"}, {"s"}, {attr("axis", 0)})
      .node("Range", {"i0", "s", "i1"}, {"positions"})
      .node("Gather", {"table", "positions"}, {"y"}, {attr("axis", 0)})
      .output("y");
  const auto imported = model.import();
  EXPECT_EQ(output_shape(imported), (Shape{kSeq, 2}));
  EXPECT_EQ(imported.graph.ranges().at("seq").max, 64);
  const auto y = ir::evaluate(imported.graph, std::vector{int64s({1, 3}, {7, 8, 9})});
  expect_tensor(y[0], {3, 2}, {0, 1, 2, 3, 4, 5});
}

TEST(ShapeFolding, RangesOfFloatsUpToASize) {
  const auto positions = [](double start, double delta, bool backwards = false) {
    ModelBuilder model;
    model.input("ids", DType::kInt64, {"batch", "seq"}).initializer("i1", int64s({}, {1}));
    model.initializer("from", ir::Tensor::scalar(DType::kFloat32, start))
        .initializer("by", ir::Tensor::scalar(DType::kFloat32, delta));
    model.node("Shape", {"ids"}, {"shape"})
        .node("Gather", {"shape", "i1"}, {"s"}, {attr("axis", 0)})
        .node("Cast", {"s"}, {"to"}, {attr("to", 1)})
        .node("Range", {backwards ? "to" : "from", backwards ? "from" : "to", "by"}, {"y"})
        .output("y");
    return model;
  };
  const std::vector<ir::Tensor> inputs{int64s({1, 4}, {0, 0, 0, 0})};
  const auto run = [&](const ModelBuilder& model) {
    return ir::evaluate(model.import().graph, inputs)[0];
  };
  EXPECT_EQ(output_shape(positions(0, 1).import()), (Shape{kSeq}));
  expect_tensor(run(positions(0, 1)), {4}, {0, 1, 2, 3});
  expect_tensor(run(positions(0.5, 1)), {4}, {0.5, 1.5, 2.5, 3.5});
  expect_tensor(run(positions(0.5, 3)), {2}, {0.5, 3.5});
  expect_tensor(run(positions(1, 3)), {1}, {1});
  expect_tensor(run(positions(0.5, -1, true)), {4}, {4, 3, 2, 1});
  expect_tensor(run(positions(9, 1)), {0}, {});
  EXPECT_THAT(positions(0, 0.5).import_error(ErrorCode::kUnsupported),
              testing::HasSubstr("--bound 'the_Range=N'"));
}

TEST(ShapeFolding, RangesOfAKnownLengthMayBeginAnywhere) {
  const auto positions = [](const char* limit, int delta) {
    ModelBuilder model;
    model.input("ids", DType::kInt64, {"batch", "seq"}).input("p", DType::kInt64, {1});
    model.initializer("i1", int64s({}, {1})).initializer("d", int64s({}, {delta}));
    model.node("Shape", {"ids"}, {"shape"})
        .node("Gather", {"shape", "i1"}, {"s"}, {attr("axis", 0)})
        .node("Squeeze", {"p"}, {"start"})
        .node("Add", {"s", "start"}, {"end"})
        .node("Mul", {"start", "start"}, {"square"})
        .node("Range", {"start", limit, "d"}, {"y"})
        .output("y");
    return model;
  };
  const auto imported = positions("end", 1).import();
  EXPECT_EQ(output_shape(imported), (Shape{kSeq}));
  const std::vector<ir::Tensor> inputs{int64s({1, 3}, {0, 0, 0}), int64s({1}, {40})};
  expect_tensor(ir::evaluate(imported.graph, inputs)[0], {3}, {40, 41, 42});
  expect_tensor(ir::evaluate(positions("end", 2).import().graph, inputs)[0], {2}, {40, 42});
  EXPECT_THAT(positions("square", 1).import_error(ErrorCode::kUnsupported),
              testing::HasSubstr("--bound 'the_Range=N'"));
}

TEST(ShapeFolding, SizesMayBeUsedAsData) {
  // The sum over seq divided by its length, which only the shape knows.
  auto model = batch_by_seq();
  model.initializer("i1", int64s({}, {1})).ints("axis", {1});
  model.node("Shape", {"x"}, {"shape"})
      .node("Gather", {"shape", "i1"}, {"s"}, {attr("axis", 0)})
      .node("Cast", {"s"}, {"length"}, {attr("to", 1)})
      .node("ReduceSum", {"x", "axis"}, {"sum"}, {attr("keepdims", 0)})
      .node("Div", {"sum", "length"}, {"y"})
      .output("y")
      .output("shape");
  const auto imported = model.import();
  ir::verify(imported.graph);
  const auto outputs = ir::evaluate(imported.graph, std::vector{ramp({1, 3, 384}, 1, 0)});
  EXPECT_DOUBLE_EQ(outputs[0].at(0), 1);
  expect_tensor(outputs[1], {3}, {1, 3, 384});
}

TEST(ShapeFolding, FloorDivisionAsData) {
  ModelBuilder model;
  model.input("x", DType::kFloat32, {"n"}).ints("two", {2}).ints("one", {1});
  model.node("Shape", {"x"}, {"n"})
      .node("Sub", {"n", "one"}, {"less"})
      .node("Div", {"less", "two"}, {"y"})
      .output("y");
  expect_tensor(model.run({ramp({8})})[0], {1}, {3});
}

TEST(ShapeFolding, SplitsASymbolicDimensionEvenlyOnlyIfItIsKnownToBe) {
  ModelBuilder model;
  model.input("x", DType::kFloat32, {"n"}).node("Split", {"x"}, {"a", "b"}).output("a").output("b");
  const ImportedModel assumed = model.import();
  EXPECT_EQ(ir::to_string(assumed.graph.type(assumed.graph.outputs()[0])), "f32[n]");
  EXPECT_THAT(assumed.warnings, testing::Contains(testing::HasSubstr("a multiple of 2")));
}

TEST(ShapeFolding, WhatDependsOnASymbolIsUnsupportedNotInvalid) {
  ModelBuilder reshape;
  reshape.input("x", DType::kFloat32, {"n", 13}).ints("to", {509, -1});
  reshape.node("Reshape", {"x", "to"}, {"y"}).output("y");
  ImportOptions any_n;
  any_n.ranges["n"] = {1, 8, nullptr};
  EXPECT_THAT(reshape.import_error(ErrorCode::kUnsupported, any_n),
              testing::HasSubstr("13*n elements are not known to be a multiple of 509"));
  ModelBuilder squeeze;
  squeeze.input("x", DType::kFloat32, {"n", 6}).ints("axes", {0});
  squeeze.node("Squeeze", {"x", "axes"}, {"y"}).output("y");
  EXPECT_THAT(squeeze.import_error(ErrorCode::kUnsupported),
              testing::HasSubstr("dimension 0 of f32[n, 6] is not known to be 1"));
}

TEST(ShapeFolding, OverflowingArithmeticIsNotAboutSizes) {
  // Wraps in int64, as data; it must neither fail nor be folded to something else.
  ModelBuilder model;
  model.ints("big", {INT64_MAX}).ints("two", {2}).input("x", DType::kInt64, {1});
  model.node("Mul", {"big", "two"}, {"wrapped"}).node("Add", {"x", "wrapped"}, {"y"}).output("y");
  expect_tensor(model.run({int64s({1}, {5})})[0], {1}, {3});
}

TEST(ShapeFolding, FollowsFloatsThatAreSizes) {
  // int(ceil(n / 4.0) * 2.0), as math.ceil is traced.
  ModelBuilder model;
  model.input("x", DType::kFloat32, {"n"});
  model.initializer("four", floats({1}, {4})).initializer("two", floats({1}, {2}));
  model.node("Shape", {"x"}, {"n"}).node("Cast", {"n"}, {"n_f"}, {attr("to", 1)});
  model.node("Div", {"n_f", "four"}, {"quarter"}).node("Ceil", {"quarter"}, {"up"});
  model.node("Mul", {"up", "two"}, {"size_f"}).node("Cast", {"size_f"}, {"size"}, {attr("to", 7)});
  model.node("ConstantOfShape", {"size"}, {"y"}).output("y");
  const ImportedModel imported = model.import();
  const ir::Dim size = imported.graph.type(imported.graph.outputs()[0]).shape[0];
  for (const auto& [n, wanted] : {std::pair{1, 2}, {4, 2}, {5, 4}, {16, 8}, {17, 10}})
    EXPECT_EQ(size.evaluate({{"n", n}}), wanted) << n;
}

TEST(ShapeFolding, ExcludesNegativeSizesBehindFloats) {
  // int(ceil(((n - 3) / 2) / 4.0)): the division of integers is the floor from n = 3 on.
  ModelBuilder model;
  model.input("x", DType::kFloat32, {"n"}).initializer("four", floats({1}, {4}));
  model.ints("three", {3}).ints("two", {2});
  model.node("Shape", {"x"}, {"n"}).node("Sub", {"n", "three"}, {"less"});
  model.node("Div", {"less", "two"}, {"half"}).node("Cast", {"half"}, {"half_f"}, {attr("to", 1)});
  model.node("Div", {"half_f", "four"}, {"part"}).node("Ceil", {"part"}, {"up"});
  model.node("Cast", {"up"}, {"size"}, {attr("to", 7)});
  model.node("ConstantOfShape", {"size"}, {"y"}).output("y");
  const ImportedModel imported = model.import();
  EXPECT_EQ(imported.graph.ranges().at("n").min, 3);
  const ir::Dim size = imported.graph.type(imported.graph.outputs()[0]).shape[0];
  EXPECT_EQ(size.evaluate({{"n", 13}}), 2);
}

TEST(ShapeFolding, FloatsThatRoundAreNoSizes) {
  ModelBuilder model;
  model.input("x", DType::kFloat32, {"n"}).initializer("third", floats({1}, {1.0 / 3}));
  model.node("Shape", {"x"}, {"n"}).node("Cast", {"n"}, {"n_f"}, {attr("to", 1)});
  model.node("Mul", {"n_f", "third"}, {"part"}).node("Cast", {"part"}, {"size"}, {attr("to", 7)});
  model.node("ConstantOfShape", {"size"}, {"y"}).output("y");
  EXPECT_THAT(model.import_error(ErrorCode::kUnsupported),
              testing::HasSubstr("depends on the data"));
}

TEST(ShapeFolding, DataDependentShapesAreRefusedByName) {
  ModelBuilder model;
  model.input("x", DType::kFloat32, {6}).input("to", DType::kInt64, {2});
  model.node("Reshape", {"x", "to"}, {"y"}).output("y");
  const std::string message = model.import_error(ErrorCode::kUnsupported);
  EXPECT_THAT(message, testing::HasSubstr("'the_Reshape' (Reshape-17) on (f32[6], i64[2])"));
  EXPECT_THAT(message, testing::HasSubstr("the value of its shape (input 1, 'to') depends on the "
                                          "data of the model's inputs"));
}

TEST(ShapeFolding, AllConstantsThatAreMissingAreNamedAtOnce) {
  ModelBuilder model;
  model.input("x", DType::kFloat32, {6}).input("to", DType::kInt64, {2});
  model.input("times", DType::kInt64, {2}).input("data", DType::kInt64, {2});
  model.node("Reshape", {"x", "to"}, {"matrix"}).node("Tile", {"matrix", "times"}, {"tiles"});
  model.node("Cast", {"data"}, {"z"}, {attr("to", 1)}).output("z");
  model.node("Relu", {"tiles"}, {"y"}).output("y");
  const std::string message = model.import_error(ErrorCode::kUnsupported);
  EXPECT_THAT(message, testing::HasSubstr("--constant to=FILE --constant times=FILE"));
}

}  // namespace
}  // namespace sinter::frontend
