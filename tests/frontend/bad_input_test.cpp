// SPDX-License-Identifier: Apache-2.0
// Models that are broken, hostile or beyond what Sinter does: one clear error each.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <onnx.pb.h>

#include "tests/frontend/op_test_support.h"

namespace sinter::frontend {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::string import_bytes_error(ErrorCode code, const std::string& bytes) {
  return error_of(code, [&] { import_model_bytes(std::as_bytes(std::span(bytes)), ""); });
}

ModelBuilder relu_model(int opset = 17) {
  ModelBuilder model(opset);
  model.input("x", DType::kFloat32, {"n", 3}).node("Relu", {"x"}, {"y"}).output("y");
  return model;
}

TEST(BadFile, CannotBeRead) {
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "none.onnx").string();
  EXPECT_THAT(error_of(ErrorCode::kUsage, [&] { import_model(path); }),
              AllOf(HasSubstr("none.onnx"), HasSubstr("No such file")));
  EXPECT_THAT(error_of(ErrorCode::kUsage, [&] { import_model(folder.path().string()); }),
              HasSubstr("it is a directory"));
}

TEST(BadFile, IsSomethingElse) {
  const auto error = [](const std::string& bytes) {
    return import_bytes_error(ErrorCode::kInvalidModel, bytes);
  };
  EXPECT_THAT(error("PK\x03\x04 and so on"),
              HasSubstr("is not an ONNX model: it is a ZIP archive"));
  EXPECT_THAT(error("{\"model\": 1}"), HasSubstr("it is JSON text"));
  EXPECT_THAT(error("version https://git-lfs.github.com/spec/v1\n"), HasSubstr("git lfs pull"));
  EXPECT_THAT(error("The quick brown fox jumps over the lazy dog."),
              HasSubstr("is not an ONNX model"));
  EXPECT_THAT(error(std::string(100, '\0')), HasSubstr("is not an ONNX model"));
  EXPECT_THAT(error(""), HasSubstr("is empty"));
}

TEST(Bounds, SymbolsOfAModel) {
  ModelBuilder model;
  std::vector<std::string> names;
  for (int i = 0; i < 1025; ++i) {
    names.push_back("x" + std::to_string(i));
    model.input(names.back(), DType::kFloat32, {"n" + std::to_string(i)});
  }
  model.node("Relu", {"x0"}, {"y"}).output("y");
  EXPECT_THAT(model.import_error(ErrorCode::kUnsupported),
              AllOf(HasSubstr("1025 symbolic dimensions"), HasSubstr("--dim")));
}

TEST(Bounds, SymbolsOfADimension) {
  ModelBuilder model;
  std::vector<std::string> names;
  for (int i = 0; i < 300; ++i) {
    names.push_back("x" + std::to_string(i));
    model.input(names.back(), DType::kFloat32, {"n" + std::to_string(i)});
  }
  model.node("Concat", names, {"y"}, {attr("axis", 0)}).output("y");
  EXPECT_THAT(model.import_error(ErrorCode::kUnsupported),
              AllOf(HasSubstr("the_Concat"), HasSubstr("more than 256 symbols")));
}

TEST(Bounds, ThousandsOfTensorsAreConcatenatedInSteps) {
  ModelBuilder model;
  model.input("x", DType::kFloat32, {1});
  model.node("Concat", std::vector<std::string>(2500, "x"), {"y"}, {attr("axis", 0)}).output("y");
  const auto y = model.run({floats({1}, {3})}).at(0);
  EXPECT_EQ(y.shape(), v({2500}));
  EXPECT_EQ(y.at(2499), 3);
}

TEST(Bounds, TablesHaveABudget) {
  ModelBuilder model(18);
  model.input("x", DType::kFloat32, {1, 1, 400000}).ints("sizes", {1, 1, 200000});
  model.node("Resize", {"x", "", "", "sizes"}, {"y"},
             {attr("mode", "linear"), attr("antialias", 1)});
  model.output("y");
  ImportOptions options;
  options.max_memory = 1 << 16;
  EXPECT_THAT(model.import_error(ErrorCode::kOutOfMemory, options),
              AllOf(HasSubstr("the_Resize"), HasSubstr("the antialias filter of dimension 2"),
                    HasSubstr("--max-compile-memory")));
}

