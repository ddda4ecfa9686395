// SPDX-License-Identifier: Apache-2.0
// Symbols, ranges and shapes of the model's inputs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <onnx.pb.h>

#include "tests/frontend/op_test_support.h"

namespace sinter::frontend {
namespace {

using ir::Dim;
using ir::Shape;
using testing::AllOf;
using testing::HasSubstr;

ModelBuilder two_inputs() {
  ModelBuilder model;
  model.input("x", DType::kFloat32, {"batch", "seq", ""})
      .input("mask", DType::kFloat32, {"batch", "seq"});
  model.node("Relu", {"x"}, {"y"}).node("Relu", {"mask"}, {"m"}).output("y").output("m");
  return model;
}

Shape input_shape(const ImportedModel& model, std::size_t i) {
  return model.graph.type(model.graph.inputs()[i]).shape;
}

TEST(Inputs, NamesStayAndUnnamedDimensionsGetOne) {
  const auto model = two_inputs().import();
  EXPECT_EQ(input_shape(model, 0),
            (Shape{Dim::symbol("batch"), Dim::symbol("seq"), Dim::symbol("x_d2")}));
  EXPECT_EQ(model.graph.ranges().at("batch"), (ir::Range{1, 65536, nullptr}));
}

TEST(Inputs, WhatIsPastMayBeEmpty) {
  ModelBuilder model;
  model.input("past_key_values.0.key", DType::kFloat32, {"past_sequence_length", "", "size"})
      .node("Relu", {"past_key_values.0.key"}, {"y"})
      .output("y");
  const ir::Ranges ranges = model.import().graph.ranges();
  EXPECT_EQ(ranges.at("past_sequence_length"), (ir::Range{0, 65536, nullptr}));
  EXPECT_EQ(ranges.at("past_key_values_0_key_d1").min, 0);
  EXPECT_EQ(ranges.at("size").min, 1);
  ImportOptions options;
  options.ranges["past_sequence_length"] = ir::Range{2, 4, nullptr};
  EXPECT_EQ(model.import(options).graph.ranges().at("past_sequence_length").min, 2);
}

TEST(Inputs, RangesFromOptions) {
  ImportOptions options;
  options.ranges["seq"] = ir::Range{1, 512, nullptr};
  options.ranges["batch"] = ir::Range{8, 8, nullptr};
  const auto model = two_inputs().import(options);
  EXPECT_EQ(input_shape(model, 1), (Shape{8, Dim::symbol("seq")}));
  EXPECT_EQ(model.graph.ranges().at("seq").max, 512);
  EXPECT_EQ(model.graph.ranges().count("batch"), 0u);
}

TEST(Inputs, GivenShapesReplaceSymbolsEverywhere) {
  ImportOptions options;
  options.input_shapes["x"] = {4, Dim::symbol("tokens"), 16};
  options.ranges["tokens"] = ir::Range{1, 64, nullptr};
  const auto model = two_inputs().import(options);
  EXPECT_EQ(input_shape(model, 0), (Shape{4, Dim::symbol("tokens"), 16}));
  EXPECT_EQ(input_shape(model, 1), (Shape{4, Dim::symbol("tokens")}));
}

TEST(Inputs, OptionsThatFitNothing) {
  const auto error = [](const ImportOptions& options) {
    return two_inputs().import_error(ErrorCode::kUsage, options);
  };
  ImportOptions options;
  options.input_shapes["ids"] = {1};
  EXPECT_THAT(error(options), AllOf(HasSubstr("'ids'"), HasSubstr("it has 'x', 'mask'")));
  options = {};
  options.input_shapes["x"] = {1, 2};
  EXPECT_THAT(error(options), AllOf(HasSubstr("[1, 2]"), HasSubstr("[batch, seq, x_d2]")));
  options = {};
  options.input_shapes["x"] = {1, 2, 3};
  options.input_shapes["mask"] = {7, 2};
  EXPECT_THAT(error(options), AllOf(HasSubstr("'batch'"), HasSubstr("7"), HasSubstr("1")));
  options = {};
  options.ranges["sequence"] = ir::Range{1, 2, nullptr};
  EXPECT_THAT(error(options), AllOf(HasSubstr("'sequence'"), HasSubstr("'batch', 'seq', 'x_d2'")));
  options = {};
  options.ranges["seq"] = ir::Range{5, 2, nullptr};
  EXPECT_THAT(error(options), HasSubstr("the range 5..2 given for dimension 'seq'"));
}

TEST(Inputs, ValuesThatShapesDependOnAreAskedForAndCompiledIn) {
  ModelBuilder model;
  model.input("x", DType::kFloat32, {2, 6}).input("half", DType::kInt64, {2});
  model.ints("two", {2, 2});
  model.node("Mul", {"half", "two"}, {"shape"}).node("Reshape", {"x", "shape"}, {"y"}).output("y");
  try {
    model.import();
    FAIL() << "a shape that depends on data was imported";
  } catch (const UnsupportedModel& error) {
    EXPECT_EQ(error.inputs(), std::vector<std::string>{"half"});
    EXPECT_THAT(error.what(), HasSubstr("--constant half=FILE"));
  }
  ImportOptions options;
  options.input_values.emplace("half", int64s({2}, {1, 3}));
  const auto imported = model.import(options);
  ASSERT_EQ(imported.graph.inputs().size(), 1u);
  EXPECT_EQ(imported.graph.type(imported.graph.outputs()[0]).shape, (Shape{2, 6}));
  options.input_values.clear();
  options.input_values.emplace("half", floats({2}, {1, 3}));
  EXPECT_THAT(model.import_error(ErrorCode::kUsage, options),
              AllOf(HasSubstr("'half' is f32[2]"), HasSubstr("elements are i64")));
}

TEST(Inputs, OptionsThatContradictTheModel) {
  ModelBuilder model;
  model.input("x", DType::kFloat32, {"n", 3}).node("Relu", {"x"}, {"y"}).output("y");
  ImportOptions options;
  options.input_shapes["x"] = {2, 4};
  EXPECT_THAT(model.import_error(ErrorCode::kUsage, options),
              AllOf(HasSubstr("[2, 4]"), HasSubstr("[n, 3]"), HasSubstr("dimension 1")));
}

TEST(Inputs, ExpressionsOfNamesAreExpressions) {
  ModelBuilder model;
  model.input("past", DType::kFloat32, {"past_length"}).input("now", DType::kFloat32, {"seq"});
  model.input("mask", DType::kFloat32, {"past_length + seq"});
  model.node("Concat", {"past", "now"}, {"all"}, {attr("axis", 0)})
      .node("Mul", {"all", "mask"}, {"y"})
      .output("y");
  EXPECT_EQ(input_shape(model.import(), 2),
            (Shape{Dim::symbol("past_length") + Dim::symbol("seq")}));
}

/// As mobius writes them.
TEST(Inputs, ShortNamesInExpressionsAreThoseOfOtherInputs) {
  ModelBuilder model;
  model.input("x", DType::kFloat32, {"sequence_len"});
  model.input("past", DType::kFloat32, {"past_sequence_len"});
  model.input("mask", DType::kFloat32, {"past_seq_len + seq_len"});
  model.node("Relu", {"mask"}, {"y"}).output("y");
  const auto imported = model.import();
  EXPECT_EQ(input_shape(imported, 2),
            (Shape{Dim::symbol("past_sequence_len") + Dim::symbol("sequence_len")}));
  EXPECT_THAT(imported.warnings,
              testing::ElementsAre(HasSubstr("past_seq_len + seq_len, is taken as")));
}

TEST(Inputs, NamesThatAreNoSymbols) {
  ModelBuilder model;
  model.input("x", DType::kFloat32, {"batch-size", "2nd", "batch.size"});
  model.node("Relu", {"x"}, {"y"}).output("y");
  const auto imported = model.import();
  EXPECT_EQ(input_shape(imported, 0),
            (Shape{Dim::symbol("batch_size"), Dim::symbol("d_2nd"), Dim::symbol("batch_size_2")}));
  EXPECT_EQ(imported.warnings.size(), 3u);
}

TEST(Inputs, WithoutShapeGetARankThatFits) {
  ModelBuilder model;
  model.input("x", DType::kFloat32, {}).node("Relu", {"x"}, {"y"}).output("y");
  model.graph().mutable_input(0)->mutable_type()->mutable_tensor_type()->clear_shape();
  ImportOptions strict;
  strict.strict = true;
  EXPECT_THAT(model.import_error(ErrorCode::kUnsupported, strict),
              AllOf(HasSubstr("input 'x' has no shape"), HasSubstr("--minShapes x:1x1")));
  const auto assumed = model.import();
  EXPECT_EQ(input_shape(assumed, 0), (Shape{Dim::symbol("x_d0"), Dim::symbol("x_d1")}));
  EXPECT_THAT(assumed.warnings,
              testing::ElementsAre(HasSubstr("input 'x' has no shape in the model")));
  ImportOptions ranks;
  ranks.input_ranks["x"] = 2;
  EXPECT_EQ(input_shape(model.import(ranks), 0), (Shape{Dim::symbol("x_d0"), Dim::symbol("x_d1")}));
  ImportOptions options;
  options.input_shapes["x"] = {2, 3};
  EXPECT_EQ(input_shape(model.import(options), 0), (Shape{2, 3}));
  // Its node takes images only.
  model.graph().mutable_node(0)->set_op_type("GlobalMaxPool");
  EXPECT_EQ(input_shape(model.import(), 0).size(), 4u);
}

TEST(Inputs, ThatAreInitializersAreConstants) {
  ModelBuilder model;
  model.input("x", DType::kFloat32, {2}).input("w", DType::kFloat32, {2});
  model.initializer("w", floats({2}, {10, 20})).node("Add", {"x", "w"}, {"y"}).output("y");
  EXPECT_EQ(model.import().graph.inputs().size(), 1u);
  EXPECT_EQ(model.run({floats({2}, {1, 2})})[0].to_doubles(), (std::vector<double>{11, 22}));
}

TEST(Model, CarriesWhatIsKnownOfIt) {
  auto builder = two_inputs();
  builder.last_node().clear_name();
  const auto model = builder.import();
  EXPECT_EQ(model.node_count, 2u);
  EXPECT_EQ(model.opset, 17);
  EXPECT_EQ(model.producer, "test");
  EXPECT_THAT(model.graph.nodes()[0].origins, testing::ElementsAre("the_Relu"));
  EXPECT_THAT(model.graph.nodes()[1].origins, testing::ElementsAre("Relu_1"));
  EXPECT_EQ(model.graph.output_names(), (std::vector<std::string>{"y", "m"}));
  EXPECT_EQ(two_inputs().import().hash, two_inputs().import().hash);
  EXPECT_NE(model.hash, two_inputs().import().hash);
}

TEST(Model, OutputsMayBeInputsOrConstants) {
  ModelBuilder model;
  model.input("x", DType::kFloat32, {1}).initializer("c", floats({1}, {7}));
  model.node("Relu", {"x"}, {"y"}).output("x").output("c").output("y");
  const auto outputs = model.run({floats({1}, {-1})});
  EXPECT_EQ(outputs[0].at(0), -1);
  EXPECT_EQ(outputs[1].at(0), 7);
  EXPECT_EQ(outputs[2].at(0), 0);
}

TEST(Inputs, MultiplesCountSteps) {
  // Halved and doubled again, which fits an even size only.
  ModelBuilder model;
  model.input("x", DType::kFloat32, {1, 1, "h"});
  model.node("MaxPool", {"x"}, {"p"},
             {attr("kernel_shape", std::vector<std::int64_t>{2}),
              attr("strides", std::vector<std::int64_t>{2}), attr("ceil_mode", 1)});
  model.node("Concat", {"p", "p"}, {"d"}, {attr("axis", 2)});
  model.node("Add", {"d", "x"}, {"y"}).output("y");
  // Which is assumed, and said.
  const ImportedModel assumed = model.import();
  EXPECT_EQ(ir::to_string(assumed.graph.type(assumed.graph.inputs()[0])), "f32[1, 1, 2*h]");
  EXPECT_THAT(assumed.warnings, testing::Contains(HasSubstr("'h' is taken as a multiple of 2")));
  ImportOptions options;
  options.multiples["h"] = 2;
  options.ranges["h"] = {3, 9, nullptr};
  const ir::Graph graph = model.import(options).graph;
  EXPECT_EQ(ir::to_string(graph.type(graph.inputs()[0])), "f32[1, 1, 2*h]");
  EXPECT_EQ(graph.ranges().at("h").min, 2);
  EXPECT_EQ(graph.ranges().at("h").max, 4);
  options.ranges["h"] = {3, 3, nullptr};
  EXPECT_THAT(model.import_error(ErrorCode::kUsage, options),
              testing::HasSubstr("holds no multiple of 2"));
}

TEST(Inputs, EqualDimensionsOfOtherNames) {
  ModelBuilder model;
  model.input("x", DType::kFloat32, {"batch", 2}).input("s", DType::kFloat32, {"", 2});
  model.node("Add", {"x", "s"}, {"y"}).output("y");
  const ImportedModel assumed = model.import();
  EXPECT_EQ(assumed.graph.type(assumed.graph.inputs()[0]),
            assumed.graph.type(assumed.graph.inputs()[1]));
  EXPECT_THAT(assumed.warnings,
              testing::Contains(HasSubstr("'batch' and 's_d0' are taken as equal")));
  ImportOptions options;
  options.same["s_d0"] = ir::Dim::symbol("batch");
  const ir::Graph graph = model.import(options).graph;
  EXPECT_EQ(ir::to_string(graph.type(graph.inputs()[1])), "f32[batch, 2]");
  options.same["s_d0"] = ir::Dim::symbol("none");
  EXPECT_THAT(model.import_error(ErrorCode::kUsage, options), HasSubstr("no dimension 'none'"));
}

TEST(Inputs, DimensionThatCanOnlyBeANumber) {
  ModelBuilder model;
  model.input("x", DType::kFloat32, {"n", 2}).input("s", DType::kFloat32, {3, "size"});
  model.node("Concat", {"x", "s"}, {"y"}, {attr("axis", 0)}).output("y");
  const ImportedModel assumed = model.import();
  EXPECT_EQ(ir::to_string(assumed.graph.type(assumed.graph.inputs()[1])), "f32[3, 2]");
  EXPECT_THAT(assumed.warnings, testing::Contains(HasSubstr("'size' is taken as 2")));
  ImportOptions options;
  options.ranges["size"] = ir::Range{1, 4, nullptr};
  EXPECT_THAT(model.import_error(ErrorCode::kInvalidModel, options), HasSubstr("size"));
}

TEST(Inputs, NoAssumptionMakesDifferentNumbersEqual) {
  ModelBuilder model;
  model.input("x", DType::kFloat32, {"batch", 2}).input("s", DType::kFloat32, {"batch", 3});
  model.node("Add", {"x", "s"}, {"y"}).output("y");
  EXPECT_THAT(model.import_error(ErrorCode::kInvalidModel), HasSubstr("do not broadcast"));
  ModelBuilder longer;
  longer.input("x", DType::kFloat32, {"batch", 2});
  longer.node("Concat", {"x", "x"}, {"d"}, {attr("axis", 0)});
  longer.node("Add", {"d", "x"}, {"y"}).output("y");
  EXPECT_THAT(longer.import_error(ErrorCode::kInvalidModel), HasSubstr("2*batch"));
}

TEST(SupportedOps, ListsVersions) {
  const auto ops = supported_ops();
  const auto softmax = std::count_if(ops.begin(), ops.end(),
                                     [](const SupportedOp& op) { return op.name == "Softmax"; });
  EXPECT_EQ(softmax, 2);
  EXPECT_GT(ops.size(), 100u);
}

/// What an operator of one, two or three inputs of `type` says to them; empty if it takes them.
std::string refusal(const SupportedOp& op, DType type) {
  std::string last;
  for (std::size_t count = 1; count <= 3; ++count) {
    const std::vector<std::int64_t> values = {0, 1};
    OneOp one{op.name, std::vector(count, ir::Tensor::from_ints(type, {2}, values))};
    if (op.name == "Where") one.inputs[0] = bools({2}, values);
    one.opset = std::max(op.since_version, 7);
    if (op.name == "Cast") one.attributes = {attr("to", 1)};
    if (op.name == "BitCast") one.attributes = {attr("to", onnx_type_of(type))};
    if (op.name == "BitShift") one.attributes = {attr("direction", "LEFT")};
    if (op.name == "Mod" && is_float(type)) one.attributes = {attr("fmod", 1)};
    try {
      one.model().import();
      return "";
    } catch (const Error& error) {
      last = error.what();
    }
  }
  return last;
}

TEST(SupportedOps, ElementwiseOperatorsTakeTheTypesThatTheyList) {
  for (const SupportedOp& op : supported_ops()) {
    if (op.family != "elementwise" && op.family != "activations") continue;
    for (const DType type : op.dtypes)
      EXPECT_EQ(refusal(op, type), "") << op.name << " on " << to_string(type);
  }
}

}  // namespace
}  // namespace sinter::frontend
