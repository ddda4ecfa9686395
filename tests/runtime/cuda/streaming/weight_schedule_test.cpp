// SPDX-License-Identifier: Apache-2.0
// What of a plan's weights is resident and what is streamed, and that no copy hurts what is in use.
#include "runtime/cuda/streaming/weight_schedule.h"

#include <algorithm>
#include <random>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sinter::testing {
namespace {

using runtime::choose_resident;
using runtime::least_weight_budget;
using runtime::schedule_copies;
using runtime::WeightCopy;
using runtime::WeightResidency;
using runtime::WeightRun;
using runtime::WeightSchedule;
using runtime::WeightUnit;
using ::testing::ElementsAre;

using Sizes = std::vector<std::uint64_t>;
using Runs = std::vector<WeightRun>;

constexpr std::uint64_t kMiB = 1 << 20;

std::uint64_t aligned(std::uint64_t bytes) { return (bytes + 255) / 256 * 256; }

/// A weight for each unit.
WeightRun one_each(std::size_t count) {
  WeightRun run;
  for (std::size_t i = 0; i < count; ++i) run.push_back({i});
  return run;
}

/// In every order of events that the schedule allows, each unit reads what it is to read: copies
/// are in order, units are, a unit is behind its copies, a copy behind the unit that it names.
void check(const Sizes& bytes, const WeightRun& run, const WeightResidency& residency,
           const WeightSchedule& schedule) {
  // The first unit that surely has ended when a copy starts; SIZE_MAX: none.
  std::vector<std::size_t> ended(schedule.copies.size(), SIZE_MAX);
  for (std::size_t c = 0; c < schedule.copies.size(); ++c) {
    const WeightCopy& copy = schedule.copies[c];
    ended[c] = c > 0 ? ended[c - 1] : SIZE_MAX;
    if (copy.behind != WeightCopy::kStart && (ended[c] == SIZE_MAX || ended[c] < copy.behind))
      ended[c] = copy.behind;
    // Else the copy would wait for what waits for it.
    ASSERT_TRUE(ended[c] == SIZE_MAX || ended[c] < copy.unit);
    EXPECT_EQ(copy.place % 256, 0);
    EXPECT_LE(copy.place + bytes[copy.weight], residency.ring_bytes());
    EXPECT_LE(c > 0 ? schedule.copies[c - 1].unit : 0, copy.unit);
  }
  for (std::size_t u = 0; u < run.size(); ++u) {
    std::multiset<std::size_t> wanted, read;
    for (const std::size_t weight : run[u])
      if (residency.is_streamed[weight]) wanted.insert(weight);
    for (const std::size_t c : schedule.copies_of[u]) {
      const WeightCopy& copy = schedule.copies[c];
      read.insert(copy.weight);
      ASSERT_LE(copy.unit, u);
      for (std::size_t d = c + 1; d < schedule.copies.size(); ++d) {
        const WeightCopy& other = schedule.copies[d];
        if (other.place >= copy.place + bytes[copy.weight] ||
            copy.place >= other.place + bytes[other.weight])
          continue;
        ASSERT_TRUE(ended[d] != SIZE_MAX && ended[d] >= u)
            << "copy " << d << " may overwrite what unit " << u << " reads";
      }
    }
    EXPECT_EQ(wanted, read);
  }
}

TEST(WeightSchedule, EverythingStaysWhereItFits) {
  const Sizes bytes(5, 4 * kMiB);
  const auto residency = choose_resident(bytes, Runs{one_each(5)}, 20 * kMiB);
  ASSERT_TRUE(residency);
  EXPECT_EQ(residency->half, 0);
  EXPECT_EQ(residency->resident_bytes, 20 * kMiB);
  EXPECT_EQ(schedule_copies(bytes, one_each(5), *residency).copies.size(), 0);
}

TEST(WeightSchedule, HalvesAreFilledInTurns) {
  const Sizes bytes(4, 4 * kMiB);
  const WeightRun run = one_each(4);
  const auto residency = choose_resident(bytes, Runs{run}, 8 * kMiB);
  ASSERT_TRUE(residency);
  EXPECT_EQ(residency->half, 4 * kMiB);
  EXPECT_EQ(residency->streamed_bytes, 16 * kMiB);
  const WeightSchedule schedule = schedule_copies(bytes, run, *residency);
  std::vector<std::uint64_t> places;
  std::vector<std::size_t> behind;
  for (const WeightCopy& copy : schedule.copies) {
    places.push_back(copy.place / kMiB);
    behind.push_back(copy.behind);
  }
  EXPECT_THAT(places, ElementsAre(0, 4, 0, 4));
  EXPECT_THAT(behind, ElementsAre(WeightCopy::kStart, WeightCopy::kStart, 0, 1));
  check(bytes, run, *residency, schedule);
}

TEST(WeightSchedule, WhatIsReadOftenOrSmallStays) {
  // An embedding that the last product reads again, and norms between products.
  const Sizes bytes{16 * kMiB, 100, 16 * kMiB, 100, 16 * kMiB, 16 * kMiB};
  const WeightRun run{{0}, {1, 2}, {3, 4}, {5}, {0}};
  const auto residency = choose_resident(bytes, Runs{run}, 49 * kMiB);
  ASSERT_TRUE(residency);
  EXPECT_THAT(residency->is_streamed, ElementsAre(false, false, true, false, true, true));
  EXPECT_EQ(residency->half, 16 * kMiB);
  check(bytes, run, *residency, schedule_copies(bytes, run, *residency));
}

TEST(WeightSchedule, StreamedWeightsAreSpread) {
  // Half of what is not in the ring stays.
  const Sizes bytes(42, 4 * kMiB);
  const auto residency = choose_resident(bytes, Runs{one_each(42)}, (8 + 84) * kMiB);
  ASSERT_TRUE(residency);
  std::size_t longest = 0, row = 0, streamed = 0;
  for (const bool is_streamed : residency->is_streamed) {
    row = is_streamed ? 0 : row + 1;
    longest = std::max(longest, row);
    streamed += is_streamed ? 1 : 0;
  }
  EXPECT_EQ(streamed, 21);
  EXPECT_LE(longest, 2);
}

TEST(WeightSchedule, OneLargeWeightIsKeptSoThatTheRingIsSmall) {
  const Sizes bytes{64 * kMiB, 4 * kMiB, 4 * kMiB, 4 * kMiB, 4 * kMiB};
  const WeightRun run = one_each(5);
  EXPECT_EQ(least_weight_budget(bytes, Runs{run}), 72 * kMiB);
  EXPECT_FALSE(choose_resident(bytes, Runs{run}, 72 * kMiB - 1));
  const auto residency = choose_resident(bytes, Runs{run}, 72 * kMiB);
  ASSERT_TRUE(residency);
  EXPECT_THAT(residency->is_streamed, ElementsAre(false, true, true, true, true));
}

TEST(WeightSchedule, EntryPointsShareWhatIsResident) {
  const Sizes bytes(4, 4 * kMiB);
  const std::vector<WeightRun> runs{one_each(4), {{3}, {1}}};
  const auto residency = choose_resident(bytes, runs, 12 * kMiB);
  ASSERT_TRUE(residency);
  EXPECT_EQ(residency->resident_bytes + residency->ring_bytes(), 12 * kMiB);
  for (const WeightRun& run : runs)
    check(bytes, run, *residency, schedule_copies(bytes, run, *residency));
}

TEST(WeightSchedule, NoUnitReadsWhatWasOverwritten) {
  std::mt19937 random(1);
  const auto below = [&](std::size_t most) { return random() % most; };
  int streamed = 0, waits = 0;
  for (int round = 0; round < 2000; ++round) {
    Sizes bytes(1 + below(30));
    for (std::uint64_t& size : bytes) size = 1 + below(1 << below(23));
    std::vector<WeightRun> runs(1 + below(2));
    for (WeightRun& run : runs) {
      run.resize(1 + below(30));
      for (WeightUnit& unit : run) {
        std::set<std::size_t> reads;
        for (std::size_t i = below(4); i > 0; --i) reads.insert(below(bytes.size()));
        unit.assign(reads.begin(), reads.end());
      }
    }
    std::set<std::size_t> read;
    for (const WeightRun& run : runs)
      for (const WeightUnit& unit : run) read.insert(unit.begin(), unit.end());
    std::uint64_t all = 0;
    for (const std::size_t weight : read) all += aligned(bytes[weight]);
    const std::uint64_t least = least_weight_budget(bytes, runs);
    ASSERT_LE(least, all);
    EXPECT_FALSE(least > 0 && choose_resident(bytes, runs, least - 1));
    const std::uint64_t budget = least + below(all - least + 1);
    const auto residency = choose_resident(bytes, runs, budget);
    ASSERT_TRUE(residency);
    EXPECT_LE(residency->resident_bytes + residency->ring_bytes(), budget);
    EXPECT_EQ(residency->resident_bytes + residency->streamed_bytes, all);
    for (const WeightRun& run : runs) {
      const WeightSchedule schedule = schedule_copies(bytes, run, *residency);
      check(bytes, run, *residency, schedule);
      streamed += schedule.copies.empty() ? 0 : 1;
      for (const WeightCopy& copy : schedule.copies)
        waits += copy.behind != WeightCopy::kStart ? 1 : 0;
    }
  }
  EXPECT_GT(streamed, 500);
  EXPECT_GT(waits, 500);
}

}  // namespace
}  // namespace sinter::testing
