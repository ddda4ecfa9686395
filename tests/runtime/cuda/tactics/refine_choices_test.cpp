// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/tactics/refine_choices.h"

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sinter::testing {
namespace {

using runtime::refine_choices;
using runtime::TakenTactics;
using runtime::TimedChoice;
using ::testing::ElementsAre;
using ::testing::Pair;

constexpr double kCannot = std::numeric_limits<double>::infinity();

TimedChoice choice(const char* problem, std::vector<double> microseconds, std::size_t taken) {
  return {problem, std::move(microseconds), {}, taken, {}};
}

TEST(RefineChoices, WhatMakesTheWholeFasterIsTaken) {
  const TimedChoice timed[] = {choice("a", {10, 11}, 0), choice("b", {8, 8, 9}, 0)};
  // Tactic 2 of b overlaps with tactic 1 of a alone.
  const auto time = [](const TakenTactics& taken) {
    if (taken.at("a") == 0) return 100.0;
    return taken.at("b") == 2 ? 80.0 : 95.0;
  };
  EXPECT_THAT(refine_choices(timed, time), ElementsAre(Pair("a", 1), Pair("b", 2)));
}

TEST(RefineChoices, WhatOverlapsIsTriedTogether) {
  // Between calls of a library a kernel overlaps with nothing; one is far behind.
  TimedChoice timed[] = {choice("a", {10, 9}, 1), choice("b", {9, 8}, 1), choice("c", {30, 8}, 1)};
  for (TimedChoice& one : timed) one.overlaps = {true, false};
  const auto time = [](const TakenTactics& taken) {
    if (taken.at("a") == 0 && taken.at("b") == 0) return taken.at("c") == 0 ? 70.0 : 80.0;
    return taken.at("a") == 1 && taken.at("b") == 1 ? 100.0 : 105.0;
  };
  EXPECT_THAT(refine_choices(timed, time), ElementsAre(Pair("a", 0), Pair("b", 0), Pair("c", 1)));
}

TEST(RefineChoices, NoiseChangesNothing) {
  const TimedChoice timed[] = {choice("a", {10, 10}, 1)};
  EXPECT_THAT(refine_choices(timed, [](const auto& t) { return t.at("a") == 1 ? 100 : 99.5; }),
              ElementsAre(Pair("a", 1)));
}

TEST(RefineChoices, WhatCannotRunOrIsFarBehindIsNotTried) {
  const TimedChoice timed[] = {choice("a", {kCannot, 10, 21}, 1), choice("b", {5}, 0)};
  int trials = 0;
  EXPECT_THAT(refine_choices(timed,
                             [&](const auto&) {
                               ++trials;
                               return 100.0;
                             }),
              ElementsAre(Pair("a", 1), Pair("b", 0)));
  EXPECT_EQ(trials, 0);
}

TEST(RefineChoices, TrialsAreBounded) {
  std::vector<TimedChoice> timed;
  for (int i = 0; i < 100; ++i) timed.push_back(choice(std::to_string(i).c_str(), {10, 10, 10}, 0));
  int trials = 0;
  refine_choices(timed, [&](const auto&) {
    ++trials;
    return 100.0;
  });
  EXPECT_LE(trials, 40);
}

}  // namespace
}  // namespace sinter::testing
