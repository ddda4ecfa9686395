// SPDX-License-Identifier: Apache-2.0
// What this machine has: GPUs, drivers, libraries.
#pragma once

#include <string>
#include <vector>

#include <sinter/sinter.h>

namespace sinter::tools {

/// Creates the context of `device`, if `plan` is for CUDA, and keeps it to the end of the process.
/// Returns the microseconds that took.
double create_context(const Plan& plan, int device);

/// One line for each thing that doctor looks for.
struct Finding {
  std::string what;
  bool found = false;
  std::string detail;  // version and path, or how to get it
};
struct MachineReport {
  std::vector<Finding> findings;
  // Of plans for GPUs; those for the CPU are compiled and run everywhere.
  bool compiles_for_gpus = false, runs_on_gpus = false;
};
MachineReport examine_machine();

}  // namespace sinter::tools
