// SPDX-License-Identifier: Apache-2.0
// Reductions of rows that lie side by side: threads take vectors of rows.
#ifdef SINTER_WITH_CUDA
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/text/text.h"
#include "tests/codegen/emulation/cuda_check.h"

namespace sinter::test {
namespace {

void add(CudaCheck& check, const std::string& name, const std::string& text,
         const std::string& schedule = "", std::vector<ir::Bindings> symbols = {{}}) {
  ProgramBuilder program = lowered_program(check.exprs, ir::parse_graph(text));
  program.schedule = schedule;
  check.add(name, std::move(program), std::move(symbols));
}

/// Softmax over the middle axis with a bias for each channel, and what it was divided by.
std::string softmax_of_columns(const char* type, int batch, int length, int channels) {
  return fmt::format(
      "graph @g(%x: {0}[{1}, {2}, {3}], %b: {0}[{3}], %w: {0}[{2}, 1]) {{\n  %m0 = Mul(%x, %w)\n"
      "  %a = Add(%m0, %b)\n  %m = ReduceMax(%a) {{axes = [1], keepdims = 1}}\n"
      "  %d = Sub(%a, %m)\n  %e = Exp(%d)\n"
      "  %s = ReduceSum(%e) {{axes = [1], keepdims = 1}}\n  %y = Div(%e, %s)\n"
      "  %l = Log(%s)\n  %q = Reshape(%l) {{shape = [{1}, {3}]}}\n  return y = %y, q = %q\n}}\n",
      type, batch, length, channels);
}

TEST(CudaColumn, VectorsThatLoopAndThatHold) {
  CudaCheck check;
  int number = 0;
  for (const char* schedule :
       {"column vector=8 looped threads=8x4 ahead=4", "column vector=4 looped threads=16x8",
        "column vector=2 unroll=5 threads=16x8", "column vector=8 unroll=5 threads=4x8 lean again",
        "column vector=8 unroll=1 threads=4x64", "column vector=8 unroll=37 threads=32x1",
        "column vector=1 unroll=5 threads=32x8", "column vector=4 looped threads=32x1 ahead=2"})
    add(check, fmt::format("s{}", number++), softmax_of_columns("f16", 3, 37, 80), schedule);
  EXPECT_EQ(check.run(), "");
  EXPECT_EQ(check.schedules_run().size(), 8u);
}

TEST(CudaColumn, ChosenForEveryType) {
  CudaCheck check;
  int number = 0;
  const std::tuple<int, int, int> shapes[] = {{2, 40, 64}, {1, 300, 36}, {3, 21, 33}};
  for (const char* type : {"f32", "bf16", "f64"})
    for (const auto& [batch, length, channels] : shapes)
      add(check, fmt::format("c{}", number++), softmax_of_columns(type, batch, length, channels));
  EXPECT_EQ(check.run(), "");
}

TEST(CudaColumn, AxesInFrontInTheMiddleAndSeveral) {
  CudaCheck check;
  int number = 0;
  for (const char* axes : {"[0]", "[1]", "[0, 2]", "[0, 1]"})
    for (const char* type : {"f16", "i32"})
      add(check, fmt::format("a{}", number++),
          fmt::format("graph @g(%x: {0}[6, 5, 7, 24], %z: {0}[24]) {{\n  %p = Add(%x, %z)\n"
                      "  %s = ReduceSum(%p) {{axes = {1}, keepdims = 0}}\n"
                      "  %m = ReduceMax(%x) {{axes = {1}, keepdims = 0}}\n"
                      "  %y = Sub(%m, %s)\n  %u = Add(%y, %z)\n  return y = %u, m = %m\n}}\n",
                      type, axes));
  EXPECT_EQ(check.run(), "");
  for (const auto& [schedule, count] : check.schedules_run())
    EXPECT_THAT(schedule, testing::ContainsRegex("column vector=[248]"));
}

TEST(CudaColumn, SizesThatAreNotKnown) {
  CudaCheck check({{"s", {1, 512, nullptr}}, {"t", {1, 4096, nullptr}}});
  const char* text =
      "graph @g(%x: f16[s, t], %z: f16[s, t]) {\n  %p = Mul(%x, %z)\n"
      "  %s = ReduceMean(%p) {axes = [0], keepdims = 1}\n  %y = Sub(%x, %s)\n"
      "  return y = %y, s = %s\n}\n";
  add(check, "u", text, "",
      {{{"s", 20}, {"t", 64}}, {{"s", 1}, {"t", 1}}, {{"s", 70}, {"t", 40}}, {{"s", 9}, {"t", 7}}});
  EXPECT_EQ(check.run(), "");
  EXPECT_TRUE(
      std::any_of(check.schedules_run().begin(), check.schedules_run().end(),
                  [](const auto& run) { return run.first.starts_with("column vector=8 looped"); }));
}

}  // namespace
}  // namespace sinter::test
#endif
