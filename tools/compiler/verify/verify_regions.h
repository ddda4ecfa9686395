// What `verify` does beyond outputs: regions one by one, the first that goes wrong, the smallest
// graph that shows it.
#pragma once

#include <string>

#include "tools/compiler/verify/accuracy.h"

namespace sinter::tools {

/// Each returns the verb's exit code: 1 if something is above its bound, else 0.

/// Every fused region on the inputs that the reference gives it; the worst first.
int verify_regions(const BuildResult& built, const BuildOptions& build,
                   const AccuracyOptions& options, const Console& console);

/// The first pass that changes what the graph computes; if none does, the first region in order
/// whose result, computed from the results of those before it, is above its bound.
int bisect(const BuildResult& built, const BuildOptions& build, const AccuracyOptions& options,
           const Console& console);

/// Writes the smallest Graph text found that still fails to `path`, and, if seeded inputs do not
/// show it, its inputs beside it (.npz). It starts from the first region that fails on the
/// reference's inputs, else from the graph up to the one that `bisect` finds.
int reduce_failure(const BuildResult& built, const BuildOptions& build,
                   const AccuracyOptions& options, const std::string& path, const Console& console);

}  // namespace sinter::tools
