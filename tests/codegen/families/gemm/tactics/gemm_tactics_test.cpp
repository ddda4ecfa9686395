// SPDX-License-Identifier: Apache-2.0
#include "codegen/families/gemm/gemm_tactics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sinter/error.h>

#include "ir/text/text.h"
#include "tests/codegen/families/gemm/compiled_ways.h"

namespace sinter::test {
namespace {

using codegen::GemmRequest, codegen::GemmTactic, codegen::GemmTacticKind, codegen::tuning_request;
using Kind = GemmRequest::Kind;

TEST(GemmTactics, RequestsAreWordsOrSchedules) {
  EXPECT_TRUE(GemmRequest().is(Kind::kAny));
  for (const auto& [word, kind] : {std::pair("library", Kind::kLibrary),
                                   {"dequantized", Kind::kDequantized},
                                   {"alone", Kind::kAlone},
                                   {"warp-specialized", Kind::kWarpSpecialized},
                                   {"warp-specialized alone", Kind::kWarpSpecializedAlone}}) {
    EXPECT_EQ(GemmRequest(word).kind, kind);
    EXPECT_EQ(GemmRequest(word).to_string(), word);
  }
  const std::string tma = "tma 64x64x64 warpgroups=1 stages=4 split_k=1 cluster_n=1";
  const GemmRequest by_tma(tma);
  EXPECT_TRUE(by_tma.is(Kind::kSchedule) && by_tma.is_warpgroup_schedule());
  EXPECT_EQ(by_tma.kernel, &codegen::kTmaKernel);
  EXPECT_EQ(by_tma.to_string(), tma);
  const GemmRequest few("small_m 8x32x256 warps=1x1x4 stages=3 split_k=1 cluster_n=1");
  EXPECT_TRUE(few.is_small_m_schedule() && !few.is_warpgroup_schedule());
  EXPECT_TRUE(GemmRequest("w4a8 64x64x256 warpgroups=1 stages=4 split_k=1 cluster_n=1")
                  .is_warpgroup_schedule());
}

std::string compile_error(const std::string& requested) {
  const auto graph = ir::parse_graph(R"(graph @main(%x: f16[64, 64]) {
  %w = const f16[64, 64] random(1)
  %y = Fused(%x, %w) {kind = "gemm"} : f16[64, 64] body @gemm(%x, %w) {
    %p = Fused(%x, %w) {kind = "matmul"} : f16[64, 64] body @matmul(%x, %w) {
      %m = MatMul(%x, %w)
      return m = %m
    }
    return p = %p
  }
  return y = %y
})");
  try {
    ways_of(graph, "sm_90", requested);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    return error.what();
  }
  return "nothing was thrown";
}

TEST(GemmTactics, OtherWordsAreRefused) {
  for (const char* word : {"gemm", "libary", "tma 64x64", "alone "})
    EXPECT_THAT(compile_error(word), testing::HasSubstr(std::string("'") + word + "' is no"));
}

GemmTactic with_kernel(bool by_warpgroups, bool then_epilogue) {
  GemmTactic tactic{
      .kind = by_warpgroups ? GemmTacticKind::kWarpSpecialized : GemmTacticKind::kGemm,
      .then_epilogue = then_epilogue};
  tactic.kernel.emplace();
  return tactic;
}

TEST(GemmTactics, NamesSayWhatRuns) {
  EXPECT_EQ(with_kernel(false, false).name(), "gemm");
  EXPECT_EQ(with_kernel(true, true).name(), "warp-specialized gemm, then its epilogue");
  GemmTactic tactic = with_kernel(false, false);
  tactic.kernel->prologue.emplace();
  EXPECT_EQ(tactic.name(), "gemm with its prologue");
  tactic = with_kernel(true, false);
  tactic.prologue_first = true;
  tactic.unpacking.emplace();
  EXPECT_EQ(tactic.name(), "prologue, then dequantized weights, warp-specialized gemm");
  tactic = {.kind = GemmTacticKind::kLibrary, .then_epilogue = true};
  tactic.refusals = "; no kernel of our own: a reason";
  EXPECT_EQ(tactic.name(), "library; no kernel of our own: a reason");
  tactic = {.kind = GemmTacticKind::kLoops, .then_epilogue = true};
  tactic.loops.emplace();
  EXPECT_EQ(tactic.name(), "loops, then the epilogue");
}

TEST(GemmTactics, PartsAreTunedByRequestsThatSelectThemAlone) {
  EXPECT_EQ(tuning_request(with_kernel(false, false), 0), "gemm");
  EXPECT_EQ(tuning_request(with_kernel(true, false), 0), "gemm");
  EXPECT_EQ(tuning_request(with_kernel(false, true), 0), "alone");
  EXPECT_EQ(tuning_request(with_kernel(true, true), 0), "warp-specialized alone");
  EXPECT_EQ(tuning_request(with_kernel(true, true), 1), "library");
  EXPECT_EQ(tuning_request({.kind = GemmTacticKind::kLibrary, .then_epilogue = true}, 0),
            std::nullopt);
  EXPECT_EQ(tuning_request({.kind = GemmTacticKind::kLoops}, 0), std::nullopt);
  GemmTactic tactic = with_kernel(false, true);
  tactic.prologue_first = true;
  EXPECT_EQ(tuning_request(tactic, 0), std::nullopt);
  tactic = with_kernel(true, false);
  tactic.unpacking.emplace();
  for (const std::size_t part : {0, 1}) EXPECT_EQ(tuning_request(tactic, part), std::nullopt);
}

}  // namespace
}  // namespace sinter::test
