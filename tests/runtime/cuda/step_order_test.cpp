// SPDX-License-Identifier: Apache-2.0
// Which steps run at once: what place_steps orders, and what it leaves open.
#include "runtime/cuda/step_order.h"

#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sinter::testing {
namespace {

using runtime::MemoryRange;
using runtime::place_steps;
using runtime::StepMemory;
using runtime::StepPlace;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// A step that reads and writes buffers of ten bytes, by their numbers.
StepMemory step(std::vector<std::uint64_t> reads, std::vector<std::uint64_t> writes) {
  StepMemory result;
  for (const std::uint64_t id : reads) result.reads.push_back({id * 10, id * 10 + 10});
  for (const std::uint64_t id : writes) result.writes.push_back({id * 10, id * 10 + 10});
  return result;
}

std::vector<std::size_t> streams_of(const std::vector<StepPlace>& places) {
  std::vector<std::size_t> streams;
  for (const StepPlace& place : places) streams.push_back(place.stream);
  return streams;
}

TEST(StepOrder, AChainStaysOnOneStream) {
  const auto places = place_steps(std::vector{step({0}, {1}), step({1}, {2}), step({2}, {3})}, 4);
  EXPECT_THAT(streams_of(places), ElementsAre(0, 0, 0));
  for (const StepPlace& place : places) EXPECT_THAT(place.waits, IsEmpty());
  EXPECT_TRUE(one_after_another(places));
}

TEST(StepOrder, BranchesGetStreamsAndMeetAgain) {
  // 1 -> 2 -> 3 beside 1 -> 4, and 3 + 4 -> 5.
  const auto places = place_steps(std::vector{step({0}, {1}), step({1}, {2}), step({2}, {3}),
                                              step({1}, {4}), step({3, 4}, {5})},
                                  4);
  EXPECT_THAT(streams_of(places), ElementsAre(0, 0, 0, 1, 1));
  EXPECT_THAT(places[3].waits, ElementsAre(0));
  EXPECT_THAT(places[4].waits, ElementsAre(2));
  EXPECT_FALSE(one_after_another(places));
}

TEST(StepOrder, SharedReadsDoNotOrderAndOverwritesDo) {
  const auto shared = place_steps(std::vector{step({0}, {1}), step({0}, {2})}, 4);
  EXPECT_THAT(streams_of(shared), ElementsAre(0, 1));
  EXPECT_THAT(shared[1].waits, IsEmpty());
  // The second writes what the first reads; what the third writes overlaps with that of the second.
  std::vector<StepMemory> steps{step({0}, {1}), step({2}, {0}), {}};
  steps[2].writes = {{5, 6}};
  const auto places = place_steps(steps, 4);
  EXPECT_THAT(streams_of(places), ElementsAre(0, 0, 0));
}

TEST(StepOrder, AStreamThatIsFreeIsTakenBeforeANewOne) {
  // Three pairs of branches, one pair after the other.
  std::vector<StepMemory> steps;
  for (std::uint64_t i = 0; i < 9; i += 3) {
    steps.push_back(step({i}, {i + 1}));
    steps.push_back(step({i}, {i + 2}));
    steps.push_back(step({i + 1, i + 2}, {i + 3}));
  }
  for (const StepPlace& place : place_steps(steps, 8)) EXPECT_LT(place.stream, 2u);
}

/// Every step that must not run before or beside another is behind it, by its stream's order and by
/// waits; streams are as many as allowed.
TEST(StepOrder, RandomStepsAreOrderedWhereTheyMeet) {
  std::mt19937 random(1);
  std::size_t beside = 0;
  for (int trial = 0; trial < 300; ++trial) {
    const std::size_t streams = 1 + random() % 4, buffers = 3 + random() % 12;
    std::vector<StepMemory> steps(2 + random() % 20);
    for (StepMemory& one : steps) {
      one = step({random() % buffers, random() % buffers}, {random() % buffers});
      if (random() % 4 == 0) one.writes.push_back({random() % (10 * buffers), 10 * buffers});
    }
    const auto places = place_steps(steps, streams);
    std::vector<std::vector<bool>> behind(steps.size(), std::vector<bool>(steps.size()));
    const auto add = [&](std::size_t later, std::size_t earlier) {
      behind[later][earlier] = true;
      for (std::size_t j = 0; j < earlier; ++j)
        if (behind[earlier][j]) behind[later][j] = true;
    };
    for (std::size_t i = 0; i < steps.size(); ++i) {
      ASSERT_LT(places[i].stream, streams);
      for (std::size_t j = 0; j < i; ++j)
        if (places[j].stream == places[i].stream) add(i, j);
      for (const std::size_t j : places[i].waits) {
        ASSERT_LT(j, i);
        add(i, j);
      }
    }
    const auto overlap = [](const auto& a, const auto& b) {
      for (const MemoryRange& x : a)
        for (const MemoryRange& y : b)
          if (std::max(x.begin, y.begin) < std::min(x.end, y.end)) return true;
      return false;
    };
    for (std::size_t i = 0; i < steps.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        beside += !behind[i][j];
        const bool meet = overlap(steps[i].writes, steps[j].writes) ||
                          overlap(steps[i].reads, steps[j].writes) ||
                          overlap(steps[i].writes, steps[j].reads);
        ASSERT_TRUE(!meet || behind[i][j]) << "trial " << trial << ", steps " << j << " and " << i;
      }
    }
  }
  EXPECT_GT(beside, 100u);
}

}  // namespace
}  // namespace sinter::testing
