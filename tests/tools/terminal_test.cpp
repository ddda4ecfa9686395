// SPDX-License-Identifier: Apache-2.0
// What is printed for people: tables that fit, time left, no words of GPUs on the CPU.
#include <gmock/gmock.h>

#include "tests/tools/cli_fixture.h"
#include "tools/cli/console.h"
#include "tools/cli/text/compile_text.h"
#include "tools/cli/text/table.h"

namespace sinter::tests {
namespace {

using testing::HasSubstr;
using testing::Not;

std::size_t characters(const std::string& line) {
  return static_cast<std::size_t>(std::ranges::count_if(
      line, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

TEST(Table, IsNarrowedToALineAndCompleteWithoutALimit) {
  const tools::Rows rows = {
      {"step", "read", "from"},
      {"gather_add_reducemean_sub_square_rsqrt_mul_17", "123456", "a/b/c, d/e/f, g/h/ü"},
      {"cast_1", "12", "x"}};
  const std::string whole = tools::format_table(rows);
  EXPECT_THAT(whole, HasSubstr("gather_add_reducemean_sub_square_rsqrt_mul_17"));
  const std::string narrow = tools::format_table(rows, 50);
  std::istringstream lines(narrow);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(characters(line), 50U) << line;
  EXPECT_THAT(narrow, HasSubstr("_mul_17"));  // names keep their end, too
  EXPECT_THAT(narrow, HasSubstr("…"));
  EXPECT_THAT(narrow, HasSubstr("123456"));
  EXPECT_EQ(tools::format_table(rows, 500), whole);
  EXPECT_THAT(tools::format_table(rows, 1), HasSubstr("123456"));  // as narrow as it gets
}

TEST(Table, IsNeverCutInsideACharacter) {
  const tools::Rows rows = {{"name", "text"}, {"üüüüüüüüüüüüüüüüüüüü", "ééééééééééééééééééééé"}};
  const std::string narrow = tools::format_table(rows, 26);
  for (const char* text : {"üüüüü…üüüüüü", "ééééééééééé…"}) EXPECT_THAT(narrow, HasSubstr(text));
}

TEST(Console, TimeLeftIsSaidOnceItMeansSomething) {
  EXPECT_EQ(tools::time_left(0.5, 1, 10), "");
  EXPECT_EQ(tools::time_left(5, 0, 10), "");
  EXPECT_EQ(tools::time_left(5, 10, 10), "");
  EXPECT_EQ(tools::time_left(5, 1, 10), " 45 s left");
  EXPECT_EQ(tools::time_left(60, 1, 11), " 10 min left");
}

TEST(FusionText, SaysTheLargestThatAreNotFused) {
  CompileResult result;
  for (const char* op :
       {"Add", "Sub", "Mul", "Div", "Exp", "Log", "Sin", "Cos", "Tan", "Abs", "Neg"})
    result.decisions.push_back({op, "MatMul", false, "because", 1000});
  for (int i = 0; i < 3; ++i)
    result.decisions.push_back({fmt::format("Gelu_{}", i), "MatMul", false, "because", 5000});
  result.decisions.push_back({"Add", "Relu", true, "saves 1 kB", 1e9});
  const auto lines = tools::fusion_text(result, false);
  ASSERT_EQ(lines.size(), 12U);
  EXPECT_EQ(lines[0], "fusion: 1 of 15 pairs fused, 14 not; the 10 largest of 12 kinds:");
  EXPECT_THAT(lines[1],
              testing::StartsWith("[ ] Gelu_0 -> MatMul, and 2 like it (15.0 kB at stake)"));
  EXPECT_EQ(tools::fusion_text(result, true).size(), 15U);
}

class TerminalTest : public CliTest {};

TEST_F(TerminalTest, TheCpuHasNoWordsOfGpus) {
  const auto compiled =
      sinter({"compile", save(small_model()), "-o", path("model.plan"), "--target=cpu"});
  EXPECT_THAT(compiled.out, HasSubstr("4 nodes -> 2 steps for cpu"));
  const auto bench = sinter({"bench", path("model.plan"), "--iterations=2"});
  EXPECT_THAT(bench.out, HasSubstr("compute (cold caches)"));
  for (const char* words : {"host to device", "device to host", "L2"})
    EXPECT_THAT(bench.out, Not(HasSubstr(words)));
}

TEST_F(TerminalTest, FusionIsExplainedInShortOrWhole) {
  const auto model = save(small_model());
  const auto explain = [&](const std::string& option) {
    return sinter({"compile", model, "-o", path("a.plan"), "--target=cpu", option});
  };
  EXPECT_THAT(explain("--explain-fusion").out, HasSubstr("pairs fused"));
  EXPECT_THAT(explain("--explain-fusion=all").out, HasSubstr("[x] "));
  EXPECT_EQ(explain("--explain-fusion=some").code, 2);
}

TEST_F(TerminalTest, FusedGraphsAreWrittenAsOnnx) {
  const std::string plan = compile_small();
  const std::string onnx_option = "--onnx=" + path("fused.onnx");
  for (const auto& words : {std::vector<std::string>{"inspect", path("model.onnx"), "--target=cpu"},
                            std::vector<std::string>{"inspect", plan}}) {
    std::vector<std::string> command = words;
    command.push_back(onnx_option);
    const auto result = sinter(command);
    EXPECT_EQ(result.code, 0) << result.err;
    onnx::ModelProto fused;
    ASSERT_TRUE(fused.ParseFromString(read(path("fused.onnx"))));
    EXPECT_EQ(fused.functions_size(), 2);
    EXPECT_EQ(fused.graph().output(0).name(), "y");
  }
  EXPECT_EQ(sinter({"inspect", plan, "--onnx", plan}).code, 2);
  const auto weights = sinter({"inspect", plan, "--onnx", path("f.onnx"), "--with-weights"});
  EXPECT_EQ(weights.code, 2);
  EXPECT_THAT(weights.err, HasSubstr("give the model"));
}

}  // namespace
}  // namespace sinter::tests
