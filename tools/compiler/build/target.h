// SPDX-License-Identifier: Apache-2.0
// What a plan is compiled for.
#pragma once

#include <string>
#include <vector>

#include "codegen/targets/cpu/cpu_target.h"

namespace sinter::tools {

struct Target {
  const codegen::Target* kind = &codegen::cpu_target();
  std::vector<std::string> architectures;  // none where there are none: the CPU
  /// What all of its architectures can do.
  ir::TargetTraits traits() const;
  std::string to_string() const;
};

/// Resolves CompileOptions::target: "auto" is the GPU that is found, else the CPU; "cuda" is the
/// GPU's own architecture. Throws Error(kUsage) or Error(kDevice) saying what to write instead.
Target resolve_target(const std::string& text);

}  // namespace sinter::tools
