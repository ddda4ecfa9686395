// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <sinter/sinter.h>

#include "tools/cli/machine.h"
#include "tools/cli/text/table.h"
#include "tools/cli/verbs/verbs.h"

namespace sinter::tools {
namespace {

std::string gpu_text(const MachineReport& machine) {
  if (machine.compiles_for_gpus && machine.runs_on_gpus) return "can be compiled and run here";
  std::string text = "can neither be compiled nor run here";
  if (machine.compiles_for_gpus) text = "can be compiled here, but not run";
  if (machine.runs_on_gpus) text = "can be run here, but not compiled";
  return text + ": see what is missing";
}

void run_doctor(const Console& console) {
  Rows rows;
  nlohmann::ordered_json report = {{"version", version()}};
  const MachineReport machine = examine_machine();
  for (const auto& finding : machine.findings) {
    rows.push_back({finding.found ? "found" : "missing", finding.what, finding.detail});
    report["findings"].push_back(
        {{"what", finding.what}, {"found", finding.found}, {"detail", finding.detail}});
  }
  console.print("sinter {}", version());
  console.print(format_table(rows));
  report["gpus"] = {{"compiles", machine.compiles_for_gpus}, {"runs", machine.runs_on_gpus}};
  console.print("plans for the CPU can be compiled and run here");
  console.print("plans for GPUs {}", gpu_text(machine));
  console.result(report);
}

}  // namespace

void add_doctor(Cli& cli) {
  auto* verb = cli.app.add_subcommand(
      "doctor", "Say what this machine has, what is missing and how to get it");
  verb->example("sinter doctor");
  verb->callback([&console = cli.console] { run_doctor(console); });
}

}  // namespace sinter::tools
