// SPDX-License-Identifier: Apache-2.0
// Runs independent steps in parallel branches of a CUDA graph.
#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "runtime/cuda/cuda_executor.h"
#include "runtime/plan/hash.h"

namespace sinter::runtime {
namespace {

using graphs::Event;

// More branches divide the GPU too finely to gain anything.
constexpr std::size_t kMostStreams = 4;

/// The tuning cache's key for a choice of branches.
std::string problem_of(const plan::fb::PlanT& meta, const BoundShape& shape,
                       const std::vector<StepLaunches>& steps) {
  std::string text;
  for (const StepLaunches& step : steps)
    text += fmt::format("{} {}\n", meta.steps[step.index]->name, step.how());
  for (const std::int64_t symbol : shape.symbols) text += fmt::format("{},", symbol);
  return fmt::format("branches of {} steps {:016x}", steps.size(), plan::hash64(text));
}

}  // namespace

void CudaExecutor::put_branches(const std::vector<StepLaunches>& steps,
                                const std::vector<StepPlace>& places, CUstream stream) {
  if (places.empty()) {
    // No early start: later kernels read states at once, so the first kernel must wait for the
    // whole previous run.
    control_.put_run(steps, stream, false);
    return;
  }
  const auto stream_of = [&](std::size_t number) {
    return number == 0 ? stream : branches_[number - 1]->handle();
  };
  const auto recorded = [&](CUstream on) {
    Event event(plan_->context(), false);
    event.record(on);
    return event;
  };
  const Event start = recorded(stream);
  std::vector<std::optional<Event>> ended(steps.size());
  for (const StepPlace& place : places)
    for (const std::size_t step : place.waits) ended[step].emplace(plan_->context(), false);
  std::vector<bool> is_used(branches_.size() + 1);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const StepPlace& place = places[i];
    CUstream on = stream_of(place.stream);
    for (const std::size_t step : place.waits) ended[step]->make_wait(on);
    const bool begins = !place.follows && place.stream != 0;
    if (begins && place.waits.empty()) start.make_wait(on);
    // Programmatic dependent launch needs a kernel as its immediate predecessor on the stream.
    steps[i].launch(driver(), on, i > 0 && !begins && place.waits.empty());
    if (ended[i]) ended[i]->record(on);
    is_used[place.stream] = true;
  }
  for (std::size_t s = 1; s < is_used.size(); ++s)
    if (is_used[s]) recorded(stream_of(s)).make_wait(stream);
}

std::vector<StepPlace> CudaExecutor::choose_places(const BoundShape& shape, BufferAddresses buffers,
                                                   const LibraryContext& libraries,
                                                   const std::vector<StepLaunches>& steps) {
  // A loop launches its steps repeatedly, on one stream.
  if (std::ranges::any_of(steps, [](const StepLaunches& step) { return step.body_steps() > 0; }))
    return {};
  const MemoryRange workspace{workspace_.address(), workspace_.address() + workspace_.size()};
  const auto places_at = [&](const BufferAddresses& where, const std::vector<StepLaunches>& bound) {
    return place_steps(memory_of(*plan_, shape, where, bound, workspace), kMostStreams);
  };
  std::vector<StepPlace> places = places_at(buffers, steps);
  if (one_after_another(places)) return {};
  while (branches_.size() + 1 < kMostStreams)
    branches_.push_back(std::make_unique<graphs::Stream>(plan_->context()));
  const std::string problem = problem_of(meta(), shape, steps);
  if (const auto stored = tuning_->find(problem, libraries.thorough);
      stored && stored->blob.size() == 1)
    return stored->blob[0] == 1 ? places : std::vector<StepPlace>();

  std::vector<graphs::DeviceMemory> scratch;
  if (!spare_foreign(shape, buffers, scratch)) return {};
  const std::vector<StepLaunches> trial = make_launches(*plan_, shape, buffers, libraries);
  constexpr double kClearlyFaster = 0.99;
  const double alone = time_in_graph(trial, {});
  const double together = time_in_graph(trial, places_at(buffers, trial));
  const bool is_faster = together < kClearlyFaster * alone;
  const std::string note =
      fmt::format("{:.2f} us in branches, {:.2f} us one after another", together, alone);
  tuning_->store(problem, {{is_faster ? 1u : 0u}, is_faster ? together : alone, note},
                 libraries.thorough);
  if (!is_faster) places.clear();
  return places;
}

}  // namespace sinter::runtime
