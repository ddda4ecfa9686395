// One model compiled in several ways, side by side.
#pragma once

#include "tools/compiler/build/build.h"

namespace sinter::tools {

/// sinter::compare without its boundary. Progress of the measurements is stage "measuring".
CompareResult compare_builds(const BuildOptions& options, const CompareOptions& compare,
                             Reporter& reporter);

}  // namespace sinter::tools
