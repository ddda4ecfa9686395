// One function a verb: adds its subcommand to the application. The callback returns through
// `exit_code` where it is not 0.
#pragma once

#include "tools/cli/console.h"
#include "tools/cli/options.h"

namespace sinter::tools {

struct Cli {
  Command& app;
  Console& console;
  int& exit_code;
};

void add_compile(Cli& cli);
void add_refit(Cli& cli);
void add_run(Cli& cli);
void add_generate(Cli& cli);
void add_bench(Cli& cli);
void add_compare(Cli& cli);
void add_inspect(Cli& cli);
void add_verify(Cli& cli);
void add_profile(Cli& cli);
void add_report(Cli& cli);
void add_ops(Cli& cli);
void add_doctor(Cli& cli);

}  // namespace sinter::tools
