// SPDX-License-Identifier: Apache-2.0
// `generate --requests`: the requests of a file, as the server takes them.
#pragma once

#include <cstdint>
#include <vector>

#include "tools/cli/verbs/generate_text.h"

namespace sinter::tools {

/// A line is a body of POST /v1/completions, or with `messages` of /v1/chat/completions; `ids` may
/// stand for `prompt`, and `arrival_ms` says when it comes. What a line does not say is as the
/// command's options have it. `stops` end texts, too. Returns the exit code. Throws Error(kUsage)
/// that names the line and the field.
int run_requests_file(const GenerateArguments& options, const OpenModel& opened,
                      const std::vector<std::int64_t>& stops, const Console& console);

}  // namespace sinter::tools
