// SPDX-License-Identifier: Apache-2.0
// What ONNX Runtime takes although the opset does not: one warning that says what is assumed, an
// error with ImportOptions::strict.
#include "ir/reference/evaluate.h"
#include "tests/frontend/op_test_support.h"

namespace sinter::frontend {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

/// Imports with exactly one warning, which says `what`; with strict it is the error.
ImportedModel assumed(const OneOp& one, const std::string& what) {
  const ModelBuilder model = one.model();
  ImportedModel imported = model.import();
  EXPECT_THAT(imported.warnings, ElementsAre(HasSubstr(what)));
  ImportOptions options;
  options.strict = true;
  EXPECT_THAT(model.import_error(ErrorCode::kInvalidModel, options),
              testing::AllOf(HasSubstr(what), HasSubstr("--strict")));
  return imported;
}

TEST(Leniency, EmptyAutoPadIsNotSet) {
  const ir::Tensor x = ramp({1, 1, 3, 3});
  const auto imported = assumed(
      {"AveragePool", {x}, {attr("kernel_shape", v({2, 2})), attr("auto_pad", "")}}, "NOTSET");
  expect_tensor(ir::evaluate(imported.graph, std::vector{x})[0], {1, 1, 2, 2}, {2, 3, 5, 6});
}

TEST(Leniency, AttributesThatOnnxRuntimeIgnoresSayTheDefault) {
  assumed({"LayerNormalization", {ramp({2, 4}), ramp({4})}, {attr("epsion", 0.5F)}},
          "'epsion' is not known, and is ignored: 'epsilon' is 1e-05, its default");
  // Both given: the known one counts, and the other is no slip of it.
  const OneOp both{"LayerNormalization",
                   {ramp({2, 4}), ramp({4})},
                   {attr("epsion", 0.5F), attr("epsilon", 0.5F)}};
  EXPECT_THAT(both.model().import_error(ErrorCode::kInvalidModel), HasSubstr("'epsion'"));
}

TEST(Leniency, ScalarBoundsOfSlicesAreVectorsOfOne) {
  const ir::Tensor x = ramp({5});
  const ModelBuilder model =
      OneOp{"Slice", {x, int64s({}, {1}), int64s({}, {3})}, {}, 17, {1, 2}}.model();
  EXPECT_THAT(model.import().warnings,
              testing::UnorderedElementsAre(HasSubstr("(starts) is a scalar"),
                                            HasSubstr("(ends) is a scalar")));
  expect_tensor(model.run({x})[0], {2}, {1, 2});
}

TEST(Leniency, ConditionsOfCompressAreFlat) {
  const ir::Tensor x = ramp({2, 3}), condition = bools({2, 3}, {0, 1, 1, 0, 0, 1});
  const auto imported = assumed({"Compress", {x, condition}}, "is no vector, and is taken flat");
  const auto found = ir::evaluate(imported.graph, std::vector{x, condition})[0];
  expect_tensor(found, {3}, {1, 2, 5});
}

TEST(Leniency, OldNearestNeighboursAreTakenInNewOpsets) {
  assumed({"Resize",
           {ramp({1, 1, 2, 2}), floats({0}, {}), floats({4}, {1, 1, 2, 2})},
           {attr("coordinate_transformation_mode", "tf_half_pixel_for_nn"), attr("mode", "nearest"),
            attr("nearest_mode", "floor")},
           13,
           {1, 2}},
          "is of opsets 11 and 12");
}

TEST(Leniency, BoundsOfClipMayBeOfElements) {
  const ir::Tensor x = ramp({2, 3});
  const auto imported = assumed({"Clip", {x, floats({3}, {1, 1, 4})}, {}, 17, {1}}, "no scalar");
  expect_tensor(ir::evaluate(imported.graph, std::vector{x})[0], {2, 3}, {1, 1, 4, 3, 4, 5});
}

TEST(Leniency, ModOfFloatsHasTheSignOfTheDivisor) {
  const ir::Tensor a = floats({2}, {-7.5, 7.5}), b = floats({2}, {3, -3});
  const auto imported = assumed({"Mod", {a, b}, {}, 13}, "'fmod' is 0");
  expect_tensor(ir::evaluate(imported.graph, std::vector{a, b})[0], {2}, {1.5, -1.5});
}

TEST(Leniency, BranchesOfAnotherRankLoseTheirOnes) {
  ModelBuilder model;
  model.input("x", DType::kFloat32, {2, 3}).input("c", DType::kBool, {1});
  model.node("Not", {"c"}, {"d"}).node("Not", {"d"}, {"e"});
  onnx::NodeProto& node = *model.graph().add_node();
  node.set_op_type("If");
  node.set_name("the_If");
  node.add_input("e");
  node.add_output("y");
  const auto branch = [&](const char* name, const char* op, std::int64_t axis) {
    auto* attribute = node.add_attribute();
    attribute->set_name(name);
    attribute->set_type(onnx::AttributeProto::GRAPH);
    auto& graph = *attribute->mutable_g();
    auto& axes = *graph.add_initializer();
    axes.set_name("axes");
    axes.set_data_type(7);
    axes.add_dims(1);
    axes.add_int64_data(axis);
    auto& one = *graph.add_node();
    one.set_op_type(op);
    one.add_input("x");
    if (std::string(op) == "Unsqueeze") one.add_input("axes");
    one.add_output("out");
    graph.add_output()->set_name("out");
  };
  branch("then_branch", "Unsqueeze", 1);
  branch("else_branch", "Neg", 0);
  model.output("y");
  const ImportedModel imported = model.import();
  EXPECT_THAT(imported.warnings, Contains(HasSubstr("the first is taken as")));
  const ir::Tensor x = ramp({2, 3});
  for (const std::int64_t yes : {0, 1})
    expect_tensor(ir::evaluate(imported.graph, std::vector{x, bools({1}, {yes})})[0], {2, 3},
                  yes == 1 ? std::vector<double>{0, 1, 2, 3, 4, 5}
                           : std::vector<double>{0, -1, -2, -3, -4, -5});
}

TEST(Metadata, RangesAndNotesOfThePythonPackageAreRead) {
  ModelBuilder model;
  model.input("x", DType::kFloat32, {"batch", "seq"}).node("Relu", {"x"}, {"y"}).output("y");
  const auto tell = [&](const char* key, const char* value) {
    auto* entry = model.model().add_metadata_props();
    entry->set_key(key);
    entry->set_value(value);
  };
  tell("sinter.range.batch", "2..8");
  tell("sinter.range.seq", "..512");
  tell("sinter.note.0", "dimension 1 is fixed");
  tell("sinter.range.none", "nonsense");
  const ImportedModel imported = model.import();
  EXPECT_THAT(imported.warnings, ElementsAre("dimension 1 is fixed"));
  const auto& ranges = imported.graph.ranges();
  EXPECT_EQ(ranges.at("batch").min, 2);
  EXPECT_EQ(ranges.at("batch").max, 8);
  EXPECT_EQ(ranges.at("seq").min, 1);
  EXPECT_EQ(ranges.at("seq").max, 512);
  ImportOptions options;
  options.ranges["batch"] = {1, 100, nullptr};
  EXPECT_EQ(model.import(options).graph.ranges().at("batch").max, 100);
}

}  // namespace
}  // namespace sinter::frontend
