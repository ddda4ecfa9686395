// SPDX-License-Identifier: Apache-2.0
#include "ir/graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sinter/error.h>

#include "ir/text/text.h"
#include "tests/ir/expect_error.h"
#include "tests/ir/symbols.h"

namespace sinter::ir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const TensorType kRow{DType::kFloat32, {B, 8}};

std::vector<std::string> op_names(const Graph& graph) {
  std::vector<std::string> names;
  for (const Node& node : graph.nodes()) names.push_back(node.op->name);
  return names;
}

TEST(GraphBuilder, SharesEqualNodes) {
  GraphBuilder builder;
  const ValueId x = builder.input("x", kRow), y = builder.input("y", kRow);
  const ValueId a = builder.add("Add", {x, y});
  EXPECT_EQ(builder.add("Add", {x, y}), a);
  EXPECT_EQ(builder.add("Add", {y, x}), a) << "addition is commutative";
  EXPECT_NE(builder.add("Sub", {x, y}), builder.add("Sub", {y, x}));
  const ValueId r0 =
      builder.add("ReduceSum", {x}, {{"axes", std::vector<std::int64_t>{0}}, {"keepdims", 1}});
  const ValueId r1 =
      builder.add("ReduceSum", {x}, {{"axes", std::vector<std::int64_t>{1}}, {"keepdims", 1}});
  EXPECT_NE(r0, r1);
}

TEST(GraphBuilder, SharesEqualConstants) {
  GraphBuilder builder;
  const ValueId half = builder.scalar(DType::kFloat32, 0.5);
  EXPECT_EQ(builder.scalar(DType::kFloat32, 0.5), half);
  EXPECT_NE(builder.scalar(DType::kFloat64, 0.5), half);
  EXPECT_NE(builder.scalar(DType::kFloat32, 0.25), half);
  EXPECT_NE(builder.constant(Tensor::from_doubles(DType::kFloat32, {1}, std::vector<double>{0.5})),
            half);
  EXPECT_EQ(builder.constant_of(half)->at(0), 0.5);
}

TEST(GraphBuilder, SharedNodesCollectTheirOrigins) {
  GraphBuilder builder;
  const ValueId x = builder.input("x", kRow);
  ValueId a, b;
  {
    const GraphBuilder::OriginScope outer(builder, {"second"});
    a = builder.add("Exp", {x});
    {
      const GraphBuilder::OriginScope inner(builder, {"first", "first"});
      b = builder.add("Exp", {x});
    }
    builder.output("n", builder.add("Neg", {a}));
  }
  EXPECT_EQ(a, b);
  builder.output("y", builder.add("Log", {a}));
  const Graph graph = builder.finish();
  EXPECT_THAT(graph.nodes()[0].origins, ElementsAre("first", "second"));
  EXPECT_THAT(graph.nodes()[1].origins, ElementsAre("second"));
  EXPECT_THAT(graph.nodes()[2].origins, ElementsAre());
}

/// Else each layer's kernel would name the nodes of all layers that share an epsilon.
TEST(GraphBuilder, SharedConstantsHaveNoOrigins) {
  GraphBuilder builder;
  const ValueId x = builder.input("x", kRow);
  for (const char* layer : {"first", "second"}) {
    const GraphBuilder::OriginScope scope(builder, {layer});
    const ValueId root = builder.add("Sqrt", {builder.scalar(DType::kFloat32, 2)});
    builder.output(layer, builder.add("Mul", {x, builder.add("Neg", {root})}));
    if (layer == std::string("second")) builder.output("own", builder.add("Abs", {root}));
  }
  const Graph graph = builder.finish();
  for (const Node& node : graph.nodes()) {
    const std::vector<std::string> expected =
        node.op->name == "Mul"   ? std::vector<std::string>{"first", "second"}
        : node.op->name == "Abs" ? std::vector<std::string>{"second"}
                                 : std::vector<std::string>{};
    EXPECT_EQ(node.origins, expected) << node.op->name;
  }
}

TEST(GraphBuilder, DropsWhatNoOutputNeeds) {
  GraphBuilder builder;
  const ValueId x = builder.input("x", kRow);
  const ValueId unused = builder.input("unused", kRow);
  builder.add("Exp", {unused});
  builder.scalar(DType::kFloat32, 3);
  const ValueId y = builder.add("Neg", {x});
  builder.add("Sqrt", {y});
  builder.output("y", y);
  const Graph graph = builder.finish();
  EXPECT_THAT(op_names(graph), ElementsAre("Neg"));
  EXPECT_EQ(graph.inputs().size(), 2u) << "inputs stay";
  EXPECT_EQ(graph.values().size(), 3u);
  EXPECT_THAT(graph.users(graph.inputs()[0]), ElementsAre(NodeId{0}));
  EXPECT_THAT(graph.users(graph.inputs()[1]), ElementsAre());
  EXPECT_TRUE(graph.is_output(graph.outputs()[0]));
  EXPECT_FALSE(graph.is_output(graph.inputs()[0]));
  EXPECT_EQ(graph.producer(graph.outputs()[0])->op->name, "Neg");
  EXPECT_EQ(graph.producer(graph.inputs()[0]), nullptr);
  verify(graph);
}

