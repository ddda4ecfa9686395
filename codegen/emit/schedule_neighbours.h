// SPDX-License-Identifier: Apache-2.0
// Schedules near the rule's, for timing.
#pragma once

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "runtime/plan/plan_data.h"

namespace sinter::codegen {

// Per kernel: compilation takes most of the time, and distant neighbours rarely win.
inline constexpr std::size_t kMostCandidates = 48;

/// True if all sizes that satisfy `given` satisfy `wanted`.
inline bool implies_all(const std::vector<plan::fb::Condition>& given,
                        const std::vector<plan::fb::Condition>& wanted) {
  const auto implied = [&](const plan::fb::Condition& condition) {
    return std::ranges::any_of(given, [&](const plan::fb::Condition& c) {
      return c.expression() == condition.expression() && c.divisor() % condition.divisor() == 0 &&
             c.max() <= condition.max();
    });
  };
  return std::ranges::all_of(wanted, implied);
}

/// Distance of two numbers in doublings.
inline double steps_between(double a, double b) { return std::abs(std::log2(a / b)); }

/// Candidates with their distance from the rule's schedule; all accept the sizes that it accepts.
template <typename AnySchedule>
class Neighbours {
 public:
  explicit Neighbours(const AnySchedule& rule) : rule_(rule) { texts_.insert(rule.to_string()); }

  void add(AnySchedule schedule, double distance) {
    schedule.conditions = rule_.conditions;
    if (!texts_.insert(schedule.to_string()).second) return;
    found_.emplace_back(distance, std::move(schedule));
  }

  std::vector<AnySchedule> take() {
    std::ranges::stable_sort(found_,
                             [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<AnySchedule> all = {rule_};
    for (auto& [distance, schedule] : found_)
      if (all.size() < kMostCandidates) all.push_back(std::move(schedule));
    return all;
  }

 private:
  const AnySchedule& rule_;
  std::set<std::string> texts_;
  std::vector<std::pair<double, AnySchedule>> found_;
};

}  // namespace sinter::codegen
