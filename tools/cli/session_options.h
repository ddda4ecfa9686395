// SPDX-License-Identifier: Apache-2.0
// Options of the sessions that a verb creates.
#pragma once

#include <sinter/session.h>

#include "tools/cli/options.h"

namespace sinter::tools {

/// Adds --device and --op-library. Parsing the command line opens the libraries.
void add_session_options(Command& verb, SessionOptions& options);

}  // namespace sinter::tools
