// SPDX-License-Identifier: Apache-2.0
// If, Loop and Scan: what is decided and unrolled at import, and what stays; and damage to a model
// that has them.
#include <algorithm>
#include <optional>
#include <span>
#include <string>

#include <onnx.pb.h>

#include "ir/reference/evaluate.h"
#include "model_parts.h"
#include "tests/frontend/op_test_support.h"

namespace sinter::frontend {
namespace {

using ir::Tensor;
using testing::AllOf;
using testing::HasSubstr;

/// y = If(cond): x + x, or neg(x) of the outer graph.
ModelBuilder if_model(bool constant_condition, std::int64_t condition) {
  ModelBuilder model;
  model.input("x", DType::kFloat32, {2});
  if (constant_condition)
    model.initializer("c", bools({1}, {condition}));
  else
    model.input("c", DType::kBool, {1});
  model.node("Neg", {"x"}, {"neg"});
  model.node("If", {"c"}, {"y"}).output("y");
  auto& yes = add_graph(model.last_node(), "then_branch");
  add_node(*yes.mutable_node(), "Add", {"x", "x"}, {"sum"});
  yes.add_output()->set_name("sum");
  auto& no = add_graph(model.last_node(), "else_branch");
  no.add_output()->set_name("neg");
  return model;
}

TEST(If, KnownConditionTakesItsBranch) {
  const Tensor x = floats({2}, {1, -2});
  expect_tensor(if_model(true, 1).run({x})[0], {2}, {2, -4});
  expect_tensor(if_model(true, 0).run({x})[0], {2}, {-1, 2});
  const ImportedModel imported = if_model(true, 1).import();
  for (const auto& node : imported.graph.nodes()) EXPECT_EQ(node.op->name, "Add");
}

TEST(If, UnknownConditionSelects) {
  const Tensor x = floats({2}, {1, -2});
  const ModelBuilder model = if_model(false, 0);
  expect_tensor(model.run({x, bools({1}, {1})})[0], {2}, {2, -4});
  expect_tensor(model.run({x, bools({1}, {0})})[0], {2}, {-1, 2});
}

/// y = If(cond): x x, or neg(x) of the outer graph; z: x + x, or Softmax(x).
ModelBuilder if_model_of_products() {
  ModelBuilder model;
  model.input("x", DType::kFloat32, {2, 2}).input("c", DType::kBool, {1});
  model.node("Neg", {"x"}, {"neg"});
  model.node("If", {"c"}, {"y", "z"}).output("y").output("z");
  auto& yes = add_graph(model.last_node(), "then_branch");
  add_node(*yes.mutable_node(), "MatMul", {"x", "x"}, {"product"});
  add_node(*yes.mutable_node(), "Add", {"x", "x"}, {"sum"});
  yes.add_output()->set_name("product");
  yes.add_output()->set_name("sum");
  auto& no = add_graph(model.last_node(), "else_branch");
  add_node(*no.mutable_node(), "Softmax", {"x"}, {"soft"});
  no.add_output()->set_name("neg");
  no.add_output()->set_name("soft");
  return model;
}

TEST(If, UnknownConditionTakesOneBranchOfMoreThanAFewOperators) {
  const ModelBuilder model = if_model_of_products();
  const Tensor x = floats({2, 2}, {1, -2, 0, 3});
  const auto yes = model.run({x, bools({1}, {1})}), no = model.run({x, bools({1}, {0})});
  expect_tensor(yes[0], {2, 2}, {1, -8, 0, 9});
  expect_tensor(yes[1], {2, 2}, {2, -4, 0, 6});
  expect_tensor(no[0], {2, 2}, {-1, 2, 0, -3});
  EXPECT_NEAR(no[1].at(0), 0.952574, 1e-5);
  int branches = 0;
  const ImportedModel imported = model.import();
  for (const auto& node : imported.graph.nodes()) {
    EXPECT_NE(node.op->name, "Where");
    EXPECT_NE(node.op->name, "MatMul");  // it lies in a body
    branches += node.op->name == "While" && node.attrs.get_dims("trips") == std::vector{ir::Dim(1)};
  }
  EXPECT_EQ(branches, 2);
}

/// The same, but x and x + x side by side.
ModelBuilder if_model_of_two_shapes() {
  ModelBuilder model = if_model(false, 0);
  auto& yes = *model.last_node().mutable_attribute(0)->mutable_g();
  add_int(add_node(*yes.mutable_node(), "Concat", {"x", "sum"}, {"both"}), "axis", 0);
  yes.mutable_output(0)->set_name("both");
  return model;
}

TEST(If, AComputedConditionMayDecideASize) {
  ModelBuilder model = if_model_of_two_shapes();
  model.last_node().set_input(0, "computed");
  auto& computed = add_node(*model.graph().mutable_node(), "Not", {"c"}, {"computed"});
  computed.set_name("the_Not");
  const ir::Graph graph = model.import().graph;
  EXPECT_EQ(ir::to_string(graph.type(graph.outputs()[0])), "f32[2*\"the_If/condition\" + 2]");
}

TEST(If, AnInputMayChooseBetweenShapes) {
  const ImportedModel model = if_model_of_two_shapes().import();
  ASSERT_TRUE(model.flag);
  EXPECT_EQ(model.flag->input, "c");
  EXPECT_EQ(ir::to_string(model.graph.type(model.graph.outputs()[0])), "f32[2*c + 2]");
  const auto& graphs = model.flag->graphs;
  EXPECT_EQ(ir::to_string(graphs[0].type(graphs[0].outputs()[0])), "f32[2]");
  EXPECT_EQ(ir::to_string(graphs[1].type(graphs[1].outputs()[0])), "f32[4]");
  ImportOptions options;
  options.flags["c"] = true;
  EXPECT_FALSE(if_model_of_two_shapes().import(options).flag);
}

TEST(If, ConditionOnSizesMayDecideSizes) {
  for (const char* test : {"Greater", "LessOrEqual"}) {
    ModelBuilder model;
    model.input("x", DType::kFloat32, {2}).input("text", DType::kFloat32, {"n"});
    model.node("Shape", {"text"}, {"length"}).ints("limit", {3});
    model.node(test, {"length", "limit"}, {"c"});
    model.node("If", {"c"}, {"y"}).output("y");
    auto& yes = add_graph(model.last_node(), "then_branch");
    add_int(add_node(*yes.mutable_node(), "Concat", {"x", "x"}, {"both"}), "axis", 0);
    yes.add_output()->set_name("both");
    auto& no = add_graph(model.last_node(), "else_branch");
    add_node(*no.mutable_node(), "Neg", {"x"}, {"neg"});
    no.add_output()->set_name("neg");
    const Tensor x = floats({2}, {1, -2});
    const std::int64_t yes_at = test == std::string("Greater") ? 4 : 3;
    expect_tensor(model.run({x, ramp({yes_at})})[0], {4}, {1, -2, 1, -2});
    expect_tensor(model.run({x, ramp({7 - yes_at})})[0], {2}, {-1, 2});
  }
}

TEST(If, UntakenBranchMayHoldAnything) {
  ModelBuilder model = if_model(true, 0);
  auto& yes = *model.last_node().mutable_attribute(0)->mutable_g();
  yes.mutable_node(0)->set_op_type("Frobnicate");
  expect_tensor(model.run({floats({2}, {1, -2})})[0], {2}, {-1, 2});
}

/// Loop(M, cond, x): v = v + x (of the outer graph) + i; scan output v. Goes on while i < `stop`.
ModelBuilder loop_model(std::int64_t trips, std::int64_t stop) {
  ModelBuilder model;
  model.input("x", DType::kFloat32, {2}).initializer("M", int64s({}, {trips}));
  model.initializer("stop", int64s({}, {stop}));
  model.node("Loop", {"M", "", "x"}, {"last", "all"}).output("last").output("all");
  auto& body = add_graph(model.last_node(), "body");
  for (const char* name : {"i", "cond", "v"}) body.add_input()->set_name(name);
  auto& nodes = *body.mutable_node();
  add_int(add_node(nodes, "Cast", {"i"}, {"f"}), "to", 1);
  add_node(nodes, "Add", {"v", "x"}, {"s"});
  add_node(nodes, "Add", {"s", "f"}, {"next"});
  add_node(nodes, "Less", {"i", "stop"}, {"more"});
  add_node(nodes, "Identity", {"next"}, {"scanned"});
  for (const char* name : {"more", "next", "scanned"}) body.add_output()->set_name(name);
  return model;
}

TEST(Loop, UnrollsAndStacks) {
  const Tensor x = floats({2}, {1, 10});
  const auto by_count = loop_model(3, 100).run({x});
  expect_tensor(by_count[0], {2}, {7, 43});
  expect_tensor(by_count[1], {3, 2}, {2, 20, 4, 31, 7, 43});
  const auto by_condition = loop_model(100, 1).run({x});
  expect_tensor(by_condition[0], {2}, {4, 31});
  const auto never = loop_model(0, 1).run({x});
  expect_tensor(never[0], {2}, {1, 10});
  EXPECT_EQ(never[1].shape(), (std::vector<std::int64_t>{0, 2}));
}

TEST(Loop, StaysALoopIfItIsLong) {
  ModelBuilder model = loop_model(60, 1 << 20);
  auto& body = *model.last_node().mutable_attribute(0)->mutable_g();
  body.mutable_output(0)->set_name("cond");
  const ir::Graph graph = model.import().graph;
  EXPECT_EQ(std::count_if(graph.nodes().begin(), graph.nodes().end(),
                          [](const ir::Node& node) { return node.op->name == "While"; }),
            1);
  const Tensor x = floats({2}, {1, 10});
  const auto out = model.run({x});
  expect_tensor(out[0], {2}, {61 + 1770, 610 + 1770});
  EXPECT_EQ(out[1].shape(), (std::vector<std::int64_t>{60, 2}));
  EXPECT_EQ(out[1].to_doubles()[2], 4);  // behind the second iteration: 2 + 1 + 1
}

TEST(Loop, WhoseCountIsDataCarriesValuesOnly) {
  ModelBuilder model = loop_model(3, 100);
  model.graph().mutable_initializer(0)->set_name("unused");
  model.input("M", DType::kInt64, {});
  EXPECT_THAT(model.import_error(ErrorCode::kUnsupported),
              AllOf(HasSubstr("'the_Loop' (Loop-17)"), HasSubstr("it has scan outputs")));
  auto& loop = model.last_node();
  loop.mutable_output()->RemoveLast();
  loop.mutable_attribute(0)->mutable_g()->mutable_output()->RemoveLast();
  model.graph().mutable_output()->RemoveLast();
  const Tensor x = floats({2}, {1, 10});
  expect_tensor(model.run({x, Tensor::scalar(DType::kInt64, 3)})[0], {2}, {7, 43});
  expect_tensor(model.run({x, Tensor::scalar(DType::kInt64, 0)})[0], {2}, {1, 10});
}

/// Loop(M, yes, x) as TorchScript writes a while loop: v = v + v as long as its sum is below
/// `most`.
ModelBuilder while_model(const std::optional<std::int64_t>& trips) {
  ModelBuilder model;
  model.input("x", DType::kInt64, {2}).input("most", DType::kInt64, {});
  model.initializer("yes", bools({}, {1}));
  if (trips) model.initializer("M", int64s({}, {*trips}));
  model.node("Loop", {trips ? "M" : "", "yes", "x"}, {"last"}).output("last");
  auto& body = add_graph(model.last_node(), "body");
  for (const char* name : {"i", "cond", "v"}) body.add_input()->set_name(name);
  auto& nodes = *body.mutable_node();
  add_node(nodes, "Add", {"v", "v"}, {"next"});
  add_int(add_node(nodes, "ReduceSum", {"next"}, {"sum"}), "keepdims", 0);
  add_node(nodes, "Less", {"sum", "most"}, {"more"});
  for (const char* name : {"more", "next"}) body.add_output()->set_name(name);
  return model;
}

TEST(Loop, ATripCountThatNoRunReachesIsNone) {
  const auto run = [](const ModelBuilder& model, std::int64_t most) {
    return model.run({int64s({2}, {1, 2}), int64s({}, {most})})[0];
  };
  const auto trips_of = [](const ModelBuilder& model) {
    const ir::Graph graph = model.import().graph;
    const auto loop = std::ranges::find_if(
        graph.nodes(), [](const ir::Node& node) { return node.op->name == "While"; });
    EXPECT_NE(loop, graph.nodes().end());
    EXPECT_EQ(loop->attrs.get_int("checked"), 1);
    return loop->attrs.get_dims("trips");
  };
  for (const auto& trips : {std::optional<std::int64_t>(INT64_MAX),
                            {INT64_MAX - 1},
                            {1LL << 62},
                            std::optional<std::int64_t>()}) {
    const ModelBuilder model = while_model(trips);
    expect_tensor(run(model, 100), {2}, {64, 128});
    expect_tensor(run(model, 0), {2}, {2, 4});
    EXPECT_TRUE(trips_of(model).empty());
  }
  const ModelBuilder bounded = while_model(1LL << 31);
  expect_tensor(run(bounded, 100), {2}, {64, 128});
  EXPECT_EQ(trips_of(bounded), (std::vector{ir::Dim(std::int64_t{1} << 31)}));
  expect_tensor(run(while_model(2), 100), {2}, {4, 8});
}

/// What it collects is as long as what its body says, if that is known.
TEST(Loop, WithoutATripCountIsFollowedAsItsBodySays) {
  const Tensor x = floats({2}, {1, 10});
  ModelBuilder model = loop_model(INT64_MAX, 1);
  for (const bool given : {true, false}) {
    if (!given) model.last_node().set_input(0, "");
    const auto out = model.run({x});
    expect_tensor(out[0], {2}, {4, 31});
    expect_tensor(out[1], {2, 2}, {2, 20, 4, 31});
  }
  // Longer than what is unrolled it stays a loop.
  ModelBuilder longer = loop_model(INT64_MAX, 3000);
  longer.last_node().mutable_output()->RemoveLast();
  longer.last_node().mutable_attribute(0)->mutable_g()->mutable_output()->RemoveLast();
  longer.graph().mutable_output()->RemoveLast();
  expect_tensor(longer.run({x})[0], {2}, {3002 + 4501500, 30020 + 4501500});
}

/// As tf2onnx writes a while loop whose condition is of shapes: [1] grows as long as it is short.
TEST(Loop, AConditionOfSizesIsFollowed) {
  ModelBuilder model;
  model.input("x", DType::kInt64, {1}).initializer("yes", bools({}, {1})).ints("two", {2});
  model.initializer("ten", floats({}, {10}));
  model.node("Loop", {"", "yes", "x"}, {"last"}).output("last");
  auto& body = add_graph(model.last_node(), "body");
  for (const char* name : {"i", "cond", "v"}) body.add_input()->set_name(name);
  auto& nodes = *body.mutable_node();
  add_int(add_node(nodes, "Concat", {"v", "two"}, {"longer"}), "axis", 0);
  add_node(nodes, "Shape", {"longer"}, {"shape"});
  add_int(add_node(nodes, "Cast", {"shape"}, {"size"}), "to", 1);
  add_node(nodes, "Less", {"size", "ten"}, {"short"});
  add_node(nodes, "Squeeze", {"short"}, {"more"});
  for (const char* name : {"more", "longer"}) body.add_output()->set_name(name);
  expect_tensor(model.run({int64s({1}, {7})})[0], {10}, {7, 2, 2, 2, 2, 2, 2, 2, 2, 2});
}

TEST(Loop, WithoutAnEndIsRefused) {
  const auto error = [](const std::string& trips, const std::string& condition) {
    ModelBuilder model = loop_model(INT64_MAX, 1);
    model.input("go", DType::kBool, {});
    model.last_node().set_input(0, trips);
    model.last_node().set_input(1, condition);
    auto& body = *model.last_node().mutable_attribute(0)->mutable_g();
    body.mutable_output(0)->set_name("yes");
    model.initializer("yes", bools({}, {1}));
    return model.import_error(ErrorCode::kInvalidModel);
  };
  for (const char* trips : {"M", ""})
    for (const char* condition : {"", "go"})
      EXPECT_THAT(error(trips, condition),
                  AllOf(HasSubstr("'the_Loop' (Loop-17)"), HasSubstr("it has no end")));
}

/// Given the inputs that decide it, what a loop collects has a size.
TEST(Loop, NamesTheInputsThatEndIt) {
  ModelBuilder model = loop_model(INT64_MAX, 1);
  model.graph().mutable_initializer(1)->set_name("unused");
  model.input("stop", DType::kInt64, {});
  EXPECT_THAT(model.import_error(ErrorCode::kUnsupported),
              AllOf(HasSubstr("it has scan outputs"), HasSubstr("--constant stop=FILE")));
  ImportOptions options;
  options.input_values.emplace("stop", Tensor::scalar(DType::kInt64, 2));
  const auto out = ir::evaluate(model.import(options).graph, std::vector{floats({2}, {1, 10})});
  EXPECT_EQ(out[1].shape(), (std::vector<std::int64_t>{3, 2}));
}

/// x [n, 2] as a carried value, n iterations, whose bodies are `fill`ed: from "v" to "longer".
ModelBuilder carrying_model(const std::function<void(onnx::GraphProto& body)>& fill) {
  ModelBuilder model;
  model.input("x", DType::kFloat32, {"n", 2}).node("Shape", {"x"}, {"shape"});
  model.initializer("zero", int64s({}, {0})).node("Gather", {"shape", "zero"}, {"M"});
  model.ints("zeros", {0}).node("Loop", {"M", "", "x"}, {"last"}).output("last");
  auto& body = add_graph(model.last_node(), "body");
  for (const char* name : {"i", "cond", "v"}) body.add_input()->set_name(name);
  fill(body);
  for (const char* name : {"cond", "longer"}) body.add_output()->set_name(name);
  return model;
}

TEST(Loop, CarriesValuesOfBoundedSizes) {
  const ModelBuilder model = carrying_model([](onnx::GraphProto& body) {
    add_int(add_node(*body.mutable_node(), "Concat", {"v", "v"}, {"longer"}), "axis", 0);
  });
  EXPECT_THAT(model.import_error(ErrorCode::kUnsupported),
              AllOf(HasSubstr("'the_Loop' (Loop-17)"), HasSubstr("carried value 0 is f32["),
                    HasSubstr("--bound 'the_Loop/carried0=N'")));
}

TEST(Loop, CarriesWhatGrowsByOneShape) {
  const ModelBuilder model = carrying_model([](onnx::GraphProto& body) {
    add_node(*body.mutable_node(), "Gather", {"x", "i"}, {"row"});
    add_node(*body.mutable_node(), "Unsqueeze", {"row", "zeros"}, {"piece"});
    add_int(add_node(*body.mutable_node(), "Concat", {"piece", "v"}, {"longer"}), "axis", -2);
  });
  // In front of what there was, so that the last one is the first.
  expect_tensor(model.run({floats({2, 2}, {1, 2, 3, 4})})[0], {4, 2}, {3, 4, 1, 2, 1, 2, 3, 4});
}

TEST(Loop, DoesNotCollectWhatIsOfAnotherSizeEachTime) {
  const ModelBuilder model = carrying_model([](onnx::GraphProto& body) {
    auto& nodes = *body.mutable_node();
    add_node(nodes, "Gather", {"x", "i"}, {"row"});
    add_node(nodes, "NonZero", {"row"}, {"places"});
    add_int(add_node(nodes, "Cast", {"places"}, {"floats"}), "to", 1);
    add_node(nodes, "Transpose", {"floats"}, {"column"});
    add_int(add_node(nodes, "Concat", {"column", "column"}, {"piece"}), "axis", 1);
    add_int(add_node(nodes, "Concat", {"v", "piece"}, {"longer"}), "axis", 0);
  });
  EXPECT_THAT(model.import_error(ErrorCode::kUnsupported),
              AllOf(HasSubstr("'the_Loop' (Loop-17)"), HasSubstr("pad it to one size")));
}

TEST(Loop, NestedLoopsAreNested) {
  ModelBuilder model = loop_model(1000, 1 << 20);
  const onnx::AttributeProto original = model.last_node().attribute(0);
  auto& body = *model.last_node().mutable_attribute(0)->mutable_g();
  auto& inner = add_node(*body.mutable_node(), "Loop", {"M", "", "next"}, {"deep", "deeper"});
  *inner.add_attribute() = original;
  body.mutable_output(0)->set_name("cond");
  inner.mutable_attribute(0)->mutable_g()->mutable_output(0)->set_name("cond");
  body.mutable_output(1)->set_name("deep");
  EXPECT_LT(model.import().graph.nodes().size(), 20u);
}

TEST(Scan, UnrollsInBothDirections) {
  ModelBuilder model;
  model.input("s", DType::kFloat32, {}).input("x", DType::kFloat32, {3});
  model.node("Scan", {"s", "x"}, {"last", "sums"}, {attr("num_scan_inputs", 1)});
  add_graph(model.last_node(), "body");
  auto& body = *model.last_node().mutable_attribute(1)->mutable_g();
  for (const char* name : {"state", "element"}) body.add_input()->set_name(name);
  add_node(*body.mutable_node(), "Add", {"state", "element"}, {"next"});
  add_node(*body.mutable_node(), "Identity", {"next"}, {"copy"});
  for (const char* name : {"next", "copy"}) body.add_output()->set_name(name);
  model.output("last").output("sums");
  const std::vector<Tensor> inputs{floats({}, {100}), floats({3}, {1, 2, 3})};
  const auto forward = model.run(inputs);
  expect_tensor(forward[0], {}, {106});
  expect_tensor(forward[1], {3}, {101, 103, 106});
  for (const char* name : {"scan_input_directions", "scan_output_directions"}) {
    auto* attribute = model.last_node().add_attribute();
    attribute->set_name(name);
    attribute->set_type(onnx::AttributeProto::INTS);
    attribute->add_ints(1);
  }
  expect_tensor(model.run(inputs)[1], {3}, {106, 105, 103});
}

/// A model with functions, control flow and sparse tensors, and of operators that read much from
/// constants.
std::string nested_model() {
  ModelBuilder model = loop_model(3, 100);
  auto& leaky = add_function(model, "my", "Leaky", {"a"}, {"b"});
  leaky.add_attribute("slope");
  add_reference(add_node(*leaky.mutable_node(), "LeakyRelu", {"a"}, {"b"}), "alpha", "slope",
                onnx::AttributeProto::FLOAT);
  model.node("Leaky", {"last"}, {"f"}, {attr("slope", 0.5f)}).output("f");
  model.last_node().set_domain("my");
  model.initializer("c", bools({1}, {1}));
  model.node("If", {"c"}, {"branch"}).output("branch");
  auto& yes = add_graph(model.last_node(), "then_branch");
  add_node(*yes.mutable_node(), "Add", {"f", "last"}, {"sum"});
  yes.add_output()->set_name("sum");
  add_graph(model.last_node(), "else_branch").add_output()->set_name("last");
  *model.graph().add_sparse_initializer() =
      sparse("s", floats({2}, {5, 7}), int64s({2}, {1, 5}), {1, 2, 3});
  model.initializer("w", ramp({1, 4, 3})).initializer("r", ramp({1, 4, 1}));
  model.node("LSTM", {"s", "w", "r"}, {"h"}, {attr("hidden_size", 1)}).output("h");
  model.node("ConvTranspose", {"s", "k"}, {"t"}, {attr("strides", std::vector<std::int64_t>{2})});
  model.initializer("k", ramp({2, 1, 2})).output("t");
  model.initializer("b", Tensor::from_ints(DType::kUInt8, {1, 1, 8}, {{1, 2, 3, 4, 5, 6, 7, 8}}));
  model.initializer("scale", floats({1}, {0.5}));
  model.node("MatMulNBits", {"s", "b", "scale"}, {"q"},
             {attr("K", 3), attr("N", 1), attr("block_size", 16)});
  model.last_node().set_domain("com.microsoft");
  model.output("q");
  return model.bytes();
}

TEST(Damage, NestedModelsThrowOrImport) {
  const std::string bytes = nested_model();
  const auto import = [](const std::string& text) {
    return import_model_bytes(std::as_bytes(std::span(text)), "");
  };
  EXPECT_NO_THROW(import(bytes));
  std::size_t refused = 0;
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    std::string changed = bytes;
    constexpr unsigned char kFlips[] = {0x01, 0x80, 0xff, 0x04};
    changed[at] = static_cast<char>(static_cast<unsigned char>(changed[at]) ^ kFlips[at % 4]);
    try {
      import(changed);
    } catch (const Error& error) {
      EXPECT_NE(error.code(), ErrorCode::kInternal) << at << ": " << error.what();
      ++refused;
    }
  }
  EXPECT_GT(refused, bytes.size() / 4);
}

}  // namespace
}  // namespace sinter::frontend
