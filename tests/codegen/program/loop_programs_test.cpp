// SPDX-License-Identifier: Apache-2.0
// Programs that lowering makes of regions, and what it refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sinter/error.h>

#include "codegen/program/loop_lowering.h"
#include "ir/text/text.h"
#include "tests/codegen/emulation/region_check.h"

namespace sinter::test {
namespace {

using codegen::ExprTable;
using testing::HasSubstr;

std::string lowering_error(const char* text) {
  const ir::Graph body = ir::parse_graph(text);
  ExprTable exprs(body.ranges());
  try {
    lower(body, exprs);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    return error.what();
  }
  return "";
}

TEST(LoopLowering, RefusesAReductionOfAnotherShape) {
  EXPECT_THAT(lowering_error(R"(graph @g(%x: f32[3, 4]) {
      %a = ReduceSum(%x) {axes = [1], keepdims = 1}
      %b = Sub(%x, %a)
      %c = ReduceSum(%b) {axes = [0], keepdims = 1}
      %d = Sub(%b, %c)
      return z = %d
    })"),
              testing::AllOf(HasSubstr("ReduceSum"), HasSubstr("axes 0")));
}

TEST(LoopLowering, RefusesAResultReadInAnotherRow) {
  EXPECT_THAT(lowering_error(R"(graph @g(%x: f32[3, 3]) {
      %a = ReduceSum(%x) {axes = [1], keepdims = 0}
      %b = Add(%x, %a)
      return z = %b
    })"),
              HasSubstr("read at another row"));
}

TEST(LoopLowering, RefusesWhatMustHaveBeenDecomposed) {
  EXPECT_THAT(lowering_error(R"(graph @g(%x: f32[3, 4]) {
      %a = Softmax(%x) {axis = 1}
      return z = %a
    })"),
              HasSubstr("Softmax"));
}

TEST(LoopLowering, RefusesLargeConstants) {
  EXPECT_THAT(lowering_error(R"(graph @g(%x: f32[3]) {
      %c = const f32[3] {1, 2, 3}
      %a = Add(%x, %c)
      return z = %a
    })"),
              HasSubstr("inputs of the region"));
}

TEST(LoopLowering, RefusesToGatherWhereThePositionDecides) {
  EXPECT_THAT(lowering_error(R"(graph @g(%x: f32[3, 2], %i: i64[4]) {
      %p = Pad(%x) {begins = [1, 0], ends = [0, 0], fill = 0.0}
      %a = Gather(%p, %i) {axis = 0}
      return z = %a
    })"),
              testing::AllOf(HasSubstr("Gather"), HasSubstr("computed first")));
  EXPECT_THAT(lowering_error(R"(graph @g(%x: f32[4, 6], %i: i64[4]) {
      %t = Transpose(%x) {perm = [1, 0]}
      %r = Reshape(%t) {shape = [24]}
      %a = Gather(%r, %i) {axis = 0}
      return z = %a
    })"),
              HasSubstr("computed first"));
}

TEST(LoopLowering, SharesEqualWork) {
  const ir::Graph body = ir::parse_graph(R"(graph @g(%x: f32[4, 8]) {
      %r = Reshape(%x) {shape = [32]}
      %s = Reshape(%r) {shape = [4, 8]}
      %a = Exp(%x)
      %b = Exp(%s)
      %c = Add(%a, %b)
      return z = %c
    })");
  ExprTable exprs(body.ranges());
  const Lowered lowered = lower(body, exprs);
  EXPECT_EQ(lowered.program.accesses.size(), 2u) << lowered.listing;
  EXPECT_EQ(lowered.program.instrs.size(), 4u) << lowered.listing;  // load, exp, add, store
}

TEST(LoopLowering, MergesLoopsThatEveryAccessWalksAlike) {
  const ir::Graph body = ir::parse_graph(R"(graph @g(%x: f32[batch, seq, 3, 4], %b: f32[3, 4]) {
      %c = Add(%x, %b)
      return z = %c
    })");
  ExprTable exprs(body.ranges());
  const Lowered lowered = lower(body, exprs);
  ASSERT_EQ(lowered.program.extents.size(), 2u) << lowered.listing;
  EXPECT_EQ(exprs.dim(lowered.program.extents[0]).to_string(), "batch*seq");
  EXPECT_EQ(exprs.constant(lowered.program.extents[1]), 12);
}

