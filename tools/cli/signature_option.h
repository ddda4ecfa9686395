// SPDX-License-Identifier: Apache-2.0
// --require-signature of verbs that load plans of others.
#pragma once

#include <string>

#include <sinter/plan.h>

#include "tools/cli/options.h"

namespace sinter::tools {

void add_signature_option(Command& verb, LoadOptions& load);

}  // namespace sinter::tools
