// SPDX-License-Identifier: Apache-2.0
// The verb `sinter transcribe`.
#pragma once

#include "tools/cli/verbs/verbs.h"

namespace sinter::tools {

void add_transcribe(Cli& cli);

}  // namespace sinter::tools
