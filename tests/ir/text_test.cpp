// SPDX-License-Identifier: Apache-2.0
#include "ir/text/text.h"

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sinter/error.h>

#include "tests/ir/symbols.h"

namespace sinter::ir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

void expect_round_trip(const Graph& graph) {
  const std::string text = print(graph);
  const Graph parsed = parse_graph(text, constant_pool(graph));
  EXPECT_TRUE(structurally_equal(graph, parsed)) << text << "\nread back as\n" << print(parsed);
  EXPECT_EQ(print(parsed), text);
  verify(parsed);
  ASSERT_EQ(parsed.inputs().size(), graph.inputs().size());
  for (std::size_t i = 0; i < graph.inputs().size(); ++i)
    EXPECT_EQ(parsed.value(parsed.inputs()[i]).name, graph.value(graph.inputs()[i]).name);
  EXPECT_EQ(parsed.output_names(), graph.output_names());
  EXPECT_EQ(parsed.name(), graph.name());
  for (std::size_t i = 0; i < graph.nodes().size(); ++i)
    EXPECT_EQ(parsed.nodes()[i].origins, graph.nodes()[i].origins);
}

std::string error_of(const std::string& text) {
  try {
    parse_graph(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidModel);
    return error.what();
  }
  ADD_FAILURE() << "no error was thrown for\n" << text;
  return "";
}

TEST(GraphText, PrintsAsDocumented) {
  GraphBuilder builder;
  builder.range("batch", {1, 64, nullptr});
  builder.range("seq", {});
  const ValueId ids = builder.input("ids", {DType::kInt64, {B, S}});
  const ValueId table =
      builder.constant(Tensor::from_doubles(DType::kFloat32, {2, 3},
                                            std::vector<double>{0, 0.1, -2.5, 1e-8, 3, 1e30}),
                       "table");
  ValueId rows;
  {
    const GraphBuilder::OriginScope scope(builder, {"embeddings/Gather", "b"});
    rows = builder.add("Gather", {table, ids}, {{"axis", 0}});
  }
  GraphBuilder body;
  for (const auto& [symbol, range] : builder.ranges()) body.range(symbol, range);
  const ValueId x = body.input("x", builder.type(rows));
  body.output("", body.add("Mul", {x, body.scalar(DType::kFloat32, 0.5)}));
  const auto fused = builder.add_multi("Fused", {rows}, {{"kind", "pointwise"}},
                                       std::make_shared<const Graph>(body.finish()));
  builder.output("rows", fused[0]);
  builder.output("12", rows);
  EXPECT_EQ(print(builder.finish()),
            R"(graph @main(%ids: i64[batch, seq]) ranges {batch: 1..64, seq: 1..} {
  %table = const f32[2, 3] {0, 0.1, -2.5, 1e-08, 3, 1e+30}
  %0 = Gather(%table, %ids) {axis = 0} : f32[batch, seq, 3]  # from b, embeddings/Gather
  %1 = Fused(%0) {kind = "pointwise"} : f32[batch, seq, 3] body(%x) {
    %0 = const f32[] {0.5}
    %1 = Mul(%x, %0) : f32[batch, seq, 3]
    return %1
  }
  return rows = %1, "12" = %0
}
)");
}

