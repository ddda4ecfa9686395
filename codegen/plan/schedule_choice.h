// SPDX-License-Identifier: Apache-2.0
// Schedules that replace the rules': found by timing, or to be timed.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "runtime/plan/plan_data.h"

namespace sinter::codegen {

struct ChosenSchedule {
  std::string text;  // in the form of the schedule's to_string()
  std::string by;    // for people: "tuning on NVIDIA H200"
};
/// By variant of a kernel, in the rule's order.
using ChosenSchedules = std::map<std::size_t, ChosenSchedule>;

struct RequestedSchedules {
  const ChosenSchedules* chosen = nullptr;  // other variants keep the rule's
  bool list = false;                        // whether to fill VariantChoice::candidates
  bool clusters = false;                    // true if every target GPU of the kernel has clusters
};

/// A variant that the rule makes.
struct VariantChoice {
  std::vector<plan::fb::Condition> conditions;
  /// Schedules that accept the same sizes, the rule's first; empty unless requested.
  std::vector<std::string> candidates;
  std::string refused;  // a requested schedule that is no candidate
};

inline constexpr const char* kChosenByUser = "--schedule";

/// Replaces the rule's `schedules` by those that `requested` has chosen. One that then accepts all
/// sizes on all GPUs becomes the last. Appends to `choices`. `candidates_of(schedule)`: those that
/// accept the same sizes, `schedule` first. `runs_anywhere(schedule)`: also on GPUs without
/// clusters. Returns who chose each schedule; empty: the rule.
template <typename AnySchedule, typename CandidatesOf, typename RunsAnywhere>
std::vector<std::string> apply_requested(const RequestedSchedules& requested,
                                         std::vector<AnySchedule>& schedules,
                                         std::vector<VariantChoice>& choices,
                                         const CandidatesOf& candidates_of,
                                         const RunsAnywhere& runs_anywhere) {
  std::vector<AnySchedule> result;
  std::vector<std::string> chosen_by;
  bool takes_all = false;
  for (std::size_t v = 0; v < schedules.size(); ++v) {
    const ChosenSchedule* chosen = nullptr;
    if (requested.chosen)
      if (const auto at = requested.chosen->find(v); at != requested.chosen->end())
        chosen = &at->second;
    VariantChoice choice;
    choice.conditions = schedules[v].conditions;
    AnySchedule schedule = schedules[v];
    std::string by;
    if (chosen || requested.list) {
      for (AnySchedule& candidate : candidates_of(schedules[v])) {
        std::string text = candidate.to_string();
        if (chosen && by.empty() && text == chosen->text) {
          schedule = std::move(candidate);
          by = chosen->by;
        }
        if (requested.list) choice.candidates.push_back(std::move(text));
      }
      if (chosen && by.empty()) choice.refused = chosen->text;
    }
    choices.push_back(std::move(choice));
    if (takes_all) continue;
    takes_all = !by.empty() && schedule.conditions.empty() && runs_anywhere(schedule);
    result.push_back(std::move(schedule));
    chosen_by.push_back(std::move(by));
  }
  if (!runs_anywhere(result.back()) && runs_anywhere(schedules.back())) {
    result.push_back(schedules.back());
    chosen_by.emplace_back();
  }
  schedules = std::move(result);
  return chosen_by;
}

}  // namespace sinter::codegen
