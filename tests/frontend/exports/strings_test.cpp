// SPDX-License-Identifier: Apache-2.0
// Strings at the border: inputs that are compared or hashed, labels of classifiers, ZipMap.
#include "ir/reference/evaluate.h"
#include "tests/frontend/op_test_support.h"

namespace sinter::frontend {
namespace {

using ir::Tensor;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using Code = BindingText::Code;
using Longs = std::vector<std::int64_t>;

void make_text(ModelBuilder& model, int input) {
  model.graph().mutable_input(input)->mutable_type()->mutable_tensor_type()->set_elem_type(8);
}

ModelBuilder text_model(int rows = 3) {
  ModelBuilder model;
  model.input("s", DType::kInt64, {rows, 1});
  make_text(model, 0);
  auto* ml = model.model().add_opset_import();
  ml->set_domain("ai.onnx.ml");
  ml->set_version(2);
  return model;
}

void give_strings(ModelBuilder& model, const std::string& name,
                  const std::vector<std::string>& values) {
  auto* attribute = model.last_node().add_attribute();
  attribute->set_name(name);
  attribute->set_type(onnx::AttributeProto::STRINGS);
  for (const std::string& value : values) attribute->add_strings(value);
}

void add_string_constant(ModelBuilder& model, const std::string& name,
                         const std::vector<std::string>& values) {
  auto& tensor = *model.graph().add_initializer();
  tensor.set_name(name);
  tensor.set_data_type(8);
  tensor.add_dims(static_cast<std::int64_t>(values.size()));
  for (const std::string& value : values) tensor.add_string_data(value);
}

Tensor codes(const Longs& values) {
  return Tensor::from_ints(DType::kInt64, {std::ssize(values), 1}, values);
}

TEST(Strings, OneHotEncoderFindsThemByTheirPlaceInTheModelsList) {
  ModelBuilder model = text_model();
  model.node("OneHotEncoder", {"s"}, {"y"}, {attr("zeros", 1)}).output("y");
  model.last_node().set_domain("ai.onnx.ml");
  give_strings(model, "cats_strings", {"red", "green"});
  const ImportedModel imported = model.import();
  const BindingText& text = imported.input_texts.at("s");
  EXPECT_EQ(text.code, Code::kLabels);
  EXPECT_THAT(text.labels, ElementsAre("red", "green"));
  EXPECT_TRUE(imported.output_texts.empty());
  // Unknown strings are -1.
  expect_tensor(ir::evaluate(imported.graph, std::vector{codes({1, -1, 0})})[0], {3, 1, 2},
                {0, 1, 0, 0, 1, 0});
}

TEST(Strings, LabelEncoderMapsThemToNumbersAndToStrings) {
  ModelBuilder model = text_model();
  model.node("LabelEncoder", {"s"}, {"n"}, {attr("default_int64", -7)}).output("n");
  model.last_node().set_domain("ai.onnx.ml");
  give_strings(model, "keys_strings", {"b", "a"});
  auto* values = model.last_node().add_attribute();
  values->set_name("values_int64s");
  values->set_type(onnx::AttributeProto::INTS);
  values->add_ints(20);
  values->add_ints(10);
  model.node("LabelEncoder", {"s"}, {"t"}, {attr("default_string", "other")}).output("t");
  model.last_node().set_domain("ai.onnx.ml");
  give_strings(model, "keys_strings", {"a"});
  give_strings(model, "values_strings", {"first"});
  const ImportedModel imported = model.import();
  EXPECT_THAT(imported.input_texts.at("s").labels,
              ElementsAre("b", "a", "_Unused", "other", "first"));
  EXPECT_EQ(imported.output_texts.at("t").labels, imported.input_texts.at("s").labels);
  EXPECT_EQ(imported.output_texts.count("n"), 0U);
  const auto results = ir::evaluate(imported.graph, std::vector{codes({0, 1, -1})});
  EXPECT_EQ(results[0].to_ints(), (Longs{20, 10, -7}));
  EXPECT_EQ(results[1].to_ints(), (Longs{3, 4, 3}));
}

TEST(Strings, AreComparedWithConstantsAndReplaced) {
  // An imputer: empty strings become the most frequent one.
  ModelBuilder model = text_model();
  add_string_constant(model, "missing", {""});
  add_string_constant(model, "rome", {"Rome"});
  model.node("Equal", {"s", "missing"}, {"is"}).node("Where", {"is", "rome", "s"}, {"y"});
  model.output("y").output("is");
  const ImportedModel imported = model.import();
  EXPECT_THAT(imported.output_texts.at("y").labels, ElementsAre("", "Rome"));
  const auto results = ir::evaluate(imported.graph, std::vector{codes({0, 1, -1})});
  EXPECT_EQ(results[0].to_ints(), (Longs{1, 1, -1}));
  EXPECT_EQ(results[1].to_ints(), (Longs{1, 0, 0}));
}

TEST(Strings, OfTwoInputsAreNotCompared) {
  ModelBuilder model = text_model();
  model.input("t", DType::kInt64, {3, 1});
  make_text(model, 1);
  model.node("Equal", {"s", "t"}, {"y"}).output("y");
  EXPECT_THAT(model.import_error(ErrorCode::kUnsupported),
              HasSubstr("strings of inputs with each other"));
}

TEST(Strings, AreRefusedByNameWhereAnOperatorComputes) {
  ModelBuilder model = text_model();
  model.node("Add", {"s", "s"}, {"y"}).output("y");
  EXPECT_THAT(model.import_error(ErrorCode::kUnsupported),
              HasSubstr("input 's' holds strings, for which integers stand here, and Add"));
  ModelBuilder joined = text_model();
  joined.input("n", DType::kInt64, {3, 1});
  joined.node("Concat", {"s", "n"}, {"y"}, {attr("axis", 1)}).output("y");
  EXPECT_THAT(joined.import_error(ErrorCode::kInvalidModel),
              HasSubstr("concatenates strings and numbers"));
}

TEST(Strings, AreHashedBeforeTheModelRuns) {
  ModelBuilder model = text_model();
  model.ints("flat", {-1}).node("Reshape", {"s", "flat"}, {"r"});
  model.node("MurmurHash3", {"r"}, {"y"}, {attr("seed", 5), attr("positive", 0)}).output("y");
  model.last_node().set_domain("com.microsoft");
  auto* domain = model.model().add_opset_import();
  domain->set_domain("com.microsoft");
  domain->set_version(1);
  const ImportedModel imported = model.import();
  EXPECT_EQ(imported.input_texts.at("s").code, Code::kMurmur3);
  EXPECT_EQ(imported.input_texts.at("s").hash_seed, 5U);
  EXPECT_EQ(imported.graph.type(imported.graph.inputs()[0]).dtype, DType::kInt32);
  // Also compared: an input is either.
  model.node("OneHotEncoder", {"s"}, {"z"}).output("z");
  model.last_node().set_domain("ai.onnx.ml");
  give_strings(model, "cats_strings", {"a"});
  EXPECT_THAT(model.import_error(ErrorCode::kInvalidModel), HasSubstr("X holds hashes of strings"));
}

TEST(ZipMap, IsTheTensorWithNamesOfItsColumns) {
  for (const bool strings : {false, true}) {
    ModelBuilder model = text_model();
    model.input("x", DType::kFloat32, {2, 2}).node("ZipMap", {"x"}, {"y"}).output("y");
    model.last_node().set_domain("ai.onnx.ml");
    if (strings) {
      give_strings(model, "classlabels_strings", {"no", "yes"});
    } else {
      auto* ints = model.last_node().add_attribute();
      ints->set_name("classlabels_int64s");
      ints->set_type(onnx::AttributeProto::INTS);
      ints->add_ints(3);
      ints->add_ints(8);
    }
    auto* sequence = model.graph().mutable_output(0)->mutable_type()->mutable_sequence_type();
    sequence->mutable_elem_type()->mutable_map_type()->set_key_type(strings ? 8 : 7);
    model.graph().mutable_input()->DeleteSubrange(0, 1);
    const ImportedModel imported = model.import();
    EXPECT_EQ(imported.output_texts.at("y").code, Code::kColumns);
    EXPECT_EQ(imported.output_texts.at("y").labels, strings
                                                        ? std::vector<std::string>({"no", "yes"})
                                                        : std::vector<std::string>({"3", "8"}));
    EXPECT_THAT(imported.warnings, Contains(HasSubstr("not a sequence of maps")));
    const Tensor x = floats({2, 2}, {1, 2, 3, 4});
    expect_tensor(ir::evaluate(imported.graph, std::vector{x})[0], {2, 2}, {1, 2, 3, 4});
  }
}

/// A body that answers the string constant `name`.
void answer(onnx::GraphProto& body, const std::string& name) {
  auto& node = *body.add_node();
  node.set_op_type("Identity");
  node.add_input(name);
  node.add_output(name + "_out");
  body.add_output()->set_name(name + "_out");
}

ModelBuilder conditional(const std::string& other) {
  ModelBuilder model = text_model();
  model.input("cond", DType::kBool, {});
  add_string_constant(model, "a", {"red", "green"});
  add_string_constant(model, "b", {"blue", "red"});
  model.initializer("n", Tensor::from_ints(DType::kInt64, {2}, Longs{4, 5}));
  model.node("If", {"cond"}, {"y"}).output("y");
  for (const auto& [name, branch] :
       {std::pair{"then_branch", std::string("a")}, std::pair{"else_branch", other}}) {
    auto* attribute = model.last_node().add_attribute();
    attribute->set_name(name);
    attribute->set_type(onnx::AttributeProto::GRAPH);
    attribute->mutable_g()->set_name(name);
    answer(*attribute->mutable_g(), branch);
  }
  return model;
}

TEST(Strings, BranchesAnswerThem) {
  const ImportedModel imported = conditional("b").import();
  const BindingText& text = imported.output_texts.at("y");
  const auto run = [&](bool condition) {
    std::vector<Tensor> inputs = {codes({0, 0, 0}),
                                  Tensor::from_ints(DType::kBool, {}, Longs{condition})};
    std::vector<std::string> found;
    const Tensor y = ir::evaluate(imported.graph, inputs)[0];
    for (std::int64_t i = 0; i < y.element_count(); ++i)
      found.push_back(text.labels[static_cast<std::size_t>(y.at(i))]);
    return found;
  };
  EXPECT_THAT(run(true), ElementsAre("red", "green"));
  EXPECT_THAT(run(false), ElementsAre("blue", "red"));
}

TEST(Strings, BranchesOfStringsAndNumbersAreRefused) {
  EXPECT_THAT(conditional("n").import_error(ErrorCode::kUnsupported),
              HasSubstr("strings of different lists, or numbers"));
}

TEST(Strings, LoopsCarryThem) {
  ModelBuilder model = text_model();
  add_string_constant(model, "a", {"red", "green"});
  model.initializer("trips", Tensor::from_ints(DType::kInt64, {}, Longs{3}));
  model.node("Loop", {"trips", "", "a"}, {"y"}).output("y");
  auto* attribute = model.last_node().add_attribute();
  attribute->set_name("body");
  attribute->set_type(onnx::AttributeProto::GRAPH);
  auto& body = *attribute->mutable_g();
  body.set_name("body");
  for (const char* name : {"i", "go", "carried"}) body.add_input()->set_name(name);
  answer(body, "go");
  answer(body, "carried");
  const ImportedModel imported = model.import();
  EXPECT_THAT(imported.output_texts.at("y").labels, ElementsAre("red", "green"));
}

}  // namespace
}  // namespace sinter::frontend
