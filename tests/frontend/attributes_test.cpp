// SPDX-License-Identifier: Apache-2.0
// Attributes that an operator does not have, and operators of versions that are not known: errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <onnx.pb.h>

#include "frontend/ops/table/op_table.h"
#include "tests/frontend/op_test_support.h"

namespace sinter::frontend {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

std::string refused_attribute(const OneOp& one) {
  return one.model().import_error(ErrorCode::kInvalidModel);
}

TEST(Attributes, SlipsAreErrorsThatNameTheNearest) {
  EXPECT_THAT(refused_attribute(
                  {"Conv", {ramp({1, 1, 4, 4}), ramp({1, 1, 2, 2})}, {attr("stride", v({2, 2}))}}),
              AllOf(HasSubstr("'the_Conv' (Conv-17)"), HasSubstr("attribute 'stride' is not known"),
                    HasSubstr("did you mean 'strides'?"),
                    HasSubstr("known: auto_pad, dilations, group, kernel_shape, pads, strides")));
  EXPECT_THAT(refused_attribute({"Gemm", {ramp({2, 2}), ramp({2, 2})}, {attr("transb", 1)}}),
              HasSubstr("did you mean 'transB'?"));
  EXPECT_THAT(refused_attribute({"Softmax", {ramp({2, 2})}, {attr("dim", 0)}}),
              AllOf(HasSubstr("attribute 'dim' is not known"), HasSubstr("known: axis")));
  EXPECT_THAT(refused_attribute({"Relu", {ramp({2})}, {attr("slope", 0.5f)}}),
              HasSubstr("(known: none)"));
}

TEST(Attributes, OfOtherVersionsAreErrorsThatSayWhich) {
  EXPECT_THAT(refused_attribute({"Squeeze", {ramp({1, 2})}, {attr("axes", v({0}))}, 13}),
              HasSubstr("'axes' is not known: it is one of opsets up to 12"));
  EXPECT_THAT(refused_attribute(
                  {"ArgMax", {ramp({2})}, {attr("axis", 0), attr("select_last_index", 1)}, 11}),
              HasSubstr("it is one of opsets from 12 on"));
  expect_tensor(OneOp{"Squeeze", {ramp({1, 2})}, {attr("axes", v({0}))}, 12}.run(), {2}, {0, 1});
}

TEST(Attributes, ThatBecameInputsAreErrorsThatSaySo) {
  const auto error = [](const char* op, int opset, const Attribute& attribute) {
    return refused_attribute({op, {ramp({2, 2})}, {attribute}, opset});
  };
  EXPECT_THAT(error("ReduceSum", 13, attr("axes", v({0}))),
              HasSubstr("it is one of opsets up to 12; opset 13 has 'axes' as input 1"));
  EXPECT_THAT(error("ReduceMean", 18, attr("axes", v({0}))),
              HasSubstr("it is one of opsets up to 17; opset 18 has 'axes' as input 1"));
  EXPECT_THAT(error("Split", 13, attr("split", v({1, 1}))),
              HasSubstr("it is one of opsets up to 12; opset 13 has 'split' as input 1"));
  EXPECT_THAT(error("Clip", 11, attr("max", 1.0f)),
              HasSubstr("it is one of opsets up to 10; opset 11 has 'max' as input 2"));
  EXPECT_THAT(error("TopK", 10, attr("k", 1)), HasSubstr("opset 10 has 'K' as input 1"));
}

TEST(Inputs, ThatAnOperatorDoesNotHaveAreErrors) {
  const auto error = [](const char* op, int opset, const std::vector<ir::Tensor>& inputs) {
    return OneOp{op, inputs, {}, opset}.model().import_error(ErrorCode::kInvalidModel);
  };
  EXPECT_THAT(error("ReduceSum", 11, {ramp({2, 2}), int64s({1}, {0})}),
              HasSubstr("it has 2 inputs, but opset 11 has 1 (data)"));
  EXPECT_THAT(error("Clip", 6, {ramp({2}), floats({}, {0})}), HasSubstr("opset 6 has 1 (input)"));
  EXPECT_THAT(error("Relu", 17, {ramp({2}), ramp({2})}), HasSubstr("'the_Relu' (Relu-17)"));
  // Operators of other domains grow without a new version: these may be newer.
  ModelBuilder gelu = microsoft("FastGelu", {"x", "x", "x"});
  gelu.input("x", DType::kFloat32, {2});
  EXPECT_THAT(gelu.import_error(ErrorCode::kUnsupported),
              HasSubstr("it has 3 inputs, but the operator that is known has 2 (X, bias)"));
  // What is left out at the end is none, and some operators take any number.
  ModelBuilder model;
  model.input("x", DType::kFloat32, {2}).node("Relu", {"x", ""}, {"y"}).output("y");
  EXPECT_NO_THROW(model.import());
  EXPECT_NO_THROW((OneOp{"Sum", {ramp({2}), ramp({2}), ramp({2})}}.model().import()));
}

TEST(Inputs, OfOneTypeThatDifferAreErrorsThatNameBoth) {
  const auto model = [](DType type) {
    ModelBuilder model;
    model.input("x", DType::kFloat32, {2}).input("y", type, {2});
    model.node("Add", {"x", "y"}, {"z"}).output("z");
    return model;
  };
  for (const DType type : {DType::kFloat16, DType::kInt32})
    EXPECT_THAT(model(type).import_error(ErrorCode::kInvalidModel),
                AllOf(HasSubstr("its inputs 0 ('A') f32[2] and 1 ('B') "),
                      HasSubstr("must have one element type: cast one of them")));
}

TEST(Inputs, ConstantsOfAnotherFloatTypeTakeThatOfTheRest) {
  const auto model = [](double factor) {
    ModelBuilder model;
    model.input("x", DType::kFloat16, {2}).initializer("k", floats({}, {factor}));
    model.node("Mul", {"x", "k"}, {"y"}).output("y");
    return model;
  };
  const ImportedModel imported = model(2).import();
  EXPECT_THAT(imported.warnings,
              testing::ElementsAre(
                  "the_Mul: input 1 ('B') f32[] is a constant, and is taken as f16, the type of "
                  "what it goes with"));
  const ir::Tensor x = ir::Tensor::from_doubles(DType::kFloat16, {2}, {{1.5, -2}});
  const ir::Tensor y = model(2).run({x})[0];
  EXPECT_EQ(y.dtype(), DType::kFloat16);
  expect_tensor(y, {2}, {3, -4});
  // Neither infinity nor zero is what the model's author meant.
  for (const double beyond : {1e6, 1e-12})
    EXPECT_THAT(model(beyond).import_error(ErrorCode::kInvalidModel),
                HasSubstr("must have one element type"));
}

TEST(Attributes, GivenTwiceAreErrors) {
  EXPECT_THAT(refused_attribute({"Softmax", {ramp({2})}, {attr("axis", 0), attr("axis", 0)}}),
              HasSubstr("attribute 'axis' is given twice"));
}

TEST(Attributes, OfCallsMustBeTheFunctions) {
  ModelBuilder model;
  model.input("x", DType::kFloat32, {2})
      .node("Scale", {"x"}, {"y"}, {attr("factr", 2.0f)})
      .output("y");
  model.last_node().set_domain("local");
  auto* import = model.model().add_opset_import();
  import->set_domain("local");
  import->set_version(1);
  auto* function = model.model().add_functions();
  function->set_name("Scale");
  function->set_domain("local");
  function->add_input("a");
  function->add_output("b");
  auto* inner = function->add_node();
  inner->set_op_type("Relu");
  inner->add_input("a");
  inner->add_output("b");
  EXPECT_THAT(model.import_error(ErrorCode::kInvalidModel),
              HasSubstr("attribute 'factr' is not known"));
}

TEST(Versions, AboveWhatARowWasWrittenForAreRefused) {
  const ModelBuilder model = [] {
    ModelBuilder gelu = microsoft("FastGelu", {"x"});
    gelu.input("x", DType::kFloat32, {2});
    gelu.model().mutable_opset_import(1)->set_version(2);
    return gelu;
  }();
  EXPECT_THAT(model.import_error(ErrorCode::kUnsupported),
              HasSubstr("known up to opset 1 of com.microsoft, not as opset 2 has it"));
}

TEST(Versions, RowsSayWhichOnesTheyHoldFor) {
  OpRow row{"Pool", 3, nullptr, "k:-9 largest:11- mode directions:8-8"};
  EXPECT_EQ(holds_until(row), kRowsHoldUntil);
  row.until = 24;
  const std::vector<OpAttribute> all = attributes_of(row);
  ASSERT_EQ(all.size(), 4u);
  const auto is = [](const OpAttribute& a, std::string_view name, std::int64_t first,
                     std::int64_t last) {
    return a.name == name && a.first == first && a.last == last;
  };
  EXPECT_TRUE(is(all[0], "k", 3, 9) && is(all[1], "largest", 11, 24));
  EXPECT_TRUE(is(all[2], "mode", 3, 24) && is(all[3], "directions", 8, 8));
  row.domain = kMicrosoft;
  row.until = 0;
  EXPECT_EQ(holds_until(row), 3);
  row.attributes = "";
  EXPECT_THAT(attributes_of(row), IsEmpty());
}

}  // namespace
}  // namespace sinter::frontend
