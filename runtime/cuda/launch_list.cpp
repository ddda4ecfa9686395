// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/launch_list.h"

#include <algorithm>

#include "graphs/capture.h"
#include "runtime/profiler/profiler_range.h"

namespace sinter::runtime {

std::string_view to_string(ControlMechanism mechanism) {
  switch (mechanism) {
    case ControlMechanism::kCaptured: return "captured";
    case ControlMechanism::kConditional: return "conditional node";
    case ControlMechanism::kHost: return "host";
  }
  return "";
}

void launch(const Launch& work, const graphs::Driver& driver, CUstream stream, bool early) {
  if (const auto* kernel = std::get_if<KernelLaunch>(&work)) {
    graphs::LaunchConfig config = kernel->config;
    if (!early) config.remove(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
    graphs::launch(driver, kernel->function, config, stream,
                   const_cast<void**>(kernel->arguments.data()));
  } else if (const auto* product = std::get_if<MatmulLaunch>(&work)) {
    product->launch(stream);
  } else if (const auto* conv = std::get_if<ConvLaunch>(&work)) {
    // Prevents an early start of this convolution. Engine 4 of cuDNN 9.14 with a residual (H200)
    // reads the previous kernel's output before that kernel ends, if it triggers programmatic
    // launch early. Drivers before 12.3 cannot add the node that prevents this.
    if (graphs::can_add_to_capture(driver)) graphs::end_overlap(driver, stream);
    conv->launch(stream);
  } else if (const auto* copy = std::get_if<CopyLaunch>(&work)) {
    driver.memcpy_dtod_async(copy->target, copy->source, copy->bytes, stream);
  } else if (const auto* fill = std::get_if<ZeroFill>(&work)) {
    driver.memset_d8_async(fill->target, 0, fill->bytes, stream);
  } else if (const auto* host = std::get_if<HostLaunch>(&work)) {
    host->call->enqueue(stream);
  }
}

std::size_t launches_of(const Launch& work) {
  const auto* product = std::get_if<MatmulLaunch>(&work);
  return product ? product->calls() : 1;
}

void StepLaunches::launch(const graphs::Driver& driver, CUstream stream, bool early) const {
  const ProfilerRange shown(range);
  for (const Launch& work : works) {
    runtime::launch(work, driver, stream, early);
    early = true;
  }
}

bool uses(std::span<const StepLaunches> steps, ControlMechanism mechanism) {
  return std::ranges::any_of(steps, [&](const StepLaunches& step) {
    return (step.loop && step.loop->mechanism == mechanism) ||
           (step.branch && step.branch->mechanism == mechanism);
  });
}

bool depends_on_data(std::span<const StepLaunches> steps) {
  return std::ranges::any_of(steps, [](const StepLaunches& step) {
    return step.branch || (step.loop && step.loop->condition != 0);
  });
}

std::vector<std::size_t> runs_of(std::span<const StepLaunches> steps,
                                 std::span<const std::int64_t> iterations) {
  std::vector<std::size_t> runs(steps.size(), 1);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (!steps[i].loop) continue;
    const LoopLaunch& loop = *steps[i].loop;
    // The last run's counter sums all executions of the loop.
    const std::size_t all = loop.condition == 0     ? runs[i] * static_cast<std::size_t>(loop.trips)
                            : i < iterations.size() ? static_cast<std::size_t>(iterations[i])
                                                    : runs[i];
    for (std::size_t s = 1; s <= loop.steps; ++s) runs[i + s] = all;
  }
  return runs;
}

std::size_t StepLaunches::body_steps() const {
  return loop ? loop->steps : branch ? branch->then_steps + branch->else_steps : 0;
}

std::size_t StepLaunches::launches() const {
  std::size_t count = 0;
  for (const Launch& work : works) count += launches_of(work);
  return count;
}

std::uint64_t StepLaunches::workspace_bytes() const {
  std::uint64_t bytes = 0;
  for (const Launch& work : works)
    if (const auto* host = std::get_if<HostLaunch>(&work)) bytes += host->workspace->size();
  return bytes;
}

bool StepLaunches::overlaps() const {
  const auto* first = works.empty() ? nullptr : std::get_if<KernelLaunch>(&works.front());
  return first != nullptr && first->variant->programmatic_launch;
}

std::string StepLaunches::how() const {
  std::string text = tactic;
  for (const Launch& work : works)
    if (const auto* conv = std::get_if<ConvLaunch>(&work))
      text += (text.empty() ? "" : ": ") + conv->describe();
  return text;
}

}  // namespace sinter::runtime