TEST(GraphText, RoundTripsEverything) {
  GraphBuilder builder("my model");
  builder.range("batch", {1, 64, nullptr});
  builder.range("seq", {0, INT64_MAX, std::make_shared<const Dim>(B * 2 - 1)});
  builder.range("unk 7", {2, 3, nullptr});
  const ValueId x = builder.input("x", {DType::kFloat32, {B, S, 384}});
  const ValueId state = builder.input("past/key.0", {DType::kFloat32, {B, S, 384}});
  builder.input("12", {DType::kBool, {Dim::symbol("unk 7"), floor_div(S, 2)}});
  builder.input("", {DType::kFloat64, {}});
  builder.input("weird \"name\"\n", {DType::kUInt8, {}});
  builder.input("x", {DType::kUInt8, {1}});
  const GraphBuilder::OriginScope scope(builder, {"a, b", "c", "\"d\"", "e\nf"});
  const ValueId w = builder.constant(
      Tensor::from_doubles(DType::kFloat32, {384}, std::vector<double>(384, 0.25)), "w");
  ValueId y = builder.add("LayerNorm", {x, w, w}, {{"axis", 2}, {"epsilon", 1e-12}});
  builder.name(y, "norm/output");
  GraphBuilder body("ln");
  body.range("other", {1, 2, nullptr});
  const ValueId bx = body.input("", builder.type(y)), bw = body.input("w", builder.type(w));
  const ValueId sum = body.add("Add", {bx, bw});
  GraphBuilder inner;
  const ValueId ix = inner.input("z", builder.type(y));
  inner.output("r", inner.add("Cast", {ix}, {{"to", DType::kFloat16}}));
  const auto nested = body.add_multi("Fused", {sum}, {{"kind", "a\tb"}},
                                     std::make_shared<const Graph>(inner.finish()));
  body.output("sum", sum);
  body.output("", nested[0]);
  const auto fused = builder.add_multi("Fused", {y, w}, {{"kind", "pointwise"}},
                                       std::make_shared<const Graph>(body.finish()));
  y = builder.add("Reshape", {fused[0]}, {{"shape", std::vector<Dim>{B * S, 12, 32}}});
  y = builder.add("Transpose", {y}, {{"perm", std::vector<std::int64_t>{1, 0, 2}}});
  builder.output("first", y);
  builder.output("", fused[1]);
  builder.output("present key", builder.add("Neg", {state}));
  builder.output("w", w);
  builder.state({1, 2});
  Graph graph = builder.finish();
  // Two inputs of one name: only the first can keep it in text.
  const_cast<Value&>(graph.value(graph.inputs()[5])).name = "";
  expect_round_trip(graph);
}

TEST(GraphText, KeepsEveryBitOfConstants) {
  const double inf = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  GraphBuilder builder;
  int i = 0;
  const auto add = [&](Tensor tensor) {
    builder.output("c" + std::to_string(i++), builder.constant(std::move(tensor)));
  };
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64})
    add(Tensor::from_doubles(
        dtype, {10},
        std::vector<double>{0.0, -0.0, 0.1, -1.0 / 3, inf, -inf, nan, 1e-45, 3e38, 6e-8}));
  add(Tensor::of<std::uint32_t>(DType::kFloat32, {3}, {0xffc00000, 0x7f800001, 0x00000001}));
  add(Tensor::of<std::uint64_t>(DType::kFloat64, {2}, {0xfff8000000000000, 0x7ff0000000000001}));
  add(Tensor::of<std::uint16_t>(DType::kFloat16, {2}, {0xfe00, 0x7c01}));
  for (const DType dtype : {DType::kInt8, DType::kInt16, DType::kInt32, DType::kInt64,
                            DType::kUInt8, DType::kUInt16, DType::kUInt32, DType::kUInt64})
    add(Tensor::from_ints(dtype, {4}, std::vector<std::int64_t>{0, -1, INT64_MIN, INT64_MAX}));
  add(Tensor::of<std::uint8_t>(DType::kBool, {3}, {0, 1, 2}));
  add(Tensor(DType::kFloat32, {0, 3}, nullptr));
  add(Tensor::from_doubles(DType::kFloat32, {17}, std::vector<double>(17, 1.5)));
  expect_round_trip(builder.finish());
}

