// Schedules in place of the rules': what timing has found, or what is to be timed.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "runtime/plan/plan_data.h"

namespace sinter::codegen {

struct ChosenSchedule {
  std::string text;  // as to_string() of the schedule prints it
  std::string by;    // for people: "tuning on NVIDIA H200"
};
/// By variants of a kernel, in the rule's order.
using ChosenSchedules = std::map<std::size_t, ChosenSchedule>;

struct RequestedSchedules {
  const ChosenSchedules* chosen = nullptr;  // variants that it does not have keep the rule's
  bool list = false;                        // whether to fill VariantChoice::candidates
  bool clusters = false;                    // every GPU that the kernel is for has clusters
};

/// One of the variants that the rule makes.
struct VariantChoice {
  std::vector<plan::fb::Condition> conditions;
  /// Schedules that take the same sizes, the rule's own first; empty unless asked for.
  std::vector<std::string> candidates;
  std::string refused;  // what was chosen for it, but is none of its candidates
};

inline constexpr const char* kChosenByUser = "--schedule";

/// Replaces in `schedules`, which are the rule's, what `requested` has chosen; one that then takes
/// all sizes on all GPUs is the last. Appends to `choices`. `candidates_of(schedule)`: what takes
/// the same sizes, `schedule` first. `runs_anywhere(schedule)`: on GPUs without clusters, too.
/// Returns who chose each of `schedules`; empty: the rule.
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
