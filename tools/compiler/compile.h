// A model to a plan and all that is said of it: sinter::compile without its boundary.
#pragma once

#include <string>

#include "tools/compiler/build/build.h"

namespace sinter::tools {

/// `path`: the plan's file; empty: it stays in memory.
CompileResult compile_model(const BuildOptions& options, const std::string& path,
                            Reporter& reporter);

}  // namespace sinter::tools