/// Beyond the longest table a resize is a formula: here of each second element.
TEST(Bounds, LongResizesAreFormulas) {
  const std::int64_t to = (std::int64_t{1} << 20) + 2;
  ModelBuilder model;
  model.input("x", DType::kFloat32, {static_cast<int>(2 * to)}).ints("sizes", {to});
  model.node("Resize", {"x", "", "", "sizes"}, {"y"},
             {attr("mode", "nearest"), attr("coordinate_transformation_mode", "asymmetric"),
              attr("nearest_mode", "floor")});
  model.output("y");
  const auto y = model.run({ramp({2 * to})}).at(0);
  EXPECT_EQ(y.at(5), 10);
  EXPECT_EQ(y.at(to - 1), static_cast<double>(2 * (to - 1)));
}

TEST(BadFile, TruncatedSaysHowMuchIsMissing) {
  const std::string bytes = relu_model().bytes();
  const std::string message =
      import_bytes_error(ErrorCode::kInvalidModel, bytes.substr(0, bytes.size() / 2));
  EXPECT_THAT(message, HasSubstr("is truncated: it has " + std::to_string(bytes.size() / 2)));
}

/// A model with a bit of everything, so that cuts and flips reach many places.
std::string rich_model() {
  ModelBuilder model;
  model.input("x", DType::kFloat32, {"n", 3}).initializer("w", ramp({3, 4}));
  model.ints("to", {0, -1, 2});
  model.node("MatMul", {"x", "w"}, {"m"})
      .node("Constant", {}, {"c"}, {attr("value", ramp({4}))})
      .node("Add", {"m", "c"}, {"a"})
      .node("Reshape", {"a", "to"}, {"r"})
      .node("Transpose", {"r"}, {"t"}, {attr("perm", std::vector<std::int64_t>{0, 2, 1})})
      .node("LeakyRelu", {"t"}, {"y"}, {attr("alpha", 0.5f)})
      .output("y");
  return model.bytes();
}

TEST(BadFile, TruncationAtEveryByteThrowsOrImports) {
  const std::string bytes = rich_model();
  std::size_t refused = 0;
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const std::string part = bytes.substr(0, size);
    try {
      import_model_bytes(std::as_bytes(std::span(part)), "");
    } catch (const Error& error) {
      EXPECT_NE(error.code(), ErrorCode::kInternal) << size << ": " << error.what();
      ++refused;
    }
  }
  EXPECT_EQ(refused, bytes.size());  // the opset import, written last, is needed
}

