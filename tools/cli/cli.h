// SPDX-License-Identifier: Apache-2.0
// The `sinter` command: parses arguments, runs one verb, turns errors into exit codes.
#pragma once

#include <span>

namespace sinter::tools {

struct Cli;
/// Adds a verb to the command.
using AddVerb = void (*)(Cli& cli);

/// Runs the command line with the verbs of tools/cli/verbs and `more`. Returns the exit code: 0
/// success; 1 a comparison failed; 2 usage; 3 unsupported; 4 invalid model; 5 invalid plan; 6 out
/// of memory; 7 device; 70 a defect of Sinter.
int run_cli(int argc, char** argv, std::span<const AddVerb> more = {});

}  // namespace sinter::tools
