// SPDX-License-Identifier: Apache-2.0
// Loops that are one but for values that many neighbours share.
#ifdef SINTER_WITH_CUDA
#include "codegen/families/loops/merge_broadcast.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/text/text.h"
#include "tests/codegen/emulation/cuda_check.h"

namespace sinter::test {
namespace {

/// (x - mean of the group) * scale of the channel, of `groups` groups of `channels`.
std::string of_groups(int groups, int channels) {
  return fmt::format(
      "graph @g(%x: f16[2, 21, {0}, {1}], %m: f32[2, 1, {0}, 1], %s: f16[{0}, {1}]) {{\n"
      "  %w = Cast(%x) {{to = f32}}\n  %d = Sub(%w, %m)\n  %t = Cast(%s) {{to = f32}}\n"
      "  %p = Mul(%d, %t)\n  %y = Cast(%p) {{to = f16}}\n  return y = %y\n}}\n",
      groups, channels);
}

plan::fb::LoopProgramT merged(codegen::ExprTable& exprs, const std::string& text) {
  ProgramBuilder p = lowered_program(exprs, ir::parse_graph(text));
  codegen::merge_broadcast_loops(p.program, exprs);
  return p.program;
}

TEST(MergeBroadcast, VectorsCrossGroups) {
  CudaCheck check;
  for (const auto& [groups, channels] : {std::pair(32, 10), {4, 6}, {16, 5}, {3, 8}, {7, 3}}) {
    ProgramBuilder p = lowered_program(check.exprs, ir::parse_graph(of_groups(groups, channels)));
    codegen::merge_broadcast_loops(p.program, check.exprs);
    check.add(fmt::format("g{}x{}", groups, channels).c_str(), std::move(p), {{}});
  }
  EXPECT_EQ(check.run(), "");
}

TEST(MergeBroadcast, OnlyWhereVectorsGetLonger) {
  codegen::ExprTable exprs{ir::Ranges{}};
  EXPECT_EQ(merged(exprs, of_groups(32, 10)).extents.size(), 3u);
  EXPECT_EQ(merged(exprs, of_groups(3, 8)).extents.size(), 4u);  // eight go together as they are
  EXPECT_EQ(merged(exprs, of_groups(7, 3)).extents.size(), 4u);  // 21 are no more even than three
  // What is stored for each group alone is no vector of anything.
  EXPECT_EQ(merged(exprs,
                   "graph @g(%x: f16[5, 32, 10], %m: f16[5, 32, 1]) {\n"
                   "  %r = ReduceSum(%x) {axes = [2], keepdims = 1}\n"
                   "  %y = Add(%r, %m)\n  return y = %y\n}\n")
                .inner_dims,
            1u);
}

}  // namespace
}  // namespace sinter::test
#endif
