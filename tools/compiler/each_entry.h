// SPDX-License-Identifier: Apache-2.0
// Handles entry points one by one, for verbs that work on a single list of steps.
#pragma once

#include <string>
#include <vector>

#include "tools/compiler/build/build.h"

namespace sinter::tools {

/// One list of steps: the options for one entry point, with its dimensions instead of entry points.
struct OneEntry {
  std::string name;  // empty: no entry points
  std::string dims;  // human-readable: "seq=2..2048"
  BuildOptions options;
};

/// One for each entry point of `options` that accepts the shapes of `inputs`; without entry points,
/// `options` unchanged. Throws Error(kUsage) if no entry point accepts the shapes.
std::vector<OneEntry> entries_one_by_one(const BuildOptions& options, const RunInputs& inputs,
                                         const Reporter& reporter);

}  // namespace sinter::tools
