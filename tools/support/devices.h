// What this machine has: GPUs, drivers, libraries.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace sinter::tools {

/// "sm_90" of the first GPU, or nothing where there is no usable GPU or this build has no CUDA.
std::optional<std::string> first_gpu_architecture();

/// One line for each thing that doctor looks for.
struct Finding {
  std::string what;
  bool found = false;
  std::string detail;  // version and path, or how to get it
};
std::vector<Finding> examine_machine();

}  // namespace sinter::tools
