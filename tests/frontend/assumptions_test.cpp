// SPDX-License-Identifier: Apache-2.0
// Dimensions that must be equal or fixed: what is assumed, what is said, and what the user can say.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/frontend/model_builder.h"
#include "tests/frontend/op_test_support.h"

namespace sinter::frontend {
namespace {

using ir::Dim;
using ir::Shape;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;

std::string input_text(const ImportedModel& model, std::size_t i) {
  return ir::to_string(model.graph.type(model.graph.inputs()[i]));
}

/// x [batch, 2] + c, a constant of two rows.
ModelBuilder two_rows() {
  ModelBuilder model;
  model.input("x", DType::kFloat32, {"batch", 2}).initializer("c", floats({2, 2}, {1, 2, 3, 4}));
  model.node("Add", {"x", "c"}, {"y"}).output("y");
  return model;
}

TEST(Assumptions, ASymbolThatMeetsANumberIsThatNumber) {
  const ImportedModel imported = two_rows().import();
  EXPECT_EQ(input_text(imported, 0), "f32[2, 2]");
  EXPECT_THAT(imported.warnings, Contains(AllOf(HasSubstr("'batch' is taken as 2"),
                                                HasSubstr("the_Add"), HasSubstr("--dim batch=2"))));
}

TEST(Assumptions, NeverChangeWhatTheUserSays) {
  ImportOptions options;
  options.ranges["batch"] = {1, 8, nullptr};
  EXPECT_THAT(two_rows().import_error(ErrorCode::kInvalidModel, options),
              HasSubstr("--dim batch=2 makes the two sizes equal"));
}

TEST(Assumptions, ASumUnderAnotherName) {
  ModelBuilder model;
  model.input("cache", DType::kFloat32, {"old", 2}).input("x", DType::kFloat32, {"new", 2});
  model.input("mask", DType::kFloat32, {"all", 1});
  model.node("Concat", {"cache", "x"}, {"rows"}, {attr("axis", 0)});
  model.node("Add", {"rows", "mask"}, {"y"}).output("y");
  const ImportedModel imported = model.import();
  EXPECT_EQ(input_text(imported, 2), "f32[new + old, 1]");
  EXPECT_THAT(imported.warnings, Contains(HasSubstr("'all' is taken as new + old")));
  ImportOptions options;
  options.same["all"] = Dim::symbol("new") + Dim::symbol("old");
  const ImportedModel said = model.import(options);
  EXPECT_EQ(input_text(said, 2), "f32[new + old, 1]");
  EXPECT_TRUE(said.warnings.empty());
}

TEST(Assumptions, WhatASmallerOfTwoIsComparedWith) {
  // The first past + new columns of a mask of `all` ones.
  ModelBuilder model;
  model.input("cache", DType::kFloat32, {"old"}).input("x", DType::kFloat32, {"new"});
  model.input("mask", DType::kFloat32, {"all"});
  model.ints("zero", {0});
  model.node("Concat", {"cache", "x"}, {"rows"}, {attr("axis", 0)});
  model.node("Shape", {"rows"}, {"length"});
  model.node("Slice", {"mask", "zero", "length", "zero"}, {"some"});
  model.node("Add", {"rows", "some"}, {"y"}).output("y");
  EXPECT_EQ(input_text(model.import(), 2), "f32[new + old]");
}

TEST(Assumptions, ChannelsFollowFromAWeight) {
  ModelBuilder model;
  model.input("x", DType::kFloat32, {"batch", "channels", "h", "w"});
  model.initializer("weight", floats({1, 3, 1, 1}, {1, 2, 3}));
  model.node("Conv", {"x", "weight"}, {"y"}).output("y");
  EXPECT_EQ(input_text(model.import(), 0), "f32[batch, 3, h, w]");
}

TEST(Assumptions, SidesFollowFromATableOfPositions) {
  // Windows of 2 x 2 in rows, plus a table of nine.
  ModelBuilder model;
  model.input("x", DType::kFloat32, {1, 1, "h", "w"});
  model.initializer("weight", floats({1, 1, 2, 2}, {1, 1, 1, 1}));
  model.initializer("table", floats({9}, {0, 1, 2, 3, 4, 5, 6, 7, 8}));
  model.ints("flat", {-1});
  model.node("Conv", {"x", "weight"}, {"windows"},
             {attr("strides", std::vector<std::int64_t>{2, 2})});
  model.node("Reshape", {"windows", "flat"}, {"row"});
  model.node("Add", {"row", "table"}, {"y"}).output("y");
  EXPECT_EQ(input_text(model.import(), 0), "f32[1, 1, 6, 6]");
}

TEST(Assumptions, TheWeakestIsThatASizeIsNotSmall) {
  // All but the first four, which are max(n - 4, 0), meet a size that is n - 4.
  ModelBuilder model;
  model.input("x", DType::kFloat32, {"n"});
  model.ints("four", {4}).ints("end", {INT64_MAX}).ints("axis", {0});
  model.node("Slice", {"x", "four", "end", "axis"}, {"rest"});
  model.node("Shape", {"x"}, {"n"}).node("Sub", {"n", "four"}, {"less"});
  model.node("ConstantOfShape", {"less"}, {"zeros"});
  model.node("Add", {"rest", "zeros"}, {"y"}).output("y");
  const ImportedModel imported = model.import();
  EXPECT_EQ(input_text(imported, 0), "f32[n]");
  EXPECT_EQ(imported.graph.ranges().at("n").min, 4);
}

TEST(Assumptions, ATableEndsARange) {
  // The first n of a table of 8, twice as many as there would be beyond.
  ModelBuilder model;
  model.input("x", DType::kFloat32, {"n", 2});
  model.ints("eight", {8}).ints("two", {2}).ints("zero", {0});
  model.node("Shape", {"x"}, {"shape"}).node("Gather", {"shape", "zero"}, {"n"});
  model.node("Min", {"n", "eight"}, {"few"})
      .node("Concat", {"few", "two"}, {"to"}, {attr("axis", 0)});
  model.node("Reshape", {"x", "to"}, {"y"}).output("y");
  const ImportedModel imported = model.import();
  EXPECT_EQ(imported.graph.ranges().at("n"), (ir::Range{1, 8, nullptr}));
  EXPECT_THAT(imported.warnings, Contains(HasSubstr("'n' is taken as at most 8")));
}

TEST(Assumptions, RoundingsAgreeOnMultiplesNotOnAShortRange) {
  // (h + 15) / 16 and (h + 7) / 16, which agree from 9 to 16, too.
  ModelBuilder model;
  model.input("x", DType::kFloat32, {"batch", 1, "h"});
  model.initializer("one", floats({1, 1, 1}, {1})).initializer("nine", ramp({1, 1, 9}));
  const auto strides = attr("strides", std::vector<std::int64_t>{16});
  model.node("Conv", {"x", "one"}, {"many"}, {strides});
  model.node("Conv", {"x", "nine"}, {"few"}, {strides});
  model.node("Add", {"many", "few"}, {"y"}).output("y");
  EXPECT_EQ(input_text(model.import(), 0), "f32[batch, 1, 16*h]");
}

TEST(Assumptions, SizesThatWouldBeNegativeAreExcluded) {
  // (n - 3) / 2, which truncates: the floor from n = 3 on.
  ModelBuilder model;
  model.input("x", DType::kFloat32, {"n"});
  model.ints("three", {3}).ints("two", {2});
  model.node("Shape", {"x"}, {"n"}).node("Sub", {"n", "three"}, {"less"});
  model.node("Div", {"less", "two"}, {"half"});
  model.node("ConstantOfShape", {"half"}, {"zeros"});
  model.node("Cast", {"zeros"}, {"y"}, {attr("to", 1)}).output("y");
  const ImportedModel imported = model.import();
  EXPECT_EQ(imported.graph.ranges().at("n").min, 3);
  EXPECT_THAT(imported.warnings, Contains(AllOf(HasSubstr("'n' is limited to 3..65536"),
                                                HasSubstr("--dim n=MIN..MAX"))));
}

TEST(Assumptions, ReshapesThatDivideOnlyMultiples) {
  ModelBuilder model;
  model.input("x", DType::kFloat32, {"n", 2});
  model.ints("shape", {-1, 8}).node("Reshape", {"x", "shape"}, {"y"}).output("y");
  const ImportedModel imported = model.import();
  EXPECT_EQ(input_text(imported, 0), "f32[4*n, 2]");
  EXPECT_THAT(imported.warnings, Contains(HasSubstr("'n' is taken as a multiple of 4")));
}

TEST(Assumptions, SymbolsThatFollowFromOthersAreNamedLast) {
  ModelBuilder model;
  model.input("a", DType::kFloat32, {"i"}).input("b", DType::kFloat32, {"j"});
  model.input("c", DType::kFloat32, {"k"});
  model.node("Sum", {"a", "b", "c"}, {"y"}).output("y");
  ImportOptions options;
  options.same["i"] = Dim::symbol("j");
  options.same["j"] = Dim::symbol("k");
  EXPECT_THAT(model.import_error(ErrorCode::kUsage, options), HasSubstr("name the last one"));
  const ImportedModel imported = model.import();
  EXPECT_EQ(input_text(imported, 2), input_text(imported, 0));
}

}  // namespace
}  // namespace sinter::frontend
