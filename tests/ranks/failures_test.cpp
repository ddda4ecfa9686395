// SPDX-License-Identifier: Apache-2.0
// Ranks that fail, stop, or go other ways: one error on the caller's thread, and no hang.
#include <atomic>
#include <chrono>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sinter/sinter.h>

#include "runtime/format_error.h"
#include "runtime/ranks/rank_threads.h"
#include "tests/ranks/ranked_graph.h"

namespace sinter::testing {
namespace {

using namespace std::chrono_literals;
using runtime::RankGroup;
using runtime::RankThreads;
using ::testing::HasSubstr;

template <typename Work>
std::string error_of(const Work& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

void meet(RankGroup& group, int rank) {
  group.arrive(rank, {});
  group.depart(rank);
}

TEST(RankGroup, ReadsWhatAllBring) {
  constexpr int kRanks = 4, kMeetings = 2000;
  const auto group = std::make_shared<RankGroup>(kRanks, 20s);
  RankThreads threads(group);
  std::atomic<int> wrong{0};
  threads.run([&](int rank) {
    int own = 0, sum = 0;
    for (int i = 0; i < kMeetings; ++i) {
      own = rank * 10000 + i;
      if ((i + rank) % 37 == 0) std::this_thread::yield();
      group->arrive(rank,
                    {reinterpret_cast<const std::byte*>(&own), reinterpret_cast<std::byte*>(&sum)});
      int all = 0;
      for (int r = 0; r < kRanks; ++r) all += *reinterpret_cast<const int*>(group->of(r).from);
      if (all != 60000 + kRanks * i) ++wrong;
      group->depart(rank);
    }
  });
  EXPECT_EQ(wrong, 0);
}

TEST(RankGroup, SaysWhichRankWaitsForWhich) {
  const auto group = std::make_shared<RankGroup>(3, 60ms);
  RankThreads threads(group);
  const auto slow = std::make_shared<std::atomic<bool>>(true);
  const std::string error = error_of([&] {
    threads.run([group, slow](int rank) {
      meet(*group, rank);
      while (rank == 1 && slow->load()) std::this_thread::sleep_for(1ms);
      meet(*group, rank);
    });
  });
  EXPECT_THAT(error, HasSubstr("waits for rank 1 at collective 2"));
  // The rank still runs: no other work begins.
  EXPECT_THAT(error_of([&] { threads.run([](int) {}); }),
              HasSubstr("has not ended an earlier run"));
  slow->store(false);
  for (int i = 0; i < 1000 && error_of([&] { threads.run([](int) {}); }) != "no error"; ++i)
    std::this_thread::sleep_for(2ms);
  EXPECT_EQ(error_of([&] { threads.run([&](int rank) { meet(*group, rank); }); }), "no error");
}

TEST(RankGroup, AnErrorOfARankIsTheCallers) {
  const auto group = std::make_shared<RankGroup>(4, 20s);
  RankThreads threads(group);
  for (int failing = 0; failing < 4; ++failing) {
    EXPECT_EQ(error_of([&] {
                threads.run([&](int rank) {
                  meet(*group, rank);
                  if (rank == failing) throw usage_error("rank {} has it", rank);
                  meet(*group, rank);
                });
              }),
              "rank " + std::to_string(failing) + " has it");
    EXPECT_EQ(error_of([&] { threads.run([&](int rank) { meet(*group, rank); }); }), "no error");
  }
}

/// Also where no rank waits for it at a collective.
TEST(RankGroup, ARankThatDoesNotEndIsGivenUp) {
  const auto group = std::make_shared<RankGroup>(2, 30ms);
  RankThreads threads(group);
  const auto release = std::make_shared<std::atomic<bool>>(false);
  EXPECT_EQ(error_of([&] {
              threads.run([release](int rank) {
                while (rank == 1 && !release->load()) std::this_thread::sleep_for(1ms);
              });
            }),
            "a rank of the session does not end its run");
  release->store(true);
}

TEST(RankGroup, ARankThatEndsEarlyIsNotAwaited) {
  const auto group = std::make_shared<RankGroup>(2, 20s);
  RankThreads threads(group);
  EXPECT_THAT(error_of([&] {
                threads.run([&](int rank) {
                  if (rank == 0) meet(*group, rank);
                });
              }),
              HasSubstr("rank 0 waits for rank 1 at collective 1, and that has ended its run"));
}

TEST(RankGroup, AGivenUpRankOutlivesItsGroup) {
  auto release = std::make_shared<std::atomic<bool>>(false);
  {
    const auto group = std::make_shared<RankGroup>(2, 20ms);
    RankThreads threads(group);
    EXPECT_THAT(error_of([&] {
                  threads.run([group, release](int rank) {
                    while (rank == 1 && !release->load()) std::this_thread::sleep_for(1ms);
                    meet(*group, rank);
                  });
                }),
                HasSubstr("waits for rank 1"));
  }
  release->store(true);
  std::this_thread::sleep_for(20ms);  // nothing to see: sanitizers look on
}

}  // namespace
}  // namespace sinter::testing
