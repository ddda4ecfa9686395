// SPDX-License-Identifier: Apache-2.0
// --trace of run, bench and profile.
#include <nlohmann/json.hpp>

#include <gmock/gmock.h>

#include "tests/tools/cli_fixture.h"

namespace sinter::tests {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

class TraceTest : public CliTest {
 protected:
  /// The events of a category in what `words` and --trace write.
  std::vector<json> events(std::vector<std::string> words, const std::string& category) {
    words.insert(words.end(), {"--trace", path("trace.json")});
    const auto result = sinter(words);
    EXPECT_EQ(result.code, 0) << result.err;
    const json trace = json::parse(read(path("trace.json")));
    std::vector<json> found;
    for (const auto& event : trace.at("traceEvents"))
      if (event.value("cat", "") == category) found.push_back(event);
    return found;
  }
};

TEST_F(TraceTest, HasAnEventForEachStepAndPartInTheirOrder) {
  const std::string plan = compile_small();
  for (const auto& words : {std::vector<std::string>{"run", plan},
                            {"bench", plan, "--iterations=2", "--warmUp=0"},
                            {"profile", plan, "--rounds=1"}}) {
    const auto steps = events(words, "step");
    ASSERT_EQ(steps.size(), 2U) << words[0];
    EXPECT_THAT(steps[0].at("name").get<std::string>(), testing::StartsWith("matmul"));
    EXPECT_THAT(steps[0].at("args").at("onnx"), ElementsAre("activation", "bias", "product"));
    EXPECT_EQ(steps[0].at("ph"), "X");
    EXPECT_EQ(steps[0].at("ts"), 0.0);
    EXPECT_GE(steps[1].at("ts"), steps[0].at("dur"));
    EXPECT_GE(events(words, "part").size(), 2U);
    EXPECT_EQ(events(words, "run").size(), words[0] == "run" ? 0U : 1U);
  }
}

TEST_F(TraceTest, IsNeverAnInputAndOfOnePlan) {
  const std::string plan = compile_small();
  EXPECT_EQ(sinter({"run", plan, "--trace", plan}).code, 2);
  EXPECT_EQ(sinter({"profile", plan, "--trace", plan}).code, 2);
  const auto two = sinter({"bench", plan, plan, "--trace", path("trace.json")});
  EXPECT_EQ(two.code, 2);
  EXPECT_THAT(two.err, HasSubstr("--trace is of one plan"));
  EXPECT_FALSE(std::filesystem::exists(path("trace.json")));
}

#ifdef NVTX_LISTENER
/// In a process of its own, as NVTX looks for profilers once.
TEST_F(TraceTest, ProfilersSeeStepsWithTheirOnnxNodes) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  setenv("NVTX_LISTENER_LOG", path("ranges").c_str(), 0);  // the other process has its own folder
  const std::string log = getenv("NVTX_LISTENER_LOG");
  EXPECT_EXIT(
      {
        setenv("NVTX_INJECTION64_PATH", NVTX_LISTENER, 1);
        std::exit(sinter({"run", compile_small(), "--shapes=x:3x8"}).code);
      },
      testing::ExitedWithCode(0), "");
  unsetenv("NVTX_LISTENER_LOG");
  EXPECT_THAT(read(log),
              testing::MatchesRegex("matmul[^\n]*: activation, bias, product\n[^\n]+\n"));
}
#endif

}  // namespace
}  // namespace sinter::tests