TEST(BadFile, AnyByteChangedThrowsOrImports) {
  const std::string bytes = rich_model();
  std::size_t refused = 0;
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    for (const unsigned char flip : {0x01, 0x80, 0xff}) {
      std::string changed = bytes;
      changed[at] = static_cast<char>(static_cast<unsigned char>(changed[at]) ^ flip);
      try {
        import_model_bytes(std::as_bytes(std::span(changed)), "");
      } catch (const Error& error) {
        EXPECT_NE(error.code(), ErrorCode::kInternal) << at << ": " << error.what();
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, bytes.size());
}

TEST(Graph, WithoutNodesGivesItsInputsAndConstants) {
  ModelBuilder model;
  model.input("x", DType::kFloat32, {"n"}).initializer("c", floats({2}, {3, 4}));
  model.output("x").output("c");
  const auto results = model.run({floats({3}, {1, 2, 5})});
  expect_tensor(results[0], {3}, {1, 2, 5});
  expect_tensor(results[1], {2}, {3, 4});
}

TEST(BadGraph, Empty) {
  ModelBuilder no_graph;
  no_graph.model().clear_graph();
  EXPECT_THAT(no_graph.import_error(ErrorCode::kInvalidModel), HasSubstr("has no graph"));
  ModelBuilder no_outputs;
  no_outputs.input("x", DType::kFloat32, {3}).node("Relu", {"x"}, {"y"});
  EXPECT_THAT(no_outputs.import_error(ErrorCode::kInvalidModel), HasSubstr("has no outputs"));
}

TEST(BadGraph, UnknownOpset) {
  EXPECT_THAT(relu_model(99).import_error(ErrorCode::kUnsupported),
              AllOf(HasSubstr("version 99 of the ai.onnx operator set"), HasSubstr("1 to 28")));
  EXPECT_THAT(relu_model(0).import_error(ErrorCode::kUnsupported), HasSubstr("1 to 28"));
  auto none = relu_model();
  none.model().clear_opset_import();
  EXPECT_THAT(none.import_error(ErrorCode::kInvalidModel), HasSubstr("no opset_import"));
  auto two = relu_model();
  two.model().add_opset_import()->set_version(13);
  EXPECT_THAT(two.import_error(ErrorCode::kInvalidModel), HasSubstr("two versions"));
}

TEST(BadGraph, DuplicateNames) {
  auto node_twice = relu_model();
  node_twice.node("Tanh", {"x"}, {"y"});
  EXPECT_THAT(node_twice.import_error(ErrorCode::kInvalidModel),
              AllOf(HasSubstr("value 'y' is defined twice"), HasSubstr("'the_Relu'"),
                    HasSubstr("'the_Tanh'")));
  auto over_input = relu_model();
  over_input.node("Tanh", {"y"}, {"x"});
  EXPECT_THAT(over_input.import_error(ErrorCode::kInvalidModel),
              HasSubstr("value 'x' is defined twice: by a graph input"));
  auto two_inputs = relu_model();
  two_inputs.input("x", DType::kFloat32, {3});
  EXPECT_THAT(two_inputs.import_error(ErrorCode::kInvalidModel), HasSubstr("two graph inputs"));
  auto two_initializers = relu_model();
  two_initializers.ints("i", {1}).ints("i", {2});
  EXPECT_THAT(two_initializers.import_error(ErrorCode::kInvalidModel),
              HasSubstr("two initializers are named 'i'"));
  auto two_outputs = relu_model();
  two_outputs.output("y");
  EXPECT_THAT(two_outputs.import_error(ErrorCode::kInvalidModel), HasSubstr("two graph outputs"));
}

TEST(BadGraph, CyclesNameTheirNodes) {
  ModelBuilder model;
  model.input("x", DType::kFloat32, {3});
  model.node("Relu", {"x"}, {"a"})
      .node("Add", {"a", "d"}, {"b"})
      .node("Tanh", {"b"}, {"c"})
      .node("Exp", {"c"}, {"d"})
      .node("Neg", {"d"}, {"y"})
      .output("y");
  const std::string message = model.import_error(ErrorCode::kInvalidModel);
  EXPECT_THAT(message, AllOf(HasSubstr("the graph has a cycle"), HasSubstr("'the_Add' -> "),
                             HasSubstr("'the_Tanh' -> 'the_Exp'"), Not(HasSubstr("the_Neg")),
                             Not(HasSubstr("the_Relu"))));
  ModelBuilder itself;
  itself.node("Relu", {"y"}, {"y"}).output("y");
  EXPECT_THAT(itself.import_error(ErrorCode::kInvalidModel),
              HasSubstr("cycle: 'the_Relu' -> 'the_Relu'"));
}

TEST(BadGraph, UnsortedNodesAreSorted) {
  ModelBuilder model;
  model.input("x", DType::kFloat32, {1});
  model.node("Neg", {"a"}, {"y"}).node("Exp", {"x"}, {"a"}).output("y");
  const auto imported = model.import();
  ASSERT_EQ(imported.warnings.size(), 1u);
  EXPECT_THAT(imported.warnings[0], HasSubstr("not in topological order"));
  expect_tensor(model.run({floats({1}, {0})})[0], {1}, {-1});
}

TEST(BadGraph, UndefinedNames) {
  auto model = relu_model();
  model.node("Add", {"y", "ghost"}, {"z"});
  EXPECT_THAT(model.import_error(ErrorCode::kInvalidModel),
              AllOf(HasSubstr("node 'the_Add' (Add) reads 'ghost'")));
  auto output = relu_model();
  output.output("ghost");
  EXPECT_THAT(output.import_error(ErrorCode::kInvalidModel), HasSubstr("returns 'ghost'"));
}

TEST(BadGraph, AllUnsupportedNodesAreListedAtOnce) {
  ModelBuilder model;
  model.input("x", DType::kFloat32, {"batch", 2048});
  model.node("SplitToSequence", {"x"}, {"a"})
      .node("Relu", {"a"}, {"b"})  // is supported, but its input's shape is not known
      .node("Multinomial", {"b"}, {"c"})
      .node("Gelu", {"x"}, {"d"})
      .node("Frobnicate", {"x"}, {"y"})
      .output("y");
  model.last_node().set_domain("com.example");
  model.last_node().clear_name();
  auto* import = model.model().add_opset_import();
  import->set_domain("com.example");
  import->set_version(3);
  const std::string message = model.import_error(ErrorCode::kUnsupported);
  EXPECT_THAT(message, HasSubstr("4 of the model's 5 nodes are not supported"));
  EXPECT_THAT(message,
              HasSubstr("'the_SplitToSequence' (SplitToSequence-17) on (f32[batch, 2048]): "
                        "the operator is not known"));
  EXPECT_THAT(message, HasSubstr("'the_Multinomial' (Multinomial-17) on (?)"));
  EXPECT_THAT(message, HasSubstr("'the_Gelu' (Gelu-17) on (f32[batch, 2048]): the operator does "
                                 "not exist in opset 17"));
  EXPECT_THAT(message, HasSubstr("'Frobnicate_4' (com.example::Frobnicate-3)"));
  EXPECT_THAT(message, Not(HasSubstr("Relu")));
}

TEST(BadGraph, EachUnsupportedNodeHasAWayOut) {
  ModelBuilder model(18);
  model.input("x", DType::kFloat32, {"n", 4}).input("b", DType::kBool, {}).ints("two", {2});
  model.node("Bernoulli", {"x"}, {"a"})
      .node("SplitToSequence", {"x"}, {"c"})
      .node("RandomNormalLike", {"x"}, {"d"})
      .node("Magic", {"x", "two"}, {"e"})
      .output("a");
  for (const char* output : {"c", "d", "e"}) model.output(output);
  model.graph().mutable_node(3)->set_domain("com.example");
  const std::string message = model.import_error(ErrorCode::kUnsupported);
  EXPECT_THAT(message, HasSubstr("4 of the model's 4 nodes are not supported"));
  // Each with its name, operator, opset, shapes, and what to do.
  EXPECT_THAT(message, HasSubstr("'the_Bernoulli' (Bernoulli-18) on (f32[n, 4]): "));
  EXPECT_THAT(message, HasSubstr("'the_SplitToSequence' (SplitToSequence-18) on (f32[n, 4]): "));
  EXPECT_THAT(message, HasSubstr("export the model with tensors only"));
  EXPECT_THAT(message, HasSubstr("'the_RandomNormalLike' (RandomNormalLike-18) on (f32[n, 4]): "));
  EXPECT_THAT(message, HasSubstr("pass random numbers in as an input"));
  EXPECT_THAT(message, HasSubstr("'the_Magic' (com.example::Magic-1) on (f32[n, 4], i64[1]): "));
  EXPECT_THAT(message, HasSubstr("give it a body as a function of the model"));
}

TEST(BadGraph, UnsupportedFormsOfSupportedOperatorsAreListedToo) {
  ModelBuilder model;
  model.input("x", DType::kFloat32, {2, 4}).initializer("v", ramp({4}));
  model.initializer("yes", bools({}, {1}));
  model.node("BatchNormalization", {"x", "v", "v", "v", "v"}, {"y", "mean"})
      .node("Dropout", {"x", "", "yes"}, {"z"})
      .output("y")
      .output("mean")
      .output("z");
  const std::string message = model.import_error(ErrorCode::kUnsupported);
  EXPECT_THAT(message, AllOf(HasSubstr("its output 1 (mean) is used"),
                             HasSubstr("training_mode is true; only inference is supported")));
}

TEST(BadGraph, ShapeMismatchNamesNodeAndShapes) {
  ModelBuilder model;
  model.input("x", DType::kFloat32, {"batch", 3}).initializer("w", ramp({4, 5}));
  model.node("MatMul", {"x", "w"}, {"y"}).output("y");
  EXPECT_THAT(model.import_error(ErrorCode::kInvalidModel),
              AllOf(HasSubstr("importing node 'the_MatMul' (MatMul-17): "), HasSubstr("[batch, 3]"),
                    HasSubstr("[4, 5]")));
}

TEST(BadGraph, TypeMismatch) {
  ModelBuilder model;
  model.input("x", DType::kFloat32, {3}).input("i", DType::kInt64, {3});
  model.node("Add", {"x", "i"}, {"y"}).output("y");
  EXPECT_THAT(model.import_error(ErrorCode::kInvalidModel),
              AllOf(HasSubstr("'the_Add' (Add-17)"), HasSubstr("f32[3]"), HasSubstr("i64[3]")));
  auto declared = relu_model();
  declared.graph().mutable_output(0)->mutable_type()->mutable_tensor_type()->set_elem_type(7);
  EXPECT_THAT(
      declared.import_error(ErrorCode::kInvalidModel),
      AllOf(HasSubstr("output 'y' is declared with element type INT64"), HasSubstr("f32[n, 3]")));
}

TEST(BadGraph, Attributes) {
  const auto error = [](const OneOp& op) {
    return op.model().import_error(ErrorCode::kInvalidModel);
  };
  EXPECT_THAT(error({"Transpose", {ramp({2, 3})}, {attr("perm", std::vector<std::int64_t>{0, 0})}}),
              HasSubstr("perm [0, 0] is not a permutation"));
  EXPECT_THAT(error({"Softmax", {ramp({2, 3})}, {attr("axis", 2)}}),
              HasSubstr("axis 2 is out of range for 2 dimensions"));
  EXPECT_THAT(error({"Softmax", {ramp({2, 3})}, {attr("axis", "two")}}),
              HasSubstr("attribute 'axis' must have type INT, but has type STRING"));
  EXPECT_THAT(error({"Concat", {ramp({2, 3})}}), HasSubstr("attribute 'axis' is missing"));
  EXPECT_THAT(error({"LpNormalization", {ramp({2, 3})}, {attr("p", 3)}}),
              HasSubstr("attribute 'p' must be 1 or 2, but is 3"));
  EXPECT_THAT(error({"RNN",
                     {ramp({2, 1, 2}), ramp({1, 3, 2}), ramp({1, 3, 3})},
                     {attr("hidden_size", 3), attr("clip", -1.0F)}}),
              HasSubstr("attribute 'clip' is -1"));
  EXPECT_THAT(error({"Cast", {ramp({2})}, {attr("to", 0)}}), HasSubstr("no element type"));
}

TEST(BadGraph, Inputs) {
  const auto error = [](const OneOp& op) {
    return op.model().import_error(ErrorCode::kInvalidModel);
  };
  EXPECT_THAT(error({"Add", {ramp({2})}}), HasSubstr("input 1 (B) is missing"));
  EXPECT_THAT(error({"Reshape", {ramp({4}), int64s({2}, {3, -1})}, {}, 17, {1}}),
              HasSubstr("f32[4] cannot be reshaped to [3, -1]"));
  EXPECT_THAT(error({"Reshape", {ramp({4}), int64s({2}, {3, 2})}, {}, 17, {1}}),
              AllOf(HasSubstr("'the_Reshape' (Reshape-17)"), HasSubstr("[3, 2]")));
  EXPECT_THAT(error({"Squeeze", {ramp({2, 3}), int64s({1}, {0})}, {}, 17, {1}}),
              HasSubstr("only dimensions of 1 can be squeezed"));
  const ir::Tensor zeros = ir::Tensor::from_ints(DType::kUInt8, {1}, std::vector<std::int64_t>{0});
  EXPECT_THAT(error({"QuantizeLinear", {ramp({2}), ramp({1}), zeros, ramp({1})}}),
              HasSubstr("it has 4 inputs"));
  EXPECT_THAT(error({"Split", {ramp({5})}, {}, 13, {}, 2}),
              HasSubstr("5 cannot be split into 2 equal parts"));
  EXPECT_THAT(error({"Conv",
                     {ramp({1, 1, 4}), ramp({1, 1, 2})},
                     {attr("strides", std::vector<std::int64_t>{0})}}),
              HasSubstr("attribute 'strides' has the value 0"));
}

TEST(BadTensor, SizesThatOverflow) {
  ModelBuilder model = relu_model();
  auto* tensor = model.graph().add_initializer();
  tensor->set_name("huge");
  tensor->set_data_type(1);
  tensor->add_dims(std::int64_t{1} << 40);
  tensor->add_dims(std::int64_t{1} << 40);
  EXPECT_THAT(model.import_error(ErrorCode::kInvalidModel),
              AllOf(HasSubstr("tensor 'huge'"), HasSubstr("overflows")));
  tensor->set_dims(1, -1);
  EXPECT_THAT(model.import_error(ErrorCode::kInvalidModel), HasSubstr("negative dimension"));
  tensor->set_dims(0, 4);
  tensor->set_dims(1, 4);
  tensor->set_raw_data("12345678");
  EXPECT_THAT(model.import_error(ErrorCode::kInvalidModel),
              HasSubstr("it has 8 bytes of data, but f32[4, 4] needs 64"));
  tensor->clear_raw_data();
  tensor->add_float_data(1);
  EXPECT_THAT(model.import_error(ErrorCode::kInvalidModel),
              HasSubstr("it has 1 elements of data, but f32[4, 4] needs 16"));
}

TEST(BadTensor, DimensionsWhoseProductOverflows) {
  ModelBuilder model;
  model.input("x", DType::kFloat32, {2000000000, 2000000000, 2000000000});
  model.node("Flatten", {"x"}, {"y"}, {attr("axis", 0)}).output("y");
  EXPECT_THAT(model.import_error(ErrorCode::kUnsupported), HasSubstr("cannot be addressed"));
}

TEST(BadTensor, ElementTypesThatSinterLacks) {
  auto model = relu_model();
  auto* tensor = model.graph().add_initializer();
  tensor->set_name("u2");
  tensor->set_data_type(25);  // newer than the generated classes
  tensor->add_dims(1);
  tensor->set_raw_data("x");
  EXPECT_NO_THROW(model.import());  // nothing uses it
  model.node("Cast", {"u2"}, {"z"}, {attr("to", 1)}).output("z");
  EXPECT_THAT(
      model.import_error(ErrorCode::kUnsupported),
      AllOf(HasSubstr("'the_Cast' (Cast-17)"), HasSubstr("input 'u2' has element type UINT2")));
  ModelBuilder complex;
  complex.input("s", DType::kFloat32, {1}).node("Identity", {"s"}, {"y"}).output("y");
  complex.graph().mutable_input(0)->mutable_type()->mutable_tensor_type()->set_elem_type(14);
  EXPECT_THAT(complex.import_error(ErrorCode::kUnsupported),
              HasSubstr("input 's' has element type COMPLEX64"));
}

TEST(BadGraph, DeepNestingIsRefused) {
  // An attribute's graph in an attribute's graph and so on: a stack overflow, were it followed.
  onnx::GraphProto graph;
  for (int depth = 0; depth < 300; ++depth) {
    onnx::GraphProto outer;
    outer.add_node()->add_attribute()->mutable_g()->Swap(&graph);
    graph.Swap(&outer);
  }
  auto model = relu_model();
  model.graph().add_node()->add_attribute()->mutable_g()->Swap(&graph);
  EXPECT_THAT(model.import_error(ErrorCode::kInvalidModel), HasSubstr("nests deeper than 100"));
}

TEST(BadGraph, LongChainsDoNotOverflowTheStack) {
  ModelBuilder model;
  model.ints("c0", {1}).input("x", DType::kInt64, {1});
  constexpr int kLength = 20000;
  for (int i = 0; i < kLength; ++i)
    model.node("Neg", {"c" + std::to_string(i)}, {"c" + std::to_string(i + 1)});
  model.node("Add", {"x", "c" + std::to_string(kLength)}, {"y"}).output("y");
  expect_tensor(model.run({int64s({1}, {5})})[0], {1}, {6});
}

TEST(BadGraph, SizesThatGrowWithoutEndAreData) {
  ModelBuilder model;
  model.input("x", DType::kFloat32, {"n"}).node("Shape", {"x"}, {"s0"});
  for (int i = 0; i < 40; ++i) {
    const std::string from = "s" + std::to_string(i);
    model.node("Mul", {from, from}, {"s" + std::to_string(i + 1)});
  }
  model.output("s40");
  expect_tensor(model.run({ramp({1})})[0], {1}, {1});

  ModelBuilder nested;
  nested.input("x", DType::kFloat32, {"n"}).input("z", DType::kFloat32, {"m"});
  nested.node("Shape", {"x"}, {"s0"}).node("Shape", {"z"}, {"m"});
  for (int i = 0; i < 1000; ++i)
    nested.node("Mod", {"s" + std::to_string(i), "m"}, {"t" + std::to_string(i)})
        .node("Add", {"t" + std::to_string(i), "m"}, {"s" + std::to_string(i + 1)});
  nested.output("s1000");
  expect_tensor(nested.run({ramp({3}), ramp({2})})[0], {1}, {3});
}

}  // namespace
}  // namespace sinter::frontend
