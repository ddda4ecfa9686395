#include <algorithm>
#include <chrono>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "fusion/pipeline.h"
#include "sinter/error.h"

namespace sinter::fusion {
namespace {

void check_name(const std::string& name, std::string_view option) {
  std::vector<std::string_view> known;
  for (const Pass& pass : pipeline()) known.push_back(pass.name);
  if (std::find(known.begin(), known.end(), name) != known.end()) return;
  throw Error(ErrorCode::kUsage, fmt::format("{}: there is no pass '{}'; the passes are {}", option,
                                             name, fmt::join(known, ", ")));
}

}  // namespace

PipelineResult run_pipeline(const ir::Graph& graph, Context& context,
                            const PipelineOptions& options) {
  for (const std::string& name : options.disabled) check_name(name, "--disable-pass");
  if (!options.stop_after.empty()) check_name(options.stop_after, "--stop-after");

  PipelineResult result{graph, {}};
  for (const Pass& pass : pipeline()) {
    const std::string name(pass.name);
    if (options.disabled.count(name) == 0 && (context.fuse || !pass.only_when_fusing)) {
      if (options.observe) options.observe(pass.name, false, result.graph);
      const auto start = std::chrono::steady_clock::now();
      const std::size_t before = result.graph.nodes().size();
      const std::size_t decided = context.decisions.size();
      const ir::Graph given = result.graph;
      result.graph =
          with_context(fmt::format("in pass '{}'", name), [&] { return pass.run(given, context); });
      for (std::size_t i = decided; i < context.decisions.size(); ++i)
        context.decisions[i].pass = name;
      const std::chrono::duration<double, std::milli> spent =
          std::chrono::steady_clock::now() - start;
      if (!result.graph.is_same(given))
        with_context(fmt::format("after pass '{}'", name), [&] { ir::verify(result.graph); });
      result.times.push_back({name, spent.count(), before, result.graph.nodes().size()});
      if (options.observe) options.observe(pass.name, true, result.graph);
    }
    if (name == options.stop_after) break;
  }
  return result;
}

}  // namespace sinter::fusion
