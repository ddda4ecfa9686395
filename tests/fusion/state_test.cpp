// SPDX-License-Identifier: Apache-2.0
// States that the user names.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sinter/error.h>

#include "codegen/targets/cpu/cpu_target.h"
#include "codegen/targets/cuda/cuda_target.h"
#include "fusion/pipeline.h"
#include "ir/text/text.h"
#include "support.h"

namespace sinter::fusion::test {
namespace {

using ::testing::HasSubstr;

constexpr const char* kGraph =
    "graph @main(%h: f32[4], %x: f32[4], %w: f32[2]) {\n"
    "  %y = Add(%h, %x)\n"
    "  return y = %y, w = %w\n"
    "}";

ir::Graph with_pairs(std::vector<std::pair<std::string, std::string>> pairs) {
  Context context;
  context.target = codegen::cpu_target().traits();
  context.states.pairs = std::move(pairs);
  return run_pass("find_states", ir::parse_graph(kGraph), context);
}

std::string error_of(std::vector<std::pair<std::string, std::string>> pairs) {
  try {
    with_pairs(std::move(pairs));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    return error.what();
  }
  return "no error";
}

TEST(States, AreWhatTheUserNames) {
  const ir::Graph graph = with_pairs({{"h", "y"}});
  ASSERT_EQ(graph.states().size(), 1u);
  EXPECT_EQ(graph.states()[0], (ir::State{0, 0}));
}

TEST(States, SurviveTheWholePipeline) {
  Context context;
  context.target = codegen::cuda_target().traits();
  context.states.pairs = {{"h", "y"}};
  const ir::Graph graph = run_checked(ir::parse_graph(kGraph), context).graph;
  EXPECT_EQ(graph.states(), (std::vector<ir::State>{{0, 0}}));
}

TEST(States, ThatCannotBeAreRefused) {
  EXPECT_THAT(error_of({{"z", "y"}}), HasSubstr("no input 'z'; the model has 'h', 'x', 'w'"));
  EXPECT_THAT(error_of({{"h", "z"}}), HasSubstr("no output 'z'; the model has 'y', 'w'"));
  EXPECT_THAT(error_of({{"w", "y"}}), HasSubstr("'w' is f32[2], but 'y' is f32[4]"));
  EXPECT_THAT(error_of({{"h", "y"}, {"x", "y"}}), HasSubstr("'x' or its output is in two states"));
}

TEST(States, WindowsOfTheLastRowsAreFound) {
  const auto graph = [](const std::string& result) {
    Context context;
    context.target = codegen::cpu_target().traits();
    return run_pass(
               "find_states",
               ir::parse_graph("graph @main(%past: f32[4, 2], %x: f32[1, 2], %p: i64[4, 1]) {\n"
                               "  %c = Iota() {shape = [1, 2], axis = 1, dtype = i64}\n"
                               "  %both = Concat(%past, %x) {axis = 0}\n"
                               "  %next = Take(%both, %p, %c)\n"
                               "  %y = Relu(%both)\n"
                               "  %z = Relu(%past)\n"
                               "  return " +
                               result + "\n}"),
               context)
        .states();
  };
  EXPECT_EQ(graph("y = %y, next = %next"), (std::vector<ir::State>{{0, 1}}));
  // Rows that nothing uses in the same run, or a past that something else reads, are no cache.
  EXPECT_EQ(graph("next = %next").size(), 0u);
  EXPECT_EQ(graph("y = %y, next = %next, z = %z").size(), 0u);
}

TEST(States, CachesAreKeptInTheLowerPrecision) {
  const ir::Graph graph = ir::parse_graph(
      "graph @main(%key: f32[8, 4], %x: f32[1, 4], %p: i64[1, 1], %h: f32[4])\n"
      "    states {output 1 -> input 0, output 2 -> input 3} {\n"
      "  %c = Iota() {shape = [1, 4], axis = 1, dtype = i64}\n"
      "  %s = Scatter(%key, %x, %p, %c)\n"
      "  %y = Relu(%s)\n"
      "  %f = Reshape(%x) {shape = [4]}\n"
      "  %n = Add(%h, %f)\n"
      "  return y = %y, key_next = %s, h_next = %n\n"
      "}");
  Context context;
  context.target = codegen::cuda_target().traits();
  context.precision = Precision::kFloat16;
  const ir::Graph lowered = run_pass("lower_precision", graph, context);
  EXPECT_EQ(lowered.type(lowered.inputs()[0]).dtype, DType::kFloat16);
  EXPECT_EQ(lowered.type(lowered.outputs()[1]).dtype, DType::kFloat16);
  EXPECT_EQ(lowered.type(lowered.outputs()[0]).dtype, DType::kFloat32);
  // What adds up from run to run would round each time.
  EXPECT_EQ(lowered.type(lowered.inputs()[3]).dtype, DType::kFloat32);
  EXPECT_EQ(lowered.type(lowered.outputs()[2]).dtype, DType::kFloat32);
  EXPECT_EQ(lowered.states(), graph.states());
}

}  // namespace
}  // namespace sinter::fusion::test
