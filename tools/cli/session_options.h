// SPDX-License-Identifier: Apache-2.0
// What sessions that a verb makes run on and with.
#pragma once

#include <sinter/session.h>

#include "tools/cli/options.h"

namespace sinter::tools {

/// Adds --device and --op-library. Parsing the command line opens the libraries.
void add_session_options(Command& verb, SessionOptions& options);

}  // namespace sinter::tools