TEST(GraphBuilder, UsersAreListedOnce) {
  GraphBuilder builder;
  const ValueId x = builder.input("x", kRow);
  builder.output("y", builder.add("Mul", {x, x}));
  const Graph graph = builder.finish();
  EXPECT_EQ(graph.users(graph.inputs()[0]).size(), 1u);
}

TEST(GraphBuilder, ErrorsNameTheNode) {
  GraphBuilder builder;
  const ValueId x = builder.input("x", kRow);
  const ValueId i = builder.input("i", {DType::kInt64, {B, 8}});
  const GraphBuilder::OriginScope scope(builder, {"encoder/add_7"});
  EXPECT_THAT(error_of([&] {
                builder.add("Add", {x, i});
              }),
              HasSubstr("Add (from encoder/add_7): "));
  EXPECT_THAT(error_of([&] { builder.add("Add", {x}); }), HasSubstr("has 1 inputs, but takes 2"));
  EXPECT_THAT(error_of([&] { builder.add("Softmax", {x}); }),
              HasSubstr("attribute 'axis' is missing"));
  EXPECT_THAT(error_of([&] {
                builder.add("Neg", {x}, {{"axis", 1}});
              }),
              HasSubstr("unknown attribute 'axis'"));
  EXPECT_THAT(error_of([&] {
                builder.add("Softmax", {x}, {{"axis", "1"}});
              }),
              HasSubstr("attribute 'axis' is of kind string, but must be of kind int"));
  EXPECT_THAT(error_of([&] {
                builder.add("Fused", {x}, {{"kind", "pointwise"}});
              }),
              HasSubstr("is without a body"));
  EXPECT_THAT(error_of([&] { builder.add("Nonsense", {x}); }, ErrorCode::kInternal),
              HasSubstr("'Nonsense'"));
  EXPECT_THAT(error_of([&] { builder.add("Neg", {ValueId{99}}); }, ErrorCode::kInternal),
              HasSubstr("99"));
}

TEST(GraphBuilder, IntegersStandForFloatsAndDims) {
  GraphBuilder builder;
  const ValueId x = builder.input("x", {DType::kFloat32, {4, 8}});
  const ValueId y = builder.add("Reshape", {x}, {{"shape", std::vector<std::int64_t>{8, 4}}});
  EXPECT_EQ(builder.producer(y)->attrs.get_dims("shape"), (std::vector<Dim>{8, 4}));
  EXPECT_EQ(builder.type(y).shape, (Shape{8, 4}));
}

TEST(GraphBuilder, ChecksTheInterface) {
  EXPECT_THAT(error_of([] { GraphBuilder("empty").finish(); }),
              HasSubstr("graph 'empty' has no outputs"));
  const auto with_state = [](int input, int output) {
    GraphBuilder builder;
    const ValueId x = builder.input("x", kRow);
    builder.input("i", {DType::kInt64, {B}});
    builder.output("y", builder.add("Neg", {x}));
    builder.state({input, output});
    return builder.finish();
  };
  EXPECT_EQ(with_state(0, 0).states().size(), 1u);
  EXPECT_THAT(error_of([&] { with_state(1, 0); }), HasSubstr("differ"));
  EXPECT_THAT(error_of([&] { with_state(0, 3); }), HasSubstr("from output 3"));
  EXPECT_THAT(error_of([] {
                GraphBuilder().range("seq", {5, 4, nullptr});
              }),
              HasSubstr("empty range 5..4"));
}

std::shared_ptr<const Graph> exp_body(const TensorType& type) {
  GraphBuilder builder("exp");
  const ValueId x = builder.input("x", type);
  builder.output("y", builder.add("Exp", {x}));
  builder.output("z", builder.add("Neg", {x}));
  return std::make_shared<const Graph>(builder.finish());
}

