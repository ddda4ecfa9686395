// SPDX-License-Identifier: Apache-2.0
// Functions and sparse tensors: what is inlined and made dense at import.
#include <algorithm>

#include <onnx.pb.h>

#include "model_parts.h"
#include "tests/frontend/op_test_support.h"

namespace sinter::frontend {
namespace {

using ir::Tensor;
using testing::AllOf;
using testing::HasSubstr;

TEST(Functions, AreInlinedWithTheirAttributes) {
  ModelBuilder model;
  model.input("x", DType::kFloat32, {2});
  auto& leaky = add_function(model, "my", "Leaky", {"a"}, {"c"});
  leaky.add_attribute("slope");
  add_reference(add_node(*leaky.mutable_node(), "LeakyRelu", {"a"}, {"b"}), "alpha", "slope",
                onnx::AttributeProto::FLOAT);
  add_node(*leaky.mutable_node(), "Neg", {"b"}, {"c"});
  model.node("Leaky", {"x"}, {"y"}, {attr("slope", 0.5f)});
  model.last_node().set_domain("my");
  model.node("Leaky", {"y"}, {"z"}, {attr("slope", 0.25f)});
  model.last_node().set_domain("my");
  model.last_node().set_name("again");
  model.output("z");
  // -leaky(x, 0.5) = {1, -2}; then -leaky(.., 0.25) = {-1, 0.5}.
  expect_tensor(model.run({floats({2}, {-2, 2})})[0], {2}, {-1, 0.5});
  const ir::Graph graph = model.import().graph;
  std::vector<std::string> origins;
  for (const auto& node : graph.nodes())
    origins.insert(origins.end(), node.origins.begin(), node.origins.end());
  EXPECT_THAT(origins, testing::Contains("the_Leaky/Neg_1"));
  EXPECT_THAT(origins, testing::Contains("again/Neg_1"));
}

TEST(Functions, NestAndHaveTheirOwnOpset) {
  // Softmax of opset 11 flattens from axis 1: the function says opset 11, the model 17.
  ModelBuilder model(17);
  model.input("x", DType::kFloat32, {1, 2, 2});
  auto& inner = add_function(model, "my", "Inner", {"a"}, {"b"}, 11);
  add_node(*inner.mutable_node(), "Softmax", {"a"}, {"b"});
  auto& outer = add_function(model, "my.other", "Outer", {"x", "left_out"}, {"y"});
  add_node(*outer.mutable_node(), "Inner", {"x"}, {"t"}).set_domain("my");
  // Clip takes its bounds or not, as the function's caller gives them.
  add_node(*outer.mutable_node(), "Clip", {"t", "left_out"}, {"y"});
  model.node("Outer", {"x"}, {"y"}).output("y");
  model.last_node().set_domain("my.other");
  expect_tensor(model.run({floats({1, 2, 2}, {0, 0, 0, 0})})[0], {1, 2, 2},
                {0.25, 0.25, 0.25, 0.25});
}

/// A classifier: scores, and labels that are strings.
ModelBuilder labelled() {
  ModelBuilder model;
  model.input("x", DType::kFloat32, {2});
  model.node("Softmax", {"x"}, {"scores"}).node("LabelEncoder", {"scores"}, {"label"});
  model.node("Identity", {"name"}, {"same"});
  model.output("scores").output("label").output("same");
  auto& name = *model.graph().add_input();
  name.set_name("name");
  name.mutable_type()->mutable_tensor_type()->set_elem_type(onnx::TensorProto::STRING);
  return model;
}

TEST(Model, OutputsThatAreNotSupportedMayBeLeftOut) {
  ImportOptions options;
  options.drop_unsupported_outputs = true;
  const ImportedModel imported = labelled().import(options);
  EXPECT_EQ(imported.graph.output_names(), std::vector<std::string>{"scores"});
  EXPECT_THAT(imported.warnings,
              testing::Contains(AllOf(HasSubstr("outputs 'label', 'same' are left out"),
                                      HasSubstr("'the_LabelEncoder'"))));
  EXPECT_THAT(imported.warnings, testing::Contains(HasSubstr("input 'name' is left out")));
  ModelBuilder without_names;
  without_names.input("x", DType::kFloat32, {2}).node("Softmax", {"x"}, {"scores"});
  without_names.node("LabelEncoder", {"scores"}, {"label"}).output("scores").output("label");
  EXPECT_THAT(without_names.import_error(ErrorCode::kUnsupported),
              HasSubstr("--drop-unsupported-outputs compiles the others: 'scores'"));
}

TEST(Functions, MissingAttributesAndCirclesAreErrors) {
  ModelBuilder model;
  model.input("x", DType::kFloat32, {2});
  auto& leaky = add_function(model, "my", "Leaky", {"a"}, {"b"});
  leaky.add_attribute("slope");
  add_reference(add_node(*leaky.mutable_node(), "LeakyRelu", {"a"}, {"b"}), "alpha", "slope",
                onnx::AttributeProto::FLOAT);
  model.node("Leaky", {"x"}, {"y"}).output("y");
  model.last_node().set_domain("my");
  EXPECT_THAT(model.import_error(ErrorCode::kInvalidModel),
              AllOf(HasSubstr("'the_Leaky'"), HasSubstr("attribute 'slope'")));
  ModelBuilder circle;
  circle.input("x", DType::kFloat32, {2});
  auto& self = add_function(circle, "my", "Self", {"a"}, {"b"});
  add_node(*self.mutable_node(), "Self", {"a"}, {"b"}).set_domain("my");
  circle.node("Self", {"x"}, {"y"}).output("y");
  circle.last_node().set_domain("my");
  EXPECT_THAT(circle.import_error(ErrorCode::kInvalidModel), HasSubstr("calls itself"));
}

TEST(Functions, UnsupportedNodesInsideAreListedWithTheirPath) {
  ModelBuilder model;
  model.input("x", DType::kFloat32, {2});
  auto& function = add_function(model, "my", "Body", {"a"}, {"b"});
  add_node(*function.mutable_node(), "Frobnicate", {"a"}, {"b"});
  model.node("Body", {"x"}, {"y"}).output("y");
  model.last_node().set_domain("my");
  EXPECT_THAT(model.import_error(ErrorCode::kUnsupported),
              HasSubstr("'the_Body/Frobnicate_0' (Frobnicate-17) on (f32[2])"));
}

TEST(Sparse, InitializersBecomeDense) {
  ModelBuilder model;
  model.input("x", DType::kFloat32, {2, 3}).node("Add", {"x", "w"}, {"y"}).output("y");
  *model.graph().add_sparse_initializer() =
      sparse("w", floats({2}, {5, 7}), int64s({2}, {1, 5}), {2, 3});
  expect_tensor(model.run({ramp({2, 3})})[0], {2, 3}, {0, 6, 2, 3, 4, 12});
  *model.graph().mutable_sparse_initializer(0) =
      sparse("w", floats({2}, {5, 7}), int64s({2, 2}, {0, 1, 1, 2}), {2, 3});
  expect_tensor(model.run({ramp({2, 3})})[0], {2, 3}, {0, 6, 2, 3, 4, 12});
}

TEST(Sparse, BadIndicesAndSizesAreErrors) {
  ModelBuilder model;
  model.input("x", DType::kFloat32, {2, 3}).node("Add", {"x", "w"}, {"y"}).output("y");
  auto& proto = *model.graph().add_sparse_initializer();
  proto = sparse("w", floats({1}, {5}), int64s({1}, {6}), {2, 3});
  EXPECT_THAT(model.import_error(ErrorCode::kInvalidModel), HasSubstr("index 6 is outside [2, 3]"));
  proto = sparse("w", floats({1}, {5}), int64s({1, 2}, {0, 3}), {2, 3});
  EXPECT_THAT(model.import_error(ErrorCode::kInvalidModel), HasSubstr("outside dimension 1"));
  proto = sparse("w", floats({1}, {5}), int64s({1}, {0}), {1 << 20, 1 << 20, 1 << 20});
  EXPECT_THAT(model.import_error(ErrorCode::kUnsupported), HasSubstr("store it dense"));
}

}  // namespace
}  // namespace sinter::frontend
