// SPDX-License-Identifier: Apache-2.0
// One function per verb, which adds its subcommand to the command line. The callback sets
// `exit_code` if it is not 0.
#pragma once

#include <cstdint>
#include <vector>

#include "tools/cli/console.h"
#include "tools/cli/help/verb_help.h"
#include "tools/cli/options.h"

namespace sinter::tools {

struct GenerateArguments;
struct OpenModel;

/// Runs the requests of a file, as many at once as the plan allows. `serve` and `generate
/// --requests` share it. Returns the exit code.
using RunRequests = int (*)(const GenerateArguments& options, const OpenModel& model,
                            const std::vector<std::int64_t>& stops, const Console& console);

struct Cli {
  Command& app;
  Console& console;
  int& exit_code;
  RunRequests run_requests = nullptr;  // null in a command without `serve`
};

void add_compile(Cli& cli);
void add_refit(Cli& cli);
void add_run(Cli& cli);
void add_sign(Cli& cli);
void add_generate(Cli& cli);
void add_chat(Cli& cli);
void add_bench(Cli& cli);
void add_compare(Cli& cli);
void add_inspect(Cli& cli);
void add_verify(Cli& cli);
void add_profile(Cli& cli);
void add_report(Cli& cli);
void add_ops(Cli& cli);
void add_doctor(Cli& cli);
void add_help(Cli& cli);
void add_completion(Cli& cli);

/// Descriptions of the verbs and of the command.
std::vector<VerbHelp> verbs_of(const Command& root);
VerbHelp general_help(const Command& root);

}  // namespace sinter::tools
