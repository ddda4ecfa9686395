// Schedules in tuning files, beside what sessions keep there (runtime/libraries/tuning_cache.h).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "codegen/plan/schedule_choice.h"
#include "tools/compiler/tuning/tune.h"

namespace sinter::tools {

/// A schedule that a file keeps for one variant of a kernel on one kind of GPU.
struct KeptSchedule {
  std::string gpu, architecture;
  std::string kernel, key;
  std::size_t variant = 0;
  std::string schedule;
  double microseconds = 0;
  std::string details;  // the rule's schedule and time, how many were tried, versions; for people
};

/// What `file` keeps of schedules. Throws Error(kUsage) naming file and line if it cannot be read
/// or is malformed, Error(kDevice) in a build without CUDA.
std::vector<KeptSchedule> read_schedules(const std::string& file);

/// Adds what was timed, the rule's choice too where that won. Throws Error(kUsage) if the file
/// cannot be written.
void keep_schedules(const std::string& file, const TuningMachine& machine,
                    const std::vector<TunedKernel>& kernels);

/// Those for one architecture and GPU, by kernel. Without a GPU the file must have those of one
/// kind alone for the architecture: else Error(kUsage) names them.
std::map<std::string, codegen::ChosenSchedules> schedules_for(
    const std::vector<KeptSchedule>& kept, const std::string& file, const std::string& architecture,
    const std::optional<std::string>& gpu);

/// Adds all that `from` keeps to `to`. Throws Error(kUsage) if that cannot be written.
void copy_tuning(const std::string& from, const std::string& to);

}  // namespace sinter::tools
