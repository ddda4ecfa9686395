// SPDX-License-Identifier: Apache-2.0
// The target of a compilation.
#pragma once

#include <string>
#include <vector>

#include "codegen/targets/cpu/cpu_target.h"

namespace sinter::tools {

struct Target {
  const codegen::Target* kind = &codegen::cpu_target();
  std::vector<std::string> architectures;  // empty for the CPU
  /// Capabilities common to all architectures.
  ir::TargetTraits traits() const;
  std::string to_string() const;
};

/// Resolves CompileOptions::target: "auto" is the machine's GPU, else the CPU; "cuda" is the GPU's
/// architecture. Throws Error(kUsage) or Error(kDevice) with a valid alternative.
Target resolve_target(const std::string& text);

}  // namespace sinter::tools
