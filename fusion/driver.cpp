#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>

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

/// `graph` with every body of a loop changed, those within others first.
ir::Graph change_bodies(const ir::Graph& graph,
                        const std::function<ir::Graph(const ir::Graph& body)>& change) {
  const auto is_loop = [](const ir::Node& node) { return node.op->kind == ir::OpKind::kWhile; };
  if (std::none_of(graph.nodes().begin(), graph.nodes().end(), is_loop)) return graph;
  return ir::rewrite(
      graph,
      [&](ir::GraphBuilder& builder, const ir::Graph&, const ir::Node& node,
          std::span<const ir::ValueId> inputs) -> std::optional<std::vector<ir::ValueId>> {
        if (!is_loop(node)) return std::nullopt;
        return builder.add_multi(
            node.op->name, {inputs.begin(), inputs.end()}, node.attrs,
            std::make_shared<const ir::Graph>(change(change_bodies(*node.body, change))));
      });
}

/// `body` with the ranges of the graph around it, which import may have narrowed since.
ir::Graph with_ranges(const ir::Graph& body, const ir::Ranges& ranges) {
  ir::GraphBuilder builder(body.name());
  for (const auto& [symbol, range] : ranges) builder.range(symbol, range);
  std::vector<ir::ValueId> inputs;
  for (const ir::ValueId input : body.inputs())
    inputs.push_back(builder.input(body.value(input).name, body.type(input)));
  const std::vector<ir::ValueId> outputs = ir::inline_graph(builder, body, inputs);
  for (std::size_t i = 0; i < outputs.size(); ++i)
    builder.output(body.output_names()[i], outputs[i]);
  return builder.finish();
}

/// Runs `pass` on a graph and on the bodies of its loops, which have no states of the model's and
/// none of its samples.
ir::Graph run_pass(const Pass& pass, const ir::Graph& graph, Context& context) {
  const ir::Graph changed = pass.run(graph, context);
  if (!pass.on_bodies) return changed;
  const auto samples = std::move(context.weights.calibration);
  const ir::Graph result =
      change_bodies(changed, [&](const ir::Graph& body) { return pass.run(body, context); });
  context.weights.calibration = samples;
  return result;
}

}  // namespace

PipelineResult run_pipeline(const ir::Graph& graph, Context& context,
                            const PipelineOptions& options) {
  for (const std::string& name : options.disabled) check_name(name, "--disable-pass");
  if (!options.stop_after.empty()) check_name(options.stop_after, "--stop-after");

  PipelineResult result{
      change_bodies(graph,
                    [&](const ir::Graph& body) { return with_ranges(body, graph.ranges()); }),
      {}};
  for (const Pass& pass : pipeline()) {
    const std::string name(pass.name);
    if (options.disabled.count(name) == 0 && (context.fuse || !pass.only_when_fusing)) {
      if (options.observe) options.observe(pass.name, false, result.graph);
      const auto start = std::chrono::steady_clock::now();
      const std::size_t before = result.graph.nodes().size();
      const std::size_t decided = context.decisions.size();
      const ir::Graph given = result.graph;
      result.graph = with_context(fmt::format("in pass '{}'", name),
                                  [&] { return run_pass(pass, given, context); });
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