TEST(GraphBuilder, FusedNodesHaveTheTypesOfTheirBody) {
  GraphBuilder builder;
  const ValueId x = builder.input("x", kRow);
  const auto outputs = builder.add_multi("Fused", {x}, {{"kind", "pointwise"}}, exp_body(kRow));
  ASSERT_EQ(outputs.size(), 2u);
  EXPECT_EQ(builder.type(outputs[0]), kRow);
  // Another body of the same structure is the same node.
  EXPECT_EQ(builder.add_multi("Fused", {x}, {{"kind", "pointwise"}}, exp_body(kRow)), outputs);
  EXPECT_THAT(error_of([&] {
                builder.add_multi("Fused", {x}, {{"kind", "pointwise"}},
                                  exp_body({DType::kFloat16, {B, 8}}));
              }),
              HasSubstr("input 0 is f32[batch, 8], but the body's input is f16[batch, 8]"));
  EXPECT_THAT(error_of([&] {
                builder.add_multi("Fused", {x, x}, {{"kind", "pointwise"}}, exp_body(kRow));
              }),
              HasSubstr("has 2 inputs, but its body has 1"));
  builder.output("z", outputs[1]);
  const Graph graph = builder.finish();
  EXPECT_EQ(graph.nodes()[0].outputs.size(), 2u)
      << "an output that is not used stays with its node";
  verify(graph);
}

Graph sample() {
  return parse_graph(R"(
graph @main(%x: f32[batch, 8], %y: f32[batch, 8]) ranges {batch: 1..64} {
  %two = const f32[] {2}
  %a = Add(%x, %y)  # from add
  %b = Mul(%a, %two)  # from mul
  %e = Exp(%b)
  return out = %e, %a
})");
}