TEST(LoopLowering, NeverMergesRowsIntoTheirElements) {
  const ir::Graph body = ir::parse_graph(R"(graph @g(%x: f32[3, 4]) {
      %a = ReduceSum(%x) {axes = [1], keepdims = 1}
      %b = Sub(%x, %a)
      return z = %b
    })");
  ExprTable exprs(body.ranges());
  const Lowered lowered = lower(body, exprs);
  EXPECT_EQ(lowered.program.extents.size(), 2u) << lowered.listing;
  EXPECT_EQ(lowered.program.inner_dims, 1u);
}

TEST(LoopLowering, ReshapesOfLoopsBecomeStrides) {
  const ir::Graph body = ir::parse_graph(R"(graph @g(%x: f32[batch, 12, seq, 32]) {
      %t = Transpose(%x) {perm = [0, 2, 1, 3]}
      %r = Reshape(%t) {shape = [batch, seq, 384]}
      return z = %r
    })");
  ExprTable exprs(body.ranges());
  const Lowered lowered = lower(body, exprs);
  for (const auto& access : lowered.program.accesses)
    EXPECT_TRUE(access->nonaffine.empty()) << lowered.listing;
}

std::vector<std::string> listings_of_parts(const char* text) {
  const ir::Graph body = ir::parse_graph(text);
  std::vector<std::uint32_t> inputs, outputs;
  for (std::uint32_t i = 0; i < body.inputs().size(); ++i) inputs.push_back(i);
  for (std::uint32_t i = 0; i < body.outputs().size(); ++i)
    outputs.push_back(static_cast<std::uint32_t>(inputs.size()) + i);
  ExprTable exprs(body.ranges());
  std::vector<std::string> listings;
  for (const auto& program : codegen::lower_region_parts(body, inputs, outputs, exprs))
    listings.push_back(codegen::print_loop_program(program, exprs));
  return listings;
}

TEST(LoopLowering, PartsAskNotWhichSourceAnElementComesFrom) {
  const auto listings = listings_of_parts(R"(graph @g(%x: f32[2, 30, 80], %y: f32[2, 50, 40]) {
      %e = Reshape(%y) {shape = [2, 50, 40, 1]}
      %u = Expand(%e) {shape = [2, 50, 40, 2]}
      %r = Reshape(%u) {shape = [2, 50, 80]}
      %c = Concat(%x, %r) {axis = 1}
      %z = Exp(%c)
      return z = %z
    })");
  ASSERT_EQ(listings.size(), 2u);
  for (const std::string& listing : listings) {
    EXPECT_THAT(listing, testing::Not(HasSubstr("select"))) << listing;
    EXPECT_THAT(listing, testing::Not(HasSubstr(" else "))) << listing;
  }
}

/// x [n, n] rolled by three along both dimensions.
std::size_t parts_of_a_roll(int n) {
  const std::string size = std::to_string(n), most = std::to_string(n - 3);
  const auto rolled = [&](const std::string& from, const std::string& to, bool rows) {
    const auto both = [&](const std::string& a) {
      return rows ? a + ", " + size : size + ", " + a;
    };
    const auto part = [&](const std::string& name, const std::string& count,
                          const std::string& start) {
      return "  %" + name + to + " = Slice(%" + from + ") {shape = [" + both(count) +
             "], starts = [" + (rows ? start + ", 0" : "0, " + start) + "], steps = [1, 1]}\n";
    };
    return part("a", most, "3") + part("b", "3", "0") + "  %" + to + " = Concat(%a" + to + ", %b" +
           to + ") {axis = " + (rows ? "0" : "1") + "}\n";
  };
  const std::string text = "graph @g(%x: f32[" + size + ", " + size + "]) {\n" +
                           rolled("x", "r", true) + rolled("r", "c", false) +
                           "  %z = Neg(%c)\n  return z = %z\n}";
  const auto listings = listings_of_parts(text.c_str());
  for (std::size_t i = 0; listings.size() > 1 && i < listings.size(); ++i) {
    EXPECT_THAT(listings[i], testing::Not(HasSubstr(" else "))) << listings[i];
  }
  return listings.size();
}

TEST(LoopLowering, PartsAlongTwoDimensionsMeet) {
  EXPECT_EQ(parts_of_a_roll(100), 4u);
  EXPECT_EQ(parts_of_a_roll(8), 1u);  // a step costs more than the conditions
}

TEST(LoopLowering, SourcesOfSymbolicSizeStayTogether) {
  EXPECT_EQ(listings_of_parts(R"(graph @g(%x: f32[seq, 3], %y: f32[batch, 3]) {
      %c = Concat(%x, %y) {axis = 0}
      %z = Neg(%c)
      return z = %z
    })")
                .size(),
            1u);
}

}  // namespace
}  // namespace sinter::test
