// SPDX-License-Identifier: Apache-2.0
// The argument of verbs that run plans: a plan, or a model to compile.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <sinter/plan.h>

#include "tools/cli/build_options.h"

namespace sinter::tools {

class PlanSource {
 public:
  /// Compiles `file` in memory by `texts`, with a note on `console`, unless it is a plan. Throws
  /// Error(kUsage) for compile options with a plan, and for a required signature with a model.
  PlanSource(const std::string& file, const BuildTexts& texts, const LoadOptions& load,
             const Console& console);

  Plan load() const;

 private:
  std::string file_;
  LoadOptions load_;
  std::vector<std::byte> compiled_;  // empty: the file is a plan
};

}  // namespace sinter::tools
