// Entry points one by one, for what shows or does one list of steps.
#pragma once

#include <functional>

#include "tools/compiler/build.h"
#include "tools/compiler/options/inputs.h"

namespace sinter::tools {

/// What a verb does with one list of steps; its exit code.
using RunOfEntry = std::function<int(const BuildOptions& options, const Console& console)>;

/// Calls `run` for each entry point of `options` with its dimensions in place of --entry, and says
/// on stdout which it is; in JSON mode the results become one object, {"entries": [..]}. Those that
/// do not take the shapes of `inputs` are left out. Without --entry it is one call, with `options`
/// as they are. Returns the greatest exit code. Throws Error(kUsage) if no entry point takes the
/// shapes.
int run_each_entry(const BuildOptions& options, const InputOptions& inputs, const Console& console,
                   const RunOfEntry& run);

}  // namespace sinter::tools
