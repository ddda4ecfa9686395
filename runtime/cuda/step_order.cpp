// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/step_order.h"

#include <algorithm>
#include <optional>

namespace sinter::runtime {
namespace {

bool meet(std::span<const MemoryRange> a, std::span<const MemoryRange> b) {
  return std::ranges::any_of(a, [&](const MemoryRange& x) {
    return std::ranges::any_of(
        b, [&](const MemoryRange& y) { return x.begin < y.end && y.begin < x.end; });
  });
}

bool depends(const StepMemory& later, const StepMemory& earlier) {
  return meet(later.reads, earlier.writes) || meet(later.writes, earlier.writes) ||
         meet(later.writes, earlier.reads);
}

using Steps = std::vector<bool>;

void join(Steps& into, const Steps& other) {
  for (std::size_t i = 0; i < other.size(); ++i) into[i] = into[i] || other[i];
}

}  // namespace

std::vector<StepPlace> place_steps(std::span<const StepMemory> steps, std::size_t streams) {
  std::vector<StepPlace> places(steps.size());
  std::vector<Steps> ended(steps.size());  // by step: which steps have ended when it has, including
                                           // itself
  std::vector<std::size_t> last;           // last step of each stream
  for (std::size_t i = 0; i < steps.size(); ++i) {
    Steps before(i + 1);
    std::vector<std::size_t> needed;  // latest first; none is implied by earlier entries
    for (std::size_t j = i; j-- > 0;) {
      if (before[j] || !depends(steps[i], steps[j])) continue;
      needed.push_back(j);
      join(before, ended[j]);
    }
    const auto find_stream = [&](auto&& condition) -> std::optional<std::size_t> {
      for (std::size_t s = 0; s < last.size(); ++s)
        if (condition(last[s])) return s;
      return std::nullopt;
    };
    std::optional<std::size_t> stream;
    for (const std::size_t step : needed)
      if (!stream) stream = find_stream([&](std::size_t on) { return on == step; });
    if (!stream) stream = find_stream([&](std::size_t on) { return before[on]; });
    if (!stream && last.size() < streams) {
      stream = last.size();
      last.push_back(i);
    } else {
      // All streams are busy: takes the one whose last step is the oldest.
      if (!stream) stream = static_cast<std::size_t>(std::ranges::min_element(last) - last.begin());
      join(before, ended[last[*stream]]);
      places[i].follows = true;
    }
    places[i].stream = *stream;
    const Steps* in_front = places[i].follows ? &ended[last[*stream]] : nullptr;
    for (const std::size_t step : needed)
      if (in_front == nullptr || step >= in_front->size() || !(*in_front)[step])
        places[i].waits.push_back(step);
    last[*stream] = i;
    before[i] = true;
    ended[i] = std::move(before);
  }
  return places;
}

bool one_after_another(std::span<const StepPlace> places) {
  return std::ranges::all_of(places, [](auto& place) { return place.stream == 0; });
}

}  // namespace sinter::runtime
