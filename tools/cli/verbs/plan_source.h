// SPDX-License-Identifier: Apache-2.0
// A plan, or what one is made from: what verbs that run take.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <sinter/plan.h>

#include "tools/cli/build_options.h"

namespace sinter::tools {

class PlanSource {
 public:
  /// Compiles `file` in memory, as `texts` say, if it is no plan; says so on `console`. Throws
  /// Error(kUsage) for options of compiling that are given of a plan, and for a signature that is
  /// asked for of a model.
  PlanSource(const std::string& file, const BuildTexts& texts, const LoadOptions& load,
             const Console& console);

  Plan load() const;

 private:
  std::string file_;
  LoadOptions load_;
  std::vector<std::byte> compiled_;  // empty: the file is the plan
};

}  // namespace sinter::tools
