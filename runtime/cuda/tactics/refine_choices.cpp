// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/tactics/refine_choices.h"

#include <algorithm>
#include <optional>

namespace sinter::runtime {

TakenTactics refine_choices(std::span<const TimedChoice> timed,
                            const std::function<double(const TakenTactics&)>& time) {
  // A tactic that takes twice as long alone cannot win by hiding a launch.
  constexpr double kFarBehind = 2.0;
  constexpr double kClearlyFaster = 0.99;
  // A trial captures all steps and runs them about 10 times.
  constexpr int kMostTrials = 32;
  TakenTactics taken;
  for (const TimedChoice& choice : timed) taken[choice.problem] = choice.taken;
  const auto is_near = [](const TimedChoice& choice, std::size_t i) {
    return choice.microseconds[i] < kFarBehind * choice.microseconds[choice.taken];
  };
  int trials = 0;
  double least = 0;
  TakenTactics together = taken;
  for (const TimedChoice& choice : timed) {
    std::optional<std::size_t> best;
    for (std::size_t i = 0; i < choice.overlaps.size(); ++i)
      if (choice.overlaps[i] && is_near(choice, i) &&
          (!best || choice.microseconds[i] < choice.microseconds[*best]))
        best = i;
    if (best) together[choice.problem] = *best;
  }
  if (together != taken) {
    ++trials;
    least = time(taken);
    if (const double microseconds = time(together); microseconds < kClearlyFaster * least) {
      taken = std::move(together);
      least = microseconds;
    }
  }
  for (const TimedChoice& choice : timed) {
    for (std::size_t i = 0; i < choice.microseconds.size() && trials < kMostTrials; ++i) {
      if (i == taken.at(choice.problem) || !is_near(choice, i)) continue;
      if (trials++ == 0) least = time(taken);
      TakenTactics other = taken;
      other[choice.problem] = i;
      const double microseconds = time(other);
      if (microseconds >= kClearlyFaster * least) continue;
      taken = std::move(other);
      least = microseconds;
    }
  }
  return taken;
}

}  // namespace sinter::runtime
