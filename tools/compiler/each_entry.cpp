#include "tools/compiler/each_entry.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sinter/error.h>

#include "fusion/narrow_dims.h"
#include "tools/compiler/options/entry_option.h"
#include "tools/compiler/options/npy.h"
#include "tools/compiler/options/shapes.h"

namespace sinter::tools {
namespace {

std::vector<std::string> dims_of(const EntryLimits& entry) {
  std::vector<std::string> dims;
  for (const auto& [symbol, range] : entry.limits)
    dims.push_back(range.min == range.max ? fmt::format("{}={}", symbol, range.min)
                                          : fmt::format("{}={}..{}", symbol, range.min, range.max));
  return dims;
}

/// The entry points that take `shapes`, those of some inputs.
std::vector<EntryLimits> that_take(std::vector<EntryLimits> entries, const BuildOptions& options,
                                   const ShapeMap& shapes) {
  if (shapes.empty()) return entries;
  const ir::Graph model = import_with_shapes(options).graph;
  std::string why;
  std::erase_if(entries, [&](const EntryLimits& entry) {
    try {
      (void)typical_sizes(fusion::narrow_dims(model, entry.limits), shapes);
      return false;
    } catch (const Error& error) {
      why += fmt::format("; {}: {}", entry.name, error.what());
      return true;
    }
  });
  if (entries.empty()) throw Error(ErrorCode::kUsage, "no entry point takes these shapes" + why);
  return entries;
}

}  // namespace

int run_each_entry(const BuildOptions& options, const InputOptions& inputs, const Console& console,
                   const RunOfEntry& run) {
  if (options.entries.empty()) return run(options, console);
  ShapeMap shapes = parse_shapes(inputs.shapes);
  for (const auto& [name, tensor] : read_tensor_files(inputs.files))
    shapes.insert_or_assign(name, tensor.shape());
  nlohmann::ordered_json report = nlohmann::ordered_json::array();
  int worst = 0;
  for (const EntryLimits& entry : that_take(parse_entries(options.entries), options, shapes)) {
    BuildOptions alone = options;
    alone.entries.clear();
    const auto dims = dims_of(entry);
    alone.shapes.dims.insert(alone.shapes.dims.end(), dims.begin(), dims.end());
    console.print(fmt::format("entry {}: {}", entry.name, fmt::join(dims, ", ")));
    Console own = console;
    own.collect = [&](const nlohmann::ordered_json& object) {
      report.push_back({{"entry", entry.name}});
      report.back().update(object);
    };
    const int code =
        with_context(fmt::format("entry '{}'", entry.name), [&] { return run(alone, own); });
    worst = std::max(worst, code);
  }
  console.result({{"entries", report}});
  return worst;
}

}  // namespace sinter::tools
