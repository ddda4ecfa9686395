#include "tools/cli/each_entry.h"

#include <algorithm>

#include <fmt/format.h>

#include "ir/text/shown.h"
#include "tools/compiler/each_entry.h"

namespace sinter::tools {

int run_each_entry(const BuildOptions& options, const RunInputs& inputs, const Console& console,
                   const RunOfEntry& run) {
  if (options.entries.empty()) return run(options, console);
  nlohmann::ordered_json report = nlohmann::ordered_json::array();
  int worst = 0;
  for (const auto& one : entries_one_by_one(options, inputs, Reporter())) {
    console.print(fmt::format("entry {}: {}", ir::shown(one.name), ir::shown(one.dims)));
    Console own = console;
    own.collect = [&](const nlohmann::ordered_json& object) {
      report.push_back({{"entry", one.name}});
      report.back().update(object);
    };
    const int code =
        with_context(fmt::format("entry '{}'", one.name), [&] { return run(one.options, own); });
    worst = std::max(worst, code);
  }
  console.result({{"entries", report}});
  return worst;
}

}  // namespace sinter::tools
