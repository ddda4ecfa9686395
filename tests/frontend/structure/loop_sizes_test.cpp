// SPDX-License-Identifier: Apache-2.0
// Loops that data ends: carried values that change their size, and outputs of each iteration.
#include <functional>
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

using Nodes = google::protobuf::RepeatedPtrField<onnx::NodeProto>;

/// Loop(`trips`, yes, x [n]) as long as the sum of "next", which `fill` makes from "v", is below
/// `most`; with `scans` it collects that sum.
ModelBuilder summing_model(std::int64_t trips, bool scans,
                           const std::function<void(Nodes&)>& fill) {
  ModelBuilder model;
  model.input("x", DType::kFloat32, {"n"}).input("most", DType::kFloat32, {});
  model.initializer("yes", bools({}, {1})).initializer("M", int64s({}, {trips}));
  model.initializer("two", floats({1}, {2})).initializer("one", floats({}, {1}));
  model.node("Loop", {"M", "yes", "x"},
             scans ? std::vector<std::string>{"last", "all"} : std::vector<std::string>{"last"});
  model.output("last");
  auto& body = add_graph(model.last_node(), "body");
  for (const char* name : {"i", "cond", "v"}) body.add_input()->set_name(name);
  auto& nodes = *body.mutable_node();
  fill(nodes);
  add_int(add_node(nodes, "ReduceSum", {"next"}, {"sum"}), "keepdims", 0);
  add_node(nodes, "Less", {"sum", "most"}, {"more"});
  add_node(nodes, "Identity", {"sum"}, {"each"});
  for (const char* name : {"more", "next"}) body.add_output()->set_name(name);
  if (scans) body.add_output()->set_name("each");
  if (scans) model.output("all");
  return model;
}

void append(Nodes& nodes) { add_int(add_node(nodes, "Concat", {"v", "two"}, {"next"}), "axis", 0); }

void twice(Nodes& nodes) { add_int(add_node(nodes, "Concat", {"v", "v"}, {"next"}), "axis", 0); }

void keep_above_one(Nodes& nodes) {
  add_node(nodes, "Greater", {"v", "one"}, {"flags"});
  add_node(nodes, "Compress", {"v", "flags"}, {"kept"});
  add_node(nodes, "Sub", {"kept", "one"}, {"less"});
  add_node(nodes, "Identity", {"less"}, {"next"});
}

Tensor number(double value) { return floats({}, {value}); }

TEST(LoopSizes, WhatGrowsHasTheSizeThatDataSays) {
  for (const std::int64_t trips : {8, 40}) {
    const ModelBuilder model = summing_model(trips, false, append);
    expect_tensor(model.run({floats({2}, {1, 1}), number(7)})[0], {5}, {1, 1, 2, 2, 2});
    expect_tensor(model.run({floats({1}, {5}), number(0)})[0], {2}, {5, 2});
    // The trip count ends it.
    EXPECT_EQ(model.run({floats({1}, {5}), number(1e9)})[0].shape(),
              std::vector<std::int64_t>{1 + trips});
  }
}

TEST(LoopSizes, WhatShrinksNeedsNoBound) {
  ModelBuilder model = summing_model(40, false, keep_above_one);
  auto& body = *model.last_node().mutable_attribute(0)->mutable_g();
  body.mutable_node(5)->set_op_type("Greater");
  expect_tensor(model.run({floats({4}, {4, 1, 3, 9}), number(5)})[0], {1}, {5});
  expect_tensor(model.run({floats({2}, {1, 1}), number(5)})[0], {0}, {});
}

TEST(LoopSizes, OthersNeedABound) {
  const ModelBuilder model = summing_model(40, false, twice);
  EXPECT_THAT(
      model.import_error(ErrorCode::kUnsupported),
      AllOf(HasSubstr("carried value 0 is f32["), HasSubstr("--bound 'the_Loop/carried0=N'")));
  ImportOptions options;
  options.bounds["the_Loop/carried0"] = 8;
  const ir::Graph graph = model.import(options).graph;
  const auto run = [&](double most) {
    return ir::evaluate(graph, std::vector{floats({2}, {1, 2}), number(most)})[0];
  };
  expect_tensor(run(7), {8}, {1, 2, 1, 2, 1, 2, 1, 2});
  EXPECT_THROW(run(20), Error);
}

TEST(LoopSizes, OutputsOfEachIterationAreAsManyAsThereAre) {
  const ModelBuilder model = summing_model(40, true, append);
  const auto out = model.run({floats({1}, {1}), number(6)});
  expect_tensor(out[0], {4}, {1, 2, 2, 2});
  expect_tensor(out[1], {3}, {3, 5, 7});
}

TEST(LoopSizes, OutputsOfALoopWithoutATripCountNeedABound) {
  const ModelBuilder model = summing_model(INT64_MAX, true, [](Nodes& nodes) {
    add_node(nodes, "Add", {"v", "two"}, {"next"});
  });
  EXPECT_THAT(
      model.import_error(ErrorCode::kUnsupported),
      AllOf(HasSubstr("it has scan outputs"), HasSubstr("--bound 'the_Loop/iterations=N'")));
  ImportOptions options;
  options.bounds["the_Loop/iterations"] = 3;
  const ir::Graph graph = model.import(options).graph;
  const auto run = [&](double most) {
    return ir::evaluate(graph, std::vector{floats({1}, {1}), number(most)});
  };
  expect_tensor(run(7)[1], {3}, {3, 5, 7});
  expect_tensor(run(4)[1], {2}, {3, 5});
  EXPECT_THROW(run(8), Error);  // it would go on
}

}  // namespace
}  // namespace sinter::frontend
