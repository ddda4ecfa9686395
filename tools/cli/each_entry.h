// Entry points one by one, on the command line.
#pragma once

#include <functional>

#include "tools/cli/console.h"
#include "tools/compiler/build/build.h"

namespace sinter::tools {

/// What a verb does with one list of steps; its exit code.
using RunOfEntry = std::function<int(const BuildOptions& options, const Console& console)>;

/// Calls `run` for each entry point of `options` (entries_one_by_one) and says on stdout which it
/// is; in JSON mode the results become one object, {"entries": [..]}. Without entry points it is
/// one call. Returns the greatest exit code.
int run_each_entry(const BuildOptions& options, const RunInputs& inputs, const Console& console,
                   const RunOfEntry& run);

}  // namespace sinter::tools
