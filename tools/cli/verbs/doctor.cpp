#include <fmt/format.h>
#include <sinter/sinter.h>

#include "tools/cli/machine.h"
#include "tools/cli/text/table.h"
#include "tools/cli/verbs/verbs.h"

namespace sinter::tools {
namespace {

void run_doctor(const Console& console) {
  std::vector<std::vector<std::string>> rows;
  nlohmann::ordered_json report = {{"version", version()}};
  for (const auto& finding : examine_machine()) {
    rows.push_back({finding.found ? "found" : "missing", finding.what, finding.detail});
    report["findings"].push_back(
        {{"what", finding.what}, {"found", finding.found}, {"detail", finding.detail}});
  }
  console.print(fmt::format("sinter {}", version()));
  console.print(format_table(rows));
  console.result(report);
}

}  // namespace

void add_doctor(Cli& cli) {
  cli.app.add_subcommand("doctor", "Say what this machine has, what is missing and how to get it")
      ->callback([&console = cli.console] { run_doctor(console); });
}

}  // namespace sinter::tools