TEST(GraphText, AttributesKeepTheirValue) {
  GraphBuilder builder;
  const ValueId x = builder.input("x", {DType::kFloat32, {S}});
  const double inf = std::numeric_limits<double>::infinity();
  for (const double fill : {0.1, -0.0, inf, -inf, 1e300})
    builder.output(
        "", builder.add(
                "Pad", {x},
                {{"begins", std::vector<Dim>{S}}, {"ends", std::vector<Dim>{1}}, {"fill", fill}}));
  const Graph graph = builder.finish();
  EXPECT_EQ(graph.nodes().size(), 5u);
  expect_round_trip(graph);
}

TEST(GraphText, AttributesOfDefaultValueAreLeftOut) {
  GraphBuilder builder;
  const ValueId x = builder.input("x", {DType::kFloat32, {S, 4}});
  for (const std::int64_t descending : {0, 1})
    builder.output("", builder.add("ArgSort", {x},
                                   {{"axis", std::int64_t{1}},
                                    {"count", std::vector<Dim>{4}},
                                    {"descending", descending}}));
  const Graph graph = builder.finish();
  EXPECT_THAT(print(graph), HasSubstr("ArgSort(%x) {axis = 1, count = [4]} :"));
  EXPECT_THAT(print(graph), HasSubstr("ArgSort(%x) {axis = 1, count = [4], descending = 1} :"));
  expect_round_trip(graph);
}

TEST(GraphText, OptionsChooseWhatIsPrinted) {
  GraphBuilder builder;
  const GraphBuilder::OriginScope scope(builder, {"here"});
  const ValueId c =
      builder.constant(Tensor::from_ints(DType::kInt64, {2}, std::vector<std::int64_t>{1, 2}));
  builder.output("y", builder.add("Neg", {c}));
  const Graph graph = builder.finish();
  EXPECT_THAT(print(graph), HasSubstr("# from here"));
  EXPECT_THAT(print(graph, {.origins = false}), Not(HasSubstr("# from")));
  EXPECT_THAT(print(graph, {.inline_limit = 1}), HasSubstr("const i64[2] #"));
}

TEST(GraphText, GeneratedConstants) {
  const Graph graph = parse_graph(R"(
graph @main() {
  %a = const f32[1000] random(1)
  %b = const f32[1000] random(2)
  %c = const f16[2, 2] splat(0.5)
  %d = const f32[1000] random(1)
  %e = const i8[1000] random(1)
  %f = const u8[1000] random(1)
  return %a, %b, %c, %d, %e, %f
})");
  const Tensor& a = *graph.value(graph.outputs()[0]).constant;
  EXPECT_EQ(graph.outputs()[0], graph.outputs()[3]) << "the seed alone decides";
  EXPECT_NE(graph.outputs()[0], graph.outputs()[1]);
  double sum = 0, squares = 0;
  for (const double value : a.to_doubles()) sum += value, squares += value * value;
  EXPECT_NEAR(sum / 1000, 0, 0.15);
  EXPECT_NEAR(squares / 1000, 1, 0.2);
  EXPECT_THAT(graph.value(graph.outputs()[2]).constant->to_doubles(),
              ElementsAre(0.5, 0.5, 0.5, 0.5));
  for (const auto& [output, middle] : {std::pair(4, 0.0), std::pair(5, 128.0)}) {
    double far = 0, total = 0;
    for (const double value : graph.value(graph.outputs()[output]).constant->to_doubles()) {
      total += value - middle;
      far = std::max(far, std::abs(value - middle));
    }
    EXPECT_NEAR(total / 1000, 0, 5);
    EXPECT_GT(far, 80);
  }
}

TEST(GraphText, TypesMayBeLeftOutAndCommentsPut) {
  const Graph graph = parse_graph(R"(# a comment
graph @main(%x: f32[4],  # the input
            %y: f32[4]) {
  # another
  %z = Add(%x, %y)  # a comment, not origins
  return %z
}
# the end
)");
  EXPECT_EQ(graph.type(graph.outputs()[0]), (TensorType{DType::kFloat32, {4}}));
  EXPECT_TRUE(graph.nodes()[0].origins.empty());
}

