// SPDX-License-Identifier: Apache-2.0
// --trace: writes step times to a file for Perfetto and chrome://tracing.
#pragma once

#include <string>

#include "tools/cli/console.h"
#include "tools/cli/options.h"

namespace sinter::tools {

void add_trace_option(Command& verb, std::string& path);
/// Writes the trace and notes how to view it.
void write_trace(const std::string& path, const std::string& trace, const Console& console);

}  // namespace sinter::tools
