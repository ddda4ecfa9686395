// What `inspect` shows of a plan.
#pragma once

#include <string>

#include "tools/cli/console.h"

namespace sinter::tools {

struct PlanViews {
  bool graph = false, steps = false, kernels = false, source = false, memory = false,
       tuning = false;
  std::string shapes;
};

/// True if the file begins as a plan does. A file that cannot be opened throws Error(kUsage).
bool is_plan_file(const std::string& path);

void inspect_plan(const std::string& path, const PlanViews& views, const Console& console);

}  // namespace sinter::tools
