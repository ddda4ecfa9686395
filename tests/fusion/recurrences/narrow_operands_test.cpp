// SPDX-License-Identifier: Apache-2.0
// Operands of LinearAttention that are widened values of 16 bits.
#include "fusion/recurrences/narrow_operands.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/graph.h"
#include "ir/text/text.h"

namespace sinter::fusion {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string narrowed(const std::string& key_type, bool generates_kernels) {
  const std::string key = key_type == "f32" ? "Relu(%k)" : "Cast(%k) {to = f32}";
  const Graph graph = ir::parse_graph(fmt::format(
      "graph @main(%q: f32[1, 32, 2, 64], %k: {}[1, 32, 1, 64], %v: f32[1, 32, 2, 16], %d: "
      "f32[1, 32, 2]) {{\n"
      "  %wide = {}\n"
      "  %keys = Reshape(%wide) {{shape = [1, 32, 1, 64]}}\n"
      "  %out, %next = LinearAttention(%q, %keys, %v, %d) {{rule = \"linear\", scale = 1, decay = "
      "1}}\n"
      "  return out = %out, next = %next\n}}\n",
      key_type, key));
  Context context;
  context.target.generates_kernels = generates_kernels;
  const Graph result = narrow_recurrences(graph, context);
  EXPECT_EQ(result.type(result.outputs()[0]).dtype, DType::kFloat32);
  EXPECT_EQ(result.type(result.outputs()[1]).dtype, DType::kFloat32);
  return ir::print(result);
}

TEST(NarrowRecurrences, RoundWhatTheModelRounds) {
  const std::string text = narrowed("f16", true);
  EXPECT_THAT(text, HasSubstr("Cast(%q) {to = f16}"));
  EXPECT_THAT(text, HasSubstr("Cast(%v) {to = f16}"));
  EXPECT_THAT(text, Not(HasSubstr("Cast(%d)"))) << "gates stay";
  EXPECT_THAT(narrowed("bf16", true), HasSubstr("Cast(%q) {to = bf16}"));
}

TEST(NarrowRecurrences, LeaveLayersOfFloat32) {
  EXPECT_THAT(narrowed("f32", true), Not(HasSubstr("Cast")));
  EXPECT_THAT(narrowed("f16", false), Not(HasSubstr("to = f16"))) << "a target without kernels";
}

}  // namespace
}  // namespace sinter::fusion
