// A plan's expressions as text.
#pragma once

#include <string>
#include <vector>

#include "runtime/plan/plan_data.h"

namespace sinter::tools {

/// One text for each of plan.expressions: "384", "batch*seq", "floordiv(seq, 2)".
std::vector<std::string> expression_texts(const plan::fb::PlanT& plan);

}  // namespace sinter::tools