TEST(StructuralEquality, IgnoresNamesOriginsAndNumbering) {
  EXPECT_TRUE(structurally_equal(sample(), parse_graph(R"(
graph @other(%p: f32[batch, 8], %q: f32[batch, 8]) ranges {batch: 1..64} {
  %0 = Add(%p, %q)
  %1 = const f32[] {2}
  %2 = Mul(%0, %1)
  %3 = Exp(%2)
  return first = %3, second = %0
})")));
}

TEST(StructuralEquality, SeesEveryDifference) {
  const Graph a = sample();
  EXPECT_TRUE(structurally_equal(a, sample()));
  const std::string text = print(a);
  const auto changed = [&](std::string from, std::string to) {
    std::string other = text;
    const std::size_t position = other.find(from);
    EXPECT_NE(position, std::string::npos) << from;
    other.replace(position, from.size(), to);
    return parse_graph(other);
  };
  EXPECT_FALSE(structurally_equal(a, changed("{2}", "{3}")));
  EXPECT_FALSE(structurally_equal(a, changed("Exp", "Sin")));
  EXPECT_FALSE(structurally_equal(a, changed("Mul(%a, %two)", "Mul(%x, %two)")));
  EXPECT_FALSE(structurally_equal(a, changed("Add(%x, %y)", "Add(%y, %x)")));
  EXPECT_FALSE(structurally_equal(a, changed("1..64", "1..65")));
  EXPECT_FALSE(structurally_equal(a, changed("out = %e, %a", "out = %e, %b")));
  EXPECT_FALSE(structurally_equal(a, changed("out = %e, %a", "out = %e")));
  EXPECT_TRUE(structurally_equal(a, changed("out = ", "result = ")));
  EXPECT_TRUE(structurally_equal(a, changed("# from add", "# from elsewhere")));
}

TEST(Rewrite, CopiesEverything) {
  GraphBuilder builder("model");
  builder.range("batch", {1, 64, nullptr});
  const ValueId x = builder.input("x", kRow);
  const GraphBuilder::OriginScope scope(builder, {"origin"});
  const ValueId y = builder.add("Add", {x, builder.scalar(DType::kFloat32, 1)});
  builder.name(y, "sum");
  builder.output("y", y);
  builder.state({0, 0});
  const Graph graph = builder.finish();
  const Graph copy = rewrite(graph, [](auto&&...) { return std::nullopt; });
  EXPECT_TRUE(structurally_equal(graph, copy));
  EXPECT_EQ(print(graph), print(copy));
  EXPECT_EQ(copy.name(), "model");
  EXPECT_EQ(copy.value(copy.outputs()[0]).name, "sum");
  verify(copy);
}

TEST(Rewrite, ReplacesNodesAndDropsWhatIsLeft) {
  const Graph graph = sample();
  const Graph result =
      rewrite(graph,
              [](GraphBuilder& builder, const Graph&, const Node& node,
                 std::span<const ValueId> inputs) -> std::optional<std::vector<ValueId>> {
                if (node.op->name != "Mul") return std::nullopt;
                return std::vector<ValueId>{builder.add("Add", {inputs[0], inputs[0]})};
              });
  EXPECT_TRUE(structurally_equal(result, parse_graph(R"(
graph @main(%x: f32[batch, 8], %y: f32[batch, 8]) ranges {batch: 1..64} {
  %a = Add(%x, %y)
  %b = Add(%a, %a)
  %e = Exp(%b)
  return out = %e, %a
})"))) << print(result);
  EXPECT_THAT(result.nodes()[1].origins, ElementsAre("mul"));
  EXPECT_EQ(result.value(result.nodes()[1].outputs[0]).name, "b");
}

TEST(Rewrite, RefusesAnOutputOfAnotherType) {
  const Graph graph = sample();
  EXPECT_THAT(
      error_of(
          [&] {
            rewrite(graph,
                    [](GraphBuilder& builder, const Graph&, const Node& node,
                       std::span<const ValueId> inputs) -> std::optional<std::vector<ValueId>> {
                      if (node.op->name != "Exp") return std::nullopt;
                      return std::vector<ValueId>{builder.add("IsNan", {inputs[0]})};
                    });
          },
          ErrorCode::kInternal),
      HasSubstr("output 'out' was f32[batch, 8], but has been rewritten to bool[batch, 8]"));
}

TEST(InlineGraph, ReplacesABodysInputs) {
  GraphBuilder builder;
  const ValueId x = builder.input("x", kRow);
  const auto outputs = inline_graph(builder, *exp_body(kRow), std::vector<ValueId>{x});
  EXPECT_EQ(outputs[0], builder.add("Exp", {x}));
  EXPECT_EQ(outputs[1], builder.add("Neg", {x}));
  EXPECT_THAT(error_of([&] { inline_graph(builder, *exp_body(kRow), {}); }, ErrorCode::kInternal),
              HasSubstr("'exp' has 1 inputs, but 0 values"));
}

// A Graph cannot be built wrong, so these break a finished one from outside.
class Verify : public ::testing::Test {
 protected:
  Node& node(std::size_t i) { return const_cast<Node&>(graph_.nodes()[i]); }
  Value& value(ValueId id) { return const_cast<Value&>(graph_.value(id)); }
  std::string problem() {
    return error_of([&] { verify(graph_); }, ErrorCode::kInternal);
  }

  Graph graph_ = sample();
};

TEST_F(Verify, AcceptsASoundGraph) { verify(graph_); }

TEST_F(Verify, FindsWrongTypes) {
  value(node(1).outputs[0]).type.shape = {B, 9};
  EXPECT_THAT(problem(), HasSubstr("graph 'main': node 1: Mul (from mul): output 0 is typed "
                                   "f32[batch, 9], but f32[batch, 8] is inferred"));
}

TEST_F(Verify, FindsWrongOrder) {
  node(0).inputs[0] = node(2).outputs[0];
  EXPECT_THAT(problem(), HasSubstr("which a later node makes"));
}

TEST_F(Verify, FindsWrongArity) {
  node(2).inputs.push_back(graph_.inputs()[0]);
  EXPECT_THAT(problem(), HasSubstr("has 2 inputs, but takes 1"));
}

TEST_F(Verify, FindsValuesThatDoNotExist) {
  node(2).inputs[0] = ValueId{77};
  EXPECT_THAT(problem(), HasSubstr("77 does not exist"));
}

TEST_F(Verify, FindsWrongUsers) {
  node(2).inputs[0] = graph_.inputs()[1];
  EXPECT_THAT(problem(), HasSubstr("the users of value"));
}

TEST_F(Verify, FindsWrongAttributes) {
  node(2).attrs.set("axis", std::int64_t{1});
  EXPECT_THAT(problem(), HasSubstr("unknown attribute 'axis'"));
}

TEST_F(Verify, FindsConstantsOfAnotherType) {
  value(node(1).inputs[1]).type.dtype = DType::kFloat16;
  EXPECT_THAT(problem(), HasSubstr("is typed f16[], but holds f32[]"));
}

TEST_F(Verify, FindsWrongProducers) {
  value(node(1).outputs[0]).producer = NodeId{0};
  EXPECT_THAT(problem(), HasSubstr("is not the output 0 of node 0"));
}

TEST_F(Verify, LooksIntoBodies) {
  GraphBuilder builder;
  const ValueId x = builder.input("x", kRow);
  const auto body = exp_body(kRow);
  builder.output("y", builder.add_multi("Fused", {x}, {{"kind", "pointwise"}}, body)[0]);
  const Graph graph = builder.finish();
  verify(graph);
  const_cast<Node&>(body->nodes()[0]).inputs[0] = ValueId{50};
  EXPECT_THAT(error_of([&] { verify(graph); }, ErrorCode::kInternal),
              HasSubstr("Fused: body: graph 'exp': node 0: Exp: input value 50 does not exist"));
}

}  // namespace
}  // namespace sinter::ir
