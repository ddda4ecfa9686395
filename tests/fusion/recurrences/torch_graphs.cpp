// SPDX-License-Identifier: Apache-2.0
#include "tests/fusion/recurrences/torch_graphs.h"

#include <cmath>
#include <random>

#include <gmock/gmock.h>

namespace sinter::fusion {
namespace {

std::vector<Tensor> draw(const ir::Graph& graph) {
  std::mt19937 random(3);
  std::uniform_real_distribution<double> uniform(-1, 0.3);
  std::vector<Tensor> inputs;
  for (const ValueId input : graph.inputs()) {
    Ints shape;
    std::int64_t count = 1;
    for (const ir::Dim& dim : graph.type(input).shape) {
      shape.push_back(dim.value());
      count *= dim.value();
    }
    std::vector<double> values(static_cast<std::size_t>(count));
    for (double& value : values) value = uniform(random);
    inputs.push_back(Tensor::from_doubles(kF32, shape, values));
  }
  return inputs;
}

}  // namespace

int count_of(const ir::Graph& graph, std::string_view op) {
  int count = 0;
  for (const ir::Node& node : graph.nodes()) count += node.op->name == op ? 1 : 0;
  return count;
}

Context context_of_target() {
  Context context;
  for (const char* const rule : {"linear", "delta", "general_delta"})
    context.target.formats.push_back({.op = "LinearAttention", .left = kF32, .right = rule});
  return context;
}

void expect_equal(const ir::Graph& graph, const ir::Graph& found) {
  const auto inputs = draw(graph);
  ir::EvaluateOptions wide;
  wide.keep_wide = true;
  const auto expected = ir::evaluate(graph, inputs, wide), now = ir::evaluate(found, inputs, wide);
  for (std::size_t o = 0; o < expected.size(); ++o)
    for (std::int64_t i = 0; i < expected[o].element_count(); ++i)
      ASSERT_NEAR(now[o].at(i), expected[o].at(i), 1e-10) << o << " " << i;
}

ir::Graph expect_found(const ir::Graph& graph, const std::string& rule, int count) {
  Context context = context_of_target();
  const ir::Graph found = recognise_recurrences(graph, context);
  std::string reasons;
  for (const Decision& decision : context.decisions) reasons += decision.reason + "\n";
  EXPECT_EQ(count_of(found, "LinearAttention"), count) << reasons;
  EXPECT_EQ(count_of(found, "Exp"), 0);
  EXPECT_EQ(count_of(found, "While"), 0);
  EXPECT_EQ(count_of(found, "Scatter"), 0);
  for (const ir::Node& node : found.nodes())
    if (node.op->name == "LinearAttention") {
      EXPECT_EQ(node.attrs.get_string("rule"), rule);
    }
  expect_equal(graph, found);
  return found;
}

void expect_refused(const ir::Graph& graph, const std::string& why, Context context) {
  EXPECT_EQ(count_of(recognise_recurrences(graph, context), "LinearAttention"), 0);
  ASSERT_FALSE(context.decisions.empty());
  EXPECT_THAT(context.decisions.back().reason, testing::HasSubstr(why));
  EXPECT_EQ(context.decisions.back().sought, "LinearAttention");
}

}  // namespace sinter::fusion
