#include <fmt/format.h>

#include "frontend/import.h"
#include "tools/verbs/verbs.h"

namespace sinter::tools {
namespace {

void run(const Console& console) {
  std::vector<std::vector<std::string>> rows = {{"domain", "operator", "since opset"}};
  nlohmann::ordered_json report = nlohmann::ordered_json::array();
  for (const auto& op : frontend::supported_ops()) {
    const std::string domain = op.domain.empty() ? "ai.onnx" : op.domain;
    rows.push_back({domain, op.name, fmt::format("{}", op.since_version)});
    report.push_back({{"domain", domain}, {"operator", op.name}, {"since", op.since_version}});
  }
  console.print(format_table(rows));
  console.result({{"operators", report}});
}

}  // namespace

void add_ops(Cli& cli) {
  cli.app.add_subcommand("ops", "List the ONNX operators that import knows")
      ->callback([&console = cli.console] { run(console); });
}

}  // namespace sinter::tools
