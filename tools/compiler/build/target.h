// What a plan is compiled for.
#pragma once

#include <string>
#include <vector>

namespace sinter::tools {

struct Target {
  bool cuda = false;
  std::vector<std::string> architectures;
  std::string to_string() const;
};

/// Resolves CompileOptions::target: "auto" is the GPU that is found, else the CPU; "cuda" is the
/// GPU's own architecture. Throws Error(kUsage) or Error(kDevice) saying what to write instead.
Target resolve_target(const std::string& text);

}  // namespace sinter::tools
