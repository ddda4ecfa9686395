// `inspect --why`: why two ONNX nodes are or are not in one kernel.
#pragma once

#include <string>
#include <vector>

#include "frontend/import.h"
#include "tools/cli/console.h"
#include "tools/compiler/build.h"

namespace sinter::tools {

/// Runs the passes over `model` as `options` say and prints what they did about the nodes called
/// `a` and `b`. Throws Error(kUsage) for names that the model does not have, with those that look
/// like them.
void explain_why(const BuildOptions& options, const frontend::ImportedModel& model,
                 const Target& target, const std::string& a, const std::string& b,
                 const Console& console);

}  // namespace sinter::tools
