// States that the user names.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sinter/error.h>

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
  context.target = cpu_traits();
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
  context.target = cuda_traits();
  context.states.pairs = {{"h", "y"}};
  const ir::Graph graph = run_pipeline(ir::parse_graph(kGraph), context).graph;
  EXPECT_EQ(graph.states(), (std::vector<ir::State>{{0, 0}}));
}

TEST(States, ThatCannotBeAreRefused) {
  EXPECT_THAT(error_of({{"z", "y"}}), HasSubstr("no input 'z'; the model has 'h', 'x', 'w'"));
  EXPECT_THAT(error_of({{"h", "z"}}), HasSubstr("no output 'z'; the model has 'y', 'w'"));
  EXPECT_THAT(error_of({{"w", "y"}}), HasSubstr("'w' is f32[2], but 'y' is f32[4]"));
  EXPECT_THAT(error_of({{"h", "y"}, {"x", "y"}}), HasSubstr("'x' or its output is in two states"));
}

}  // namespace
}  // namespace sinter::fusion::test
