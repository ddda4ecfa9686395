// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/tactics/choose_tactic.h"

#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graphs/memory.h"
#include "runtime/cuda/tactics/flush_buffer.h"

namespace sinter::runtime {
namespace {

/// Median time of a step with cold caches.
double time_step(const LibraryContext& context, const StepLaunches& step) {
  const graphs::Driver& driver = context.context->driver();
  return *cold_time(context.context, context.stream, *context.flush, [&] {
    step.launch(driver, context.stream);
    return true;
  });
}

}  // namespace

std::size_t choose_tactic(const LibraryContext& context, const std::string& problem,
                          std::size_t count, const BufferAddresses& addresses,
                          std::span<const BufferSize> foreign, const BindTactic& bind) {
  if (context.taken)
    if (const auto found = context.taken->find(problem); found != context.taken->end())
      return found->second;
  if (const auto stored = context.tuning->find(problem, context.thorough);
      stored && stored->blob.size() == 1 && stored->blob[0] < count)
    return static_cast<std::size_t>(stored->blob[0]);
  BufferAddresses here = addresses;
  std::vector<graphs::DeviceMemory> scratch;
  try {
    for (const BufferSize& buffer : foreign) {
      scratch.emplace_back(context.context, buffer.bytes);
      here.address[buffer.buffer] = scratch.back().address();
      here.is_foreign[buffer.buffer] = false;
    }
    if (context.samples) context.samples->fill(context.stream);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kOutOfMemory) throw;
    return 0;
  }
  // Library calls choose their algorithms first, under the same lock.
  std::vector<std::optional<StepLaunches>> steps(count);
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < count; ++i) try {
      steps[i].emplace(bind(i, here));
      if (!best) best = i;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kUnsupported || (i + 1 == count && !best)) throw;
    }
  const std::lock_guard lock(context.tuning->timing_mutex());
  // Here launches queue back to back, but a graph adds about 1 us between two launches.
  constexpr double kBetweenLaunches = 1.0;
  constexpr double kClearlyFaster = 0.97;
  double least = 0;
  TimedChoice timed{problem, std::vector<double>(count, std::numeric_limits<double>::infinity()),
                    std::vector<std::string>(count), 0, std::vector<bool>(count)};
  for (std::size_t i = 0; i < count; ++i) {
    if (!steps[i]) continue;
    const std::size_t launches = steps[i]->launches();
    const double microseconds =
        time_step(context, *steps[i]) +
        (launches > 1 ? kBetweenLaunches * static_cast<double>(launches - 1) : 0.0);
    timed.microseconds[i] = microseconds;
    timed.how[i] = steps[i]->how();
    timed.overlaps[i] = steps[i]->overlaps();
    if (i != *best && microseconds >= kClearlyFaster * least) continue;
    best = i;
    least = microseconds;
  }
  timed.taken = *best;
  std::string note = timed.how[*best];
  for (std::size_t i = 0; i < count; ++i)
    if (i != *best && steps[i])
      note += fmt::format("; {}: {:.2f} us", steps[i]->tactic, timed.microseconds[i]);
  context.tuning->store(problem, {{*best}, least, std::move(note)}, context.thorough);
  if (context.timed) context.timed->push_back(std::move(timed));
  return *best;
}

}  // namespace sinter::runtime
