// SPDX-License-Identifier: Apache-2.0
// Examines this machine: GPUs, drivers, libraries.
#pragma once

#include <string>
#include <vector>

#include <sinter/sinter.h>

namespace sinter::tools {

/// Creates the context of `device`, if `plan` is for CUDA, and keeps it until the process ends.
/// Returns the microseconds that this took.
double create_context(const Plan& plan, int device);

/// One line of `doctor`.
struct Finding {
  std::string what;
  bool found = false;
  std::string detail;  // version and path, or how to install it
};
struct MachineReport {
  std::vector<Finding> findings;
  // For GPU targets; CPU plans compile and run everywhere.
  bool compiles_for_gpus = false, runs_on_gpus = false;
};
MachineReport examine_machine();

}  // namespace sinter::tools
