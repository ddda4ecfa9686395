// SPDX-License-Identifier: Apache-2.0
// Plans of several ranks over a fake driver of several GPUs.
#include <algorithm>
#include <mutex>

#include "cuda_fixture.h"
#include "runtime/cuda/peers/rank_gpus.h"
#include "runtime/plan/ranks/peer_memory.h"
#include "runtime/session_access.h"
#include "tests/runtime/api/api_plans.h"

namespace sinter::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int kRanks = 3;

/// y = x + 100 * (the sum of the ranks' weights) + the number of ranks, as if kernels had met.
class CudaRanksTest : public CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    fake().device_count = 4;
    fake().kernels["meet"] = {
        4, [this](const CUlaunchConfig&, const auto& v) {
          meet(reinterpret_cast<const float*>(v[0]), reinterpret_cast<const float*>(v[1]),
               reinterpret_cast<float*>(v[2]), *reinterpret_cast<plan::PeerTable*>(v[3]));
        }};
  }

  void meet(const float* x, const float* weight, float* y, plan::PeerTable& table) {
    ranks.push_back(table.rank);
    weights.push_back(*weight);
    xs.push_back(*x);
    // Each area is reached by all.
    for (std::uint32_t r = 0; r < table.ranks; ++r)
      ++reinterpret_cast<std::uint32_t*>(table.area[r])[table.rank];
    y[0] = x[0] + 100 * *weight + static_cast<float>(table.ranks);
    if (silent >= 0 && table.rank != static_cast<std::uint32_t>(silent))
      *reinterpret_cast<std::uint64_t*>(table.report) =
          std::uint64_t{7} << 32 | static_cast<std::uint64_t>(silent + 1);
    flags = std::vector<std::uint32_t>(reinterpret_cast<std::uint32_t*>(table.area[0]),
                                       reinterpret_cast<std::uint32_t*>(table.area[0]) + kRanks);
  }

  static std::shared_ptr<const plan::PlanData> ranked_plan(
      std::int64_t peers_bytes = sizeof(plan::PeerTable)) {
    CudaPlanBuilder builder;
    builder.meta.ranks = kRanks;
    const Id x = builder.input("x", DType::kFloat32, {builder.constant(1)});
    std::vector<float> all(2 * 64 + 1);
    for (int r = 0; r < kRanks; ++r)
      all[static_cast<std::size_t>(r) * 64] = static_cast<float>(r + 1);
    const Id w = builder.weight(DType::kFloat32, all);
    builder.meta.buffers[w]->bytes = builder.constant(4);
    builder.meta.buffers[w]->rank_step = 256;
    const Id y = builder.output("y", DType::kFloat32, {builder.constant(1)});
    auto peers = std::make_unique<fb::BufferT>();
    peers->kind = plan::kPeersBuffer;
    peers->dtype = static_cast<std::uint8_t>(DType::kUInt8);
    peers->bytes = builder.constant(peers_bytes);
    const auto number = static_cast<Id>(builder.meta.buffers.size());
    builder.meta.buffers.push_back(std::move(peers));
    builder.kernel("sum", "meet", {x, w}, {y, number});
    return builder.data();
  }

  Session make(std::vector<int> devices = {0, 1, 2}) {
    const auto data = ranked_plan();
    return SessionAccess::make(PlanAccess::make(data), {},
                               runtime::make_ranked_executor(data, {}, nullptr,
                                                             std::make_unique<runtime::RankGpus>(
                                                                 environment(), devices, 1500ms)));
  }
  static float run(Session& session, float x) {
    session.set_input("x", {1}, std::vector<float>{x});
    session.run();
    return session.output("y").as<float>()[0];
  }

  std::vector<std::uint32_t> ranks, flags;
  std::vector<float> weights, xs;
  int silent = -1;
};

TEST_F(CudaRanksTest, EachRankHasItsWeightsAndAllInputs) {
  Session session = make();
  EXPECT_EQ(run(session, 5), 5 + 100 * 1 + kRanks);  // the output is rank 0's
  std::ranges::sort(ranks);
  std::ranges::sort(weights);
  EXPECT_THAT(ranks, ElementsAre(0, 1, 2));
  EXPECT_THAT(weights, ElementsAre(1, 2, 3));
  EXPECT_THAT(xs, ElementsAre(5, 5, 5));
  EXPECT_THAT(flags, ElementsAre(1, 1, 1));
  EXPECT_EQ(run(session, 6), 6 + 100 * 1 + kRanks);
  EXPECT_THAT(flags, ElementsAre(2, 2, 2));
}

TEST_F(CudaRanksTest, APlanWhoseRanksMeetElsewhereIsRefused) {
  EXPECT_THAT(error_of([&] { ranked_plan(8); }).what(), HasSubstr("how ranks on GPUs meet"));
}

TEST_F(CudaRanksTest, SeveralRanksMayShareAGpu) {
  Session session = make({1, 1, 1});
  EXPECT_EQ(run(session, 5), 5 + 100 * 1 + kRanks);
}

TEST_F(CudaRanksTest, GpusThatDoNotReachEachOtherAreRefused) {
  fake().peer_access = false;
  EXPECT_THAT(error_of([&] { make(); }).what(),
              AllOf(HasSubstr("GPU 0 does not reach the memory of GPU 1"),
                    HasSubstr("SINTER_RANK_DEVICES")));
  fake().peer_access = true;
  EXPECT_THAT(error_of([&] { make({0, 1, 9}); }).what(), HasSubstr("there is no GPU 9"));
}

TEST_F(CudaRanksTest, AWaitThatIsGivenUpIsOneErrorAndTheNextRunBeginsAnew) {
  Session session = make();
  silent = 2;
  EXPECT_THAT(error_of([&] { run(session, 1); }).what(),
              HasSubstr("waits for rank 2 (GPU 2) at meeting 7"));
  silent = -1;
  EXPECT_EQ(run(session, 5), 5 + 100 * 1 + kRanks);
  EXPECT_THAT(flags, ElementsAre(1, 1, 1));  // meetings have begun anew
}

TEST_F(CudaRanksTest, AGpuThatIsLostIsOneErrorAndAnotherPlanRuns) {
  {
    Session session = make();
    EXPECT_EQ(run(session, 5), 5 + 100 * 1 + kRanks);
    fake().fail_next["cuGraphLaunch"] = CUDA_ERROR_ILLEGAL_ADDRESS;
    EXPECT_THAT(error_of([&] { run(session, 1); }).what(), HasSubstr("cuGraphLaunch"));
  }
  Session other = make({3, 3, 3});
  EXPECT_EQ(run(other, 5), 5 + 100 * 1 + kRanks);
}

TEST_F(CudaRanksTest, WhatRanksDoNotTakeIsRefusedByName) {
  Session session = make();
  float on_device = 0;
  EXPECT_THAT(error_of([&] {
                session.set_input("x", {DType::kFloat32, {1}, &on_device, Memory::kDevice, 0});
              }).what(),
              HasSubstr("takes host memory"));
  session.set_input("x", {1}, std::vector<float>{1});
  int stream = 0;
  EXPECT_THAT(error_of([&] { session.run_async(&stream); }).what(),
              HasSubstr("streams of its own"));
}

}  // namespace
}  // namespace sinter::testing
