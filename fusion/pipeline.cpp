#include "fusion/pipeline.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "fusion/passes/passes.h"
#include "ir/constants/recipe.h"
#include "ir/text/similar.h"
#include "sinter/error.h"

namespace sinter::fusion {

const std::vector<Pass>& pipeline() {
  // Layers that stay one operator are known before anything looks for products and states. States
  // are found in the model's own spelling; quantize_weights comes next, since what is left
  // of dequantizations is folded into float weights; recognise sees the model's own spelling;
  // scales are folded into weights before those are rounded to 8 bits or a lower
  // precision; caches become rows of 8 bits once their types are known; simplify runs after
  // lower_precision to remove the casts that meet; products of quantized values are found then,
  // since their sums, and what scales these, are wide whatever precision is asked for, and until
  // then nobody evaluates what dequantizes their weights; attention is found while softmax is one
  // node, and takes in its views once the projections that it reads are slices of one; rows are
  // selected once decoders have said which they sample; projections are merged before views are
  // folded into products, since the slices are views too, and so are weights that are laid out the
  // other way round; reductions pick their neighbours before what is left becomes pointwise
  // regions.
  static const std::vector<Pass> passes = {
      {"expand_bodies", expand_bodies},
      {"find_states", find_states, false, false},
      {"quantize_weights", quantize_weights},
      {"fold_constants", fold_constants},
      {"recognise", recognise, true},
      {"fold_scales", fold_scales, true},
      {"fold_thresholds", fold_thresholds, true},
      {"quantize_products", quantize_products, false, false},
      {"lower_precision", lower_precision, false, false},
      {"quantize_caches", quantize_caches, false, false},
      {"simplify", simplify, true},
      {"fuse_quantization", fuse_quantization, true},
      {"recognise_attention", recognise_attention, true},
      {"fold_row_scales", fold_row_scales, true},
      {"quantize_attention", quantize_attention, true, false},
      {"page_caches", page_caches, false, false},
      {"pack_sequences", pack_sequences, false, false},
      {"select_rows", select_rows, true},
      {"decompose", decompose},
      {"reduce_parts", reduce_parts, true},
      {"assign_layouts", assign_layouts, true},
      {"merge_projections", merge_projections, true},
      {"lay_out_weights", lay_out_weights, true},
      {"fuse_attention", fuse_attention, true},
      {"fuse_matmul", fuse_matmul, true},
      {"split_reductions", split_reductions, true},
      {"fuse_reductions", fuse_reductions, true},
      {"fuse_pointwise", fuse_pointwise, true},
      {"fuse_cache_rows", fuse_cache_rows, true},
      {"fuse_gemm", fuse_gemm, true},
      {"fuse_custom", fuse_custom, true},
      {"fuse_horizontal", fuse_horizontal, true},
      {"wrap_singletons", wrap_singletons},
  };
  return passes;
}

namespace {

void check_name(const std::string& name, std::string_view option) {
  std::vector<std::string> known;
  for (const Pass& pass : pipeline()) known.emplace_back(pass.name);
  if (std::ranges::find(known, name) != known.end()) return;
  const std::string hint = ir::did_you_mean(name, known);
  throw Error(ErrorCode::kUsage,
              fmt::format("{}: there is no pass '{}'{}", option, name,
                          hint.empty() ? fmt::format("; the passes are {}", fmt::join(known, ", "))
                                       : hint));
}

bool is_loop(const Node& node) { return node.op->kind == OpKind::kWhile; }
/// A node that has a body from the start.
bool is_imported_with_body(const Node& node) { return node.body != nullptr; }

/// `graph` with every body of such nodes changed, those within others first.
Graph change_bodies(const Graph& graph, bool (*is_changed)(const Node& node),
                    const std::function<Graph(const Graph& body)>& change) {
  if (std::none_of(graph.nodes().begin(), graph.nodes().end(), is_changed)) return graph;
  return ir::rewrite(
      graph,
      [&](ir::GraphBuilder& builder, const Graph&, const Node& node,
          std::span<const ValueId> inputs) -> std::optional<std::vector<ValueId>> {
        if (!is_changed(node)) return std::nullopt;
        return builder.add_multi(
            node.op->name, {inputs.begin(), inputs.end()}, node.attrs,
            std::make_shared<const Graph>(change(change_bodies(*node.body, is_changed, change))));
      });
}

/// `body` with the ranges of the graph around it, which import may have narrowed since.
Graph with_ranges(const Graph& body, const ir::Ranges& ranges) {
  ir::GraphBuilder builder(body.name());
  for (const auto& [symbol, range] : ranges) builder.range(symbol, range);
  std::vector<ValueId> inputs;
  for (const ValueId input : body.inputs())
    inputs.push_back(builder.input(body.value(input).name, body.type(input)));
  const std::vector<ValueId> outputs = ir::inline_graph(builder, body, inputs);
  for (std::size_t i = 0; i < outputs.size(); ++i)
    builder.output(body.output_names()[i], outputs[i]);
  return builder.finish();
}

/// Runs `pass` on a graph and, unless it does that itself, on the bodies of its loops, which have
/// no states of the model's and none of its samples.
Graph run_pass(const Pass& pass, const Graph& graph, Context& context) {
  const ir::ReadScope scope(fmt::format("the pass {}", pass.name));
  const Graph changed = pass.run(graph, context);
  if (!pass.on_bodies) return changed;
  const auto samples = std::move(context.weights.calibration);
  const Graph result =
      change_bodies(changed, is_loop, [&](const Graph& body) { return pass.run(body, context); });
  context.weights.calibration = samples;
  return result;
}

}  // namespace

PipelineResult run_pipeline(const Graph& graph, Context& context, const PipelineOptions& options) {
  for (const std::string& name : options.disabled) check_name(name, "--disable-pass");
  if (!options.stop_after.empty()) check_name(options.stop_after, "--stop-after");

  PipelineResult result{
      change_bodies(graph, is_imported_with_body,
                    [&](const Graph& body) { return with_ranges(body, graph.ranges()); }),
      {}};
  for (const Pass& pass : pipeline()) {
    const std::string name(pass.name);
    if (options.disabled.count(name) == 0 && (context.fuse || !pass.only_when_fusing)) {
      if (options.observe) options.observe(pass.name, false, result.graph);
      const auto start = std::chrono::steady_clock::now();
      const std::size_t before = result.graph.nodes().size();
      const std::size_t decided = context.decisions.size();
      const Graph given = result.graph;
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

std::optional<Graph> separate(const Graph& graph, std::span<const std::size_t> nodes) {
  bool separated = false;
  const auto visit = [&](GraphBuilder& builder, const Graph&, const Node& node,
                         std::span<const ValueId> inputs) -> std::optional<std::vector<ValueId>> {
    const auto index = static_cast<std::size_t>(&node - graph.nodes().data());
    if (std::ranges::find(nodes, index) == nodes.end() || !node.body ||
        node.body->nodes().size() < 2)
      return std::nullopt;
    separated = true;
    return ir::inline_graph(builder, *node.body, inputs);
  };
  const Graph bare = ir::rewrite(graph, visit);
  if (!separated) return std::nullopt;
  Context context;
  return wrap_singletons(bare, context);
}

}  // namespace sinter::fusion
