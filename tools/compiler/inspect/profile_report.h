// What a profile says: which step is bound by what, and where the time of a run goes.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include <sinter/profile.h>
#include <sinter/sinter.h>

namespace sinter::tools {

/// What keeps a step from being faster.
enum class Bound {
  kMemory,   // at full rate its bytes take longer than its operations
  kCompute,  // the other way round
  kLaunch,   // at full rate both take less time than a step that does nothing: fixed costs decide
};
std::string_view to_string(Bound bound);

struct StepProfile {
  StepTime time;
  Bound bound = Bound::kLaunch;
  // Least times in microseconds: bytes at the copy rate, operations at their rate; 0: not known.
  double memory_us = 0, compute_us = 0;
  double launch_us = 0;  // an empty step

  std::size_t launches() const;
  /// Bytes per second.
  double bandwidth() const;
  double operations_per_second() const;
  /// The least time of what it is bound by over its time.
  double share_of_bound() const;
};

/// Microseconds, but for counts.
struct ProfileReport {
  MachineRates rates;
  std::vector<StepProfile> steps;                       // longest first
  double whole_us = 0;                                  // of the run as it is replayed
  double steps_us = 0;                                  // sum of the steps
  double memory_us = 0, compute_us = 0, launch_us = 0;  // steps_us by what they are bound by
  double gaps_us = 0;     // whole_us less steps_us, where that is positive: nothing runs. On a GPU
                          // the launch of the graph is in it.
  double overlap_us = 0;  // where it is negative: steps run side by side or start early
  std::size_t launches = 0;
  std::uint64_t bytes = 0, flops = 0;
};

/// The medians of `rounds` (profiles of one run, with the same steps and parts).
std::vector<StepTime> median_of(const std::vector<std::vector<StepTime>>& rounds);

ProfileReport make_report(std::vector<StepTime> steps, const MachineRates& rates, double whole_us);
/// One row for each step, further rows for parts of steps with several. Columns of kernels are
/// there if some step has a generated GPU kernel.
std::string profile_table(const ProfileReport& report);
/// The sums and how they were found, as lines.
std::vector<std::string> profile_summary(const ProfileReport& report);
nlohmann::ordered_json to_json(const ProfileReport& report);

}  // namespace sinter::tools
