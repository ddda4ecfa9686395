#include "runtime/cuda/refine_choices.h"

#include <algorithm>

namespace sinter::runtime {

TakenAlternatives refine_choices(std::span<const TimedChoice> timed,
                                 const std::function<double(const TakenAlternatives&)>& time) {
  // An alternative that takes twice as long by itself hides no more than its launch.
  constexpr double kFarBehind = 2.0;
  constexpr double kClearlyFaster = 0.99;
  // A trial is a capture and some ten runs of all steps.
  constexpr int kMostTrials = 32;
  TakenAlternatives taken;
  for (const TimedChoice& choice : timed) taken[choice.problem] = choice.taken;
  const auto is_rival = [](const TimedChoice& choice, std::size_t i) {
    return i != choice.taken &&
           choice.microseconds[i] < kFarBehind * choice.microseconds[choice.taken];
  };
  int trials = 0;
  double least = 0;
  for (const TimedChoice& choice : timed) {
    for (std::size_t i = 0; i < choice.microseconds.size() && trials < kMostTrials; ++i) {
      if (!is_rival(choice, i)) continue;
      if (trials++ == 0) least = time(taken);
      TakenAlternatives other = taken;
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
