#include "runtime/cuda/launch_list.h"

namespace sinter::runtime {

void launch(const Launch& work, const graphs::Driver& driver, CUstream stream, bool early) {
  if (const auto* kernel = std::get_if<KernelLaunch>(&work)) {
    graphs::LaunchConfig config = kernel->config;
    if (!early) config.remove(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
    graphs::launch(driver, kernel->function, config, stream,
                   const_cast<void**>(kernel->arguments.data()));
  } else if (const auto* product = std::get_if<MatmulLaunch>(&work)) {
    product->launch(stream);
  } else if (const auto* conv = std::get_if<ConvLaunch>(&work)) {
    conv->launch(stream);
  } else if (const auto* copy = std::get_if<CopyLaunch>(&work)) {
    driver.memcpy_dtod_async(copy->target, copy->source, copy->bytes, stream);
  } else if (const auto* fill = std::get_if<ZeroFill>(&work)) {
    driver.memset_d8_async(fill->target, 0, fill->bytes, stream);
  }
}

std::size_t launches_of(const Launch& work) {
  const auto* product = std::get_if<MatmulLaunch>(&work);
  return product ? product->calls() : 1;
}

void StepLaunches::launch(const graphs::Driver& driver, CUstream stream, bool early) const {
  for (const Launch& work : works) {
    runtime::launch(work, driver, stream, early);
    early = true;
  }
}

void launch_steps(std::span<const StepLaunches> steps, const graphs::Driver& driver,
                  CUstream stream, bool early) {
  for (std::size_t i = 0; i < steps.size(); ++i) {
    steps[i].launch(driver, stream, early);
    early = early || !steps[i].works.empty();
    if (!steps[i].loop) continue;
    const LoopLaunch& loop = *steps[i].loop;
    for (std::int64_t n = 0; n < loop.trips; ++n) {
      for (CUdeviceptr* reader : loop.readers)
        *reader = loop.numbers + static_cast<std::uint64_t>(n) * sizeof(std::int64_t);
      launch_steps(steps.subspan(i + 1, loop.steps), driver, stream, early);
      early = early || loop.steps > 0;
    }
    i += loop.steps;
  }
}

std::vector<std::size_t> runs_of(std::span<const StepLaunches> steps) {
  std::vector<std::size_t> runs(steps.size(), 1);
  for (std::size_t i = 0; i < steps.size(); ++i)
    for (std::size_t s = 1; steps[i].loop && s <= steps[i].loop->steps; ++s)
      runs[i + s] *= static_cast<std::size_t>(steps[i].loop->trips);
  return runs;
}

std::size_t StepLaunches::launches() const {
  std::size_t count = 0;
  for (const Launch& work : works) count += launches_of(work);
  return count;
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
