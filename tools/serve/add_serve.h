// The verb `sinter serve`.
#pragma once

#include "tools/cli/verbs/verbs.h"

namespace sinter::tools {

void add_serve(Cli& cli);

}  // namespace sinter::tools