TEST(GraphText, MistakesAreNamedWithLineAndColumn) {
  const auto in_body = [](const std::string& line) {
    return error_of("graph @main(%x: f32[batch, 4]) {\n  " + line + "\n  return %y\n}\n");
  };
  EXPECT_THAT(error_of(""), HasSubstr("line 1, column 1: expected 'graph'"));
  EXPECT_THAT(error_of("graph @main(%x: f33[4]) {"),
              HasSubstr("line 1, column 17: unknown type 'f33'"));
  EXPECT_THAT(error_of("graph @main(%x: f32[4"), HasSubstr("line 1, column 22: expected ']'"));
  EXPECT_THAT(error_of("graph @main(%x: f32[4 +]) {"),
              HasSubstr("line 1, column 24: expected a dimension"));
  EXPECT_THAT(error_of("graph @main(%x: f32[], %x: f32[]) {"),
              HasSubstr("line 1, column 24: value %x is already defined"));
  EXPECT_THAT(error_of("graph @main() ranges {n: 4..2} {"),
              HasSubstr("line 1, column 23: dimension 'n' has an empty range 4..2"));
  EXPECT_THAT(in_body("%y = Nonsense(%x)"),
              HasSubstr("line 2, column 8: unknown operator 'Nonsense'"));
  EXPECT_THAT(in_body("%y = Neg(%z)"), HasSubstr("line 2, column 12: value %z is not defined"));
  EXPECT_THAT(in_body("%y = Neg(%x, %x)"),
              HasSubstr("line 2, column 8: Neg: has 2 inputs, but takes 1"));
  EXPECT_THAT(in_body("%y = Neg(%x) {axis = 1}"),
              HasSubstr("line 2, column 17: Neg has no attribute 'axis'"));
  EXPECT_THAT(in_body("%y = Softmax(%x) {axis = one}"),
              HasSubstr("line 2, column 28: expected an integer"));
  EXPECT_THAT(in_body("%y = Neg(%x) : f32[4]"),
              HasSubstr("line 2, column 18: Neg: the type of output 0 is stated as f32[4], but is "
                        "f32[batch, 4]"));
  EXPECT_THAT(in_body("%y, %z = Neg(%x)"),
              HasSubstr("line 2, column 12: the node has 1 outputs, but 2 are named"));
  EXPECT_THAT(in_body("%y = const f32[2] {1}"), HasSubstr("line 2, column 23: expected ','"));
  EXPECT_THAT(in_body("%y = const f32[2] {1, x}"),
              HasSubstr("line 2, column 25: 'x' is not a value of type f32"));
  EXPECT_THAT(in_body("%y = const i8[1] {200}"), HasSubstr("'200' is not a value of type i8"));
  EXPECT_THAT(in_body("%y = const f32[batch] splat(0)"),
              HasSubstr("must be non-negative integers"));
  EXPECT_THAT(in_body("%y = const f32[4] #0123456789abcdef"),
              HasSubstr("#0123456789abcdef is not in the pool"));
  EXPECT_THAT(in_body("%y = const f32[9999999, 9999999] splat(0)"),
              HasSubstr("too large for text"));
  EXPECT_THAT(in_body("%y = const i32[4] random(1)"),
              HasSubstr("only floats and integers of 8 bits may be random"));
  EXPECT_THAT(in_body("%y = Fused(%x) {kind = \"a\"} body(%p, %q) {"),
              HasSubstr("line 2, column 40: the body has more inputs than its node's 1"));
  EXPECT_THAT(in_body("%y = Fused(%x) {kind = \"a} body(%p) {"),
              HasSubstr("line 2, column 26: the string is not closed"));
  EXPECT_THAT(error_of("graph @main(%x: f32[]) {\n  return %x\n} more"),
              HasSubstr("line 3, column 3: unexpected text behind the graph"));
}

}  // namespace
}  // namespace sinter::ir
