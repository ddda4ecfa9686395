// SPDX-License-Identifier: Apache-2.0
#include "ir/scalar_expr.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sinter/error.h>

#include "ir/scalar_math.h"

namespace sinter::ir {
namespace {

using testing::HasSubstr;
using testing::Property;
using testing::ThrowsMessage;

std::string reparsed(std::string_view text) { return to_string(parse_scalar_expr(text)); }

TEST(ScalarExpr, ParsesPrecedence) {
  EXPECT_EQ(reparsed("x + y * z"), "add(x, mul(y, z))");
  EXPECT_EQ(reparsed("(x + y) * z"), "mul(add(x, y), z)");
  EXPECT_EQ(reparsed("x - y - z"), "sub(sub(x, y), z)");
  EXPECT_EQ(reparsed("x / y / z"), "div(div(x, y), z)");
  EXPECT_EQ(reparsed("-x * y"), "mul(neg(x), y)");
  EXPECT_EQ(reparsed("x - -1.5e-3"), "sub(x, -0.0015)");
  EXPECT_EQ(reparsed("x + 1 <= y"), "le(add(x, 1), y)");
  EXPECT_EQ(reparsed("select(x < 0, @alpha * x, x)"), "select(lt(x, 0), mul(@alpha, x), x)");
  EXPECT_EQ(reparsed("cast(not(x))"), "cast(not(x))");
}

TEST(ScalarExpr, SharesEqualPartsAndEndsWithTheResult) {
  const ScalarExpr expr = parse_scalar_expr("(x + y) * (x + y)");
  ASSERT_EQ(expr.nodes.size(), 4u);
  EXPECT_EQ(expr.nodes.back().op, ScalarOp::kMul);
  EXPECT_EQ(expr.nodes.back().args[0], expr.nodes.back().args[1]);
}

TEST(ScalarExpr, MistakesNameTheColumn) {
  const auto parsing = [](std::string_view text) { return [text] { parse_scalar_expr(text); }; };
  EXPECT_THAT(parsing("x + w"), ThrowsMessage<Error>(HasSubstr("unknown name 'w' at column 6")));
  EXPECT_THAT(parsing("max(x)"), ThrowsMessage<Error>(HasSubstr("expected ',' at column 6")));
  EXPECT_THAT(parsing("x y"), ThrowsMessage<Error>(HasSubstr("unexpected text at column 3")));
  EXPECT_THAT(parsing("(x"), ThrowsMessage<Error>(HasSubstr("expected ')'")));
  EXPECT_THAT(parsing("@"), ThrowsMessage<Error>(HasSubstr("attribute name")));
  EXPECT_THAT(parsing(""), testing::Throws<Error>(Property(&Error::code, ErrorCode::kInternal)));
}

TEST(ScalarExpr, ConstantsTakeTheTypeOfTheirSiblings) {
  const DType i32 = DType::kInt32, f32 = DType::kFloat32, boolean = DType::kBool;
  const auto types = [](std::string_view text, std::vector<DType> operands, DType result) {
    return infer_scalar_types(parse_scalar_expr(text), operands, result);
  };
  EXPECT_THAT(types("max(x, 0)", {i32}, i32), testing::ElementsAre(i32, i32, i32));
  EXPECT_THAT(types("x < 2 * 3", {f32}, boolean),
              testing::ElementsAre(f32, f32, f32, f32, boolean));
  EXPECT_THAT(types("select(x < 0, 1, 2)", {i32}, f32),
              testing::ElementsAre(i32, i32, boolean, f32, f32, f32));
  EXPECT_THAT(types("cast(x)", {i32}, f32), testing::ElementsAre(i32, f32));
  EXPECT_THAT(types("1 + 2", {}, f32), testing::ElementsAre(f32, f32, f32));
  EXPECT_THAT(
      [&] {
        types("x + y", {i32, f32}, f32);
      },
      ThrowsMessage<Error>(HasSubstr("f32 meets i32")));
  EXPECT_THAT([&] { types("x + y", {f32}, f32); },
              ThrowsMessage<Error>(HasSubstr("uses operand 1 of 1")));
}

Scalar run(std::string_view text, DType type, std::vector<Scalar> operands, Attrs attrs = {}) {
  const ScalarExpr expr = parse_scalar_expr(text);
  const auto types = infer_scalar_types(expr, std::vector<DType>(operands.size(), type), type);
  std::vector<Scalar> values;
  for (std::size_t i = 0; i < expr.nodes.size(); ++i) {
    const ScalarNode& node = expr.nodes[i];
    const auto arg = [&](int a) { return static_cast<std::size_t>(node.args[a]); };
    if (node.kind == ScalarNode::Kind::kOperand) {
      values.push_back(operands[static_cast<std::size_t>(node.operand)]);
    } else if (node.kind != ScalarNode::Kind::kOp) {
      values.push_back(scalar_of(node, types[i], attrs));
    } else {
      Scalar args[3];
      const int arity = arity_of(node.op);
      for (int a = 0; a < arity; ++a) args[a] = values[arg(a)];
      const DType from = types[arg(arity - 1)];
      values.push_back(apply_scalar_op(node.op, converts(node.op) ? types[i] : from, from, args));
    }
  }
  return values.back();
}

TEST(ScalarExpr, EvaluatesFloats) {
  EXPECT_DOUBLE_EQ(run("0.5 * x * (1 + erf(x * 0.7071067811865476))", DType::kFloat32, {{1.0}}).f,
                   0.8413447460685429);
  EXPECT_DOUBLE_EQ(
      run("select(x < 0, @alpha * x, x)", DType::kFloat32, {{-2.0}}, {{"alpha", Attr(0.25)}}).f,
      -0.5);
  EXPECT_TRUE(std::isnan(run("max(x, 0)", DType::kFloat32, {{NAN}}).f));
  EXPECT_TRUE(std::isnan(run("min(0, x)", DType::kFloat32, {{NAN}}).f));
  EXPECT_EQ(run("round(x)", DType::kFloat32, {{2.5}}).f, 2);
  EXPECT_EQ(run("mod(x, y)", DType::kFloat64, {{-5.0}, {3.0}}).f, 1);
  EXPECT_EQ(run("fmod(x, y)", DType::kFloat64, {{-5.0}, {3.0}}).f, -2);
}

Scalar of_int(std::int64_t value) { return {0, value}; }

TEST(ScalarExpr, IntegersAreExactAndWrapInTheirWidth) {
  const auto max64 = std::numeric_limits<std::int64_t>::max();
  const auto min64 = std::numeric_limits<std::int64_t>::min();
  EXPECT_EQ(run("x + 1", DType::kInt64, {of_int(max64)}).i, min64);
  EXPECT_EQ(run("x * y", DType::kInt32, {of_int(65536), of_int(65536)}).i, 0);
  EXPECT_EQ(run("x - y", DType::kUInt8, {of_int(1), of_int(2)}).i, 255);
  EXPECT_EQ(run("x / y", DType::kInt64, {of_int(-7), of_int(2)}).i, -3);
  EXPECT_EQ(run("x / y", DType::kInt64, {of_int(min64), of_int(-1)}).i, min64);
  EXPECT_EQ(run("x / y", DType::kInt8, {of_int(-128), of_int(-1)}).i, -128);
  EXPECT_EQ(run("mod(x, y)", DType::kInt64, {of_int(-7), of_int(3)}).i, 2);
  EXPECT_EQ(run("fmod(x, y)", DType::kInt64, {of_int(-7), of_int(3)}).i, -1);
  EXPECT_EQ(run("pow(x, y)", DType::kInt64, {of_int(3), of_int(39)}).i, 4052555153018976267);
  EXPECT_EQ(run("pow(x, y)", DType::kInt32, {of_int(-1), of_int(-3)}).i, -1);
  EXPECT_EQ(run("pow(x, y)", DType::kInt32, {of_int(2), of_int(-1)}).i, 0);
}

TEST(ScalarExpr, IntegerDivisionByZeroIsZero) {
  for (const char* text : {"x / y", "mod(x, y)", "fmod(x, y)"})
    for (const DType type : {DType::kInt32, DType::kInt64, DType::kUInt64})
      EXPECT_EQ(run(text, type, {of_int(5), of_int(0)}).i, 0) << text;
}

TEST(ScalarExpr, UnsignedSixtyFourBitsCompareUnsigned) {
  EXPECT_EQ(run("max(x, y)", DType::kUInt64, {of_int(-1), of_int(1)}).i, -1);
  EXPECT_EQ(run("x / y", DType::kUInt64, {of_int(-1), of_int(2)}).i, INT64_MAX);
}

TEST(ScalarExpr, CastsTruncateAndSaturate) {
  const auto cast = [](DType from, DType to, Scalar value) {
    return apply_scalar_op(ScalarOp::kCast, to, from, &value);
  };
  EXPECT_EQ(cast(DType::kFloat32, DType::kInt32, {-2.9}).i, -2);
  EXPECT_EQ(cast(DType::kFloat32, DType::kInt8, {1e9}).i, 127);
  EXPECT_EQ(cast(DType::kFloat32, DType::kUInt8, {-3.0}).i, 0);
  EXPECT_EQ(cast(DType::kFloat64, DType::kInt64, {1e300}).i, INT64_MAX);
  EXPECT_EQ(cast(DType::kFloat64, DType::kUInt64, {1e300}).i, -1);
  EXPECT_EQ(cast(DType::kFloat32, DType::kInt32, {NAN}).i, 0);
  EXPECT_EQ(cast(DType::kFloat32, DType::kBool, {0.25}).i, 1);
  EXPECT_EQ(cast(DType::kInt32, DType::kUInt8, of_int(-1)).i, 255);
  EXPECT_EQ(cast(DType::kUInt64, DType::kFloat64, of_int(-1)).f, 18446744073709551615.0);
}

TEST(ScalarExpr, NarrowSaturationHoldsAtEveryWidth) {
  for (int i = 1; i <= 8; ++i) {
    const auto type = static_cast<DType>(i);
    EXPECT_EQ(double_to_int(type, 1e30), max_value_of(type)) << sinter::to_string(type);
    EXPECT_EQ(double_to_int(type, -1e30), min_value_of(type)) << sinter::to_string(type);
    EXPECT_EQ(wrap_to(type, double_to_int(type, 100.7)), 100) << sinter::to_string(type);
  }
}

}  // namespace
}  // namespace sinter::ir
