// SPDX-License-Identifier: Apache-2.0
#include "fusion/pipeline.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "fusion/passes/passes.h"
#include "ir/constants/recipe.h"
#include "ir/text/similar.h"
#include "sinter/error.h"

namespace sinter::fusion {

const std::vector<Pass>& pipeline() {
  using namespace facts;
  static const std::vector<Pass> passes = [] {
    std::vector<Pass> all = {
        {.name = "expand_bodies", .run = expand_bodies, .establishes = {&kBodiesExpanded}},
        // States are found in the model's own spelling.
        {.name = "find_states",
         .run = find_states,
         .needs = {&kBodiesExpanded},
         .establishes = {&kStatesFound},
         .on_bodies = false},
        // What quantizes weights, and decoders for many texts, know mixtures by grouped matmuls.
        {.name = "group_gathered",
         .run = group_gathered,
         .needs = {&kBodiesExpanded},
         .only_when_fusing = true,
         .removes = "rows are sorted by the matrix that they choose: a mixture of experts"},
        {.name = "quantize_weights",
         .run = quantize_weights,
         .needs = {&kBodiesExpanded},
         .establishes = {&kWeightsRead},
         .of_model = [](const Context&) { return true; }},
        // What is left of dequantizations is folded into float weights.
        {.name = "fold_constants",
         .run = fold_constants,
         .needs = {&kWeightsRead},
         .establishes = {&kConstantsFolded},
         .removes = "its result does not depend on the inputs and was computed"},
        // Epsilons and tables are constants in idioms.
        {.name = "recognise",
         .run = recognise,
         .needs = {&kConstantsFolded},
         .establishes = {&kIdiomsRecognised},
         .only_when_fusing = true,
         .removes = "an operator that does the same as several took its place"},
        // Weights of experts are constants, in their formats.
        {.name = "recognise_mixtures",
         .run = recognise_mixtures,
         .needs = {&kWeightsRead, &kConstantsFolded, &kIdiomsRecognised},
         .only_when_fusing = true,
         .removes = "it is part of a mixture of experts, whose rows are sorted by expert"},
        // Masks of chunks are constants; gates keep their types in lower_precision.
        {.name = "recognise_recurrences",
         .run = recognise_recurrences,
         .needs = {&kConstantsFolded},
         .only_when_fusing = true,
         .removes = "it is part of a recurrence over tokens"},
        // Scales are folded before weights are rounded to 8 bits or a lower precision.
        {.name = "fold_scales",
         .run = fold_scales,
         .needs = {&kConstantsFolded},
         .only_when_fusing = true,
         .removes = "it went into the weights of a matmul or convolution"},
        {.name = "fold_thresholds",
         .run = fold_thresholds,
         .needs = {&kConstantsFolded},
         .only_when_fusing = true,
         .removes = "it went into the thresholds of decision trees"},
        {.name = "quantize_products",
         .run = quantize_products,
         .needs = {&kWeightsRead, &kConstantsFolded},
         .on_bodies = false,
         .of_model = [](const Context& context) { return context.eight_bit.type.has_value(); }},
        {.name = "lower_precision",
         .run = lower_precision,
         .needs = {&kBodiesExpanded, &kConstantsFolded},
         .establishes = {&kPrecisionLowered},
         .on_bodies = false,
         .removes = "types made it needless"},
        // The types of caches are known now.
        {.name = "quantize_caches",
         .run = quantize_caches,
         .needs = {&kStatesFound, &kPrecisionLowered},
         .on_bodies = false},
        // Casts that meet cancel.
        {.name = "simplify",
         .run = simplify,
         .needs = {&kPrecisionLowered},
         .establishes = {&kSimplified},
         .only_when_fusing = true,
         .removes = "the algebra left nothing to compute"},
        // Accumulators, and what scales them, are wide whatever precision is asked for.
        {.name = "sink_scales",
         .run = sink_scales,
         .needs = {&kPrecisionLowered, &kSimplified},
         .establishes = {&kEightBitOperandsFound},
         .only_when_fusing = true},
        // Softmax is one node.
        {.name = "recognise_attention",
         .run = recognise_attention,
         .needs = {&kIdiomsRecognised, &kSimplified},
         .establishes = {&kAttentionFound},
         .only_when_fusing = true},
        {.name = "sink_cache_scales",
         .run = sink_cache_scales,
         .needs = {&kAttentionFound},
         .only_when_fusing = true},
        {.name = "quantize_attention",
         .run = quantize_attention,
         .needs = {&kAttentionFound},
         .only_when_fusing = true,
         .on_bodies = false},
        // Names the dimension that is limited.
        {.name = "page_caches",
         .run = page_caches,
         .needs = {&kStatesFound, &kPrecisionLowered},
         .on_bodies = false,
         .of_model = [](const Context& context) { return context.paging.has_value(); }},
        {.name = "pack_sequences",
         .run = pack_sequences,
         .needs = {&kPrecisionLowered},
         .on_bodies = false},
        {.name = "select_rows",
         .run = select_rows,
         .needs = {&kAttentionFound},
         .only_when_fusing = true},
        // Products, attention, mixtures and states are found; weights are not yet joined, laid out
        // or dequantized for one device.
        {.name = "shard",
         .run = shard,
         .needs = {&kStatesFound, &kPrecisionLowered},
         .on_bodies = false,
         .of_model = [](const Context& context) { return context.sharding.ranks > 1; }},
        {.name = "slice_weights",
         .run = slice_weights,
         .needs = {&kPrecisionLowered},
         .on_bodies = false,
         .of_model = [](const Context& context) { return context.sharding.ranks > 1; }},
        {.name = "ungroup_matmuls",
         .run = ungroup_matmuls,
         .needs = {&kConstantsFolded, &kPrecisionLowered}},
        {.name = "decompose",
         .run = decompose,
         .needs = {&kConstantsFolded, &kPrecisionLowered},
         .establishes = {&kDecomposed}},
        {.name = "reduce_parts",
         .run = reduce_parts,
         .needs = {&kDecomposed},
         .only_when_fusing = true},
        {.name = "assign_layouts",
         .run = assign_layouts,
         .needs = {&kDecomposed},
         .establishes = {&kLayoutsAssigned},
         .only_when_fusing = true},
        // Slices of a merged projection are views, which matmuls and attention take in.
        {.name = "merge_projections",
         .run = merge_projections,
         .needs = {&kLayoutsAssigned},
         .only_when_fusing = true},
        {.name = "lay_out_weights",
         .run = lay_out_weights,
         .needs = {&kLayoutsAssigned},
         .establishes = {&kWeightsLaidOut},
         .only_when_fusing = true},
        // Behind the passes that look for caches, which Scatters write.
        {.name = "group_updates", .run = group_updates, .needs = {&kDecomposed}},
        {.name = "fuse_routes",
         .run = fuse_routes,
         .needs = {&kDecomposed},
         .only_when_fusing = true},
        {.name = "fuse_attention",
         .run = fuse_attention,
         .needs = {&kAttentionFound, &kWeightsLaidOut},
         .only_when_fusing = true},
        {.name = "fuse_matmul",
         .run = fuse_matmul,
         .needs = {&kEightBitOperandsFound, &kWeightsLaidOut},
         .only_when_fusing = true},
        {.name = "split_reductions",
         .run = split_reductions,
         .needs = {&kDecomposed},
         .only_when_fusing = true},
        // Reductions pick their neighbours before what is left becomes pointwise regions.
        {.name = "fuse_reductions",
         .run = fuse_reductions,
         .needs = {&kDecomposed, &kLayoutsAssigned},
         .only_when_fusing = true},
        {.name = "fuse_pointwise",
         .run = fuse_pointwise,
         .needs = {&kDecomposed},
         .only_when_fusing = true},
        {.name = "fuse_cache_rows",
         .run = fuse_cache_rows,
         .needs = {&kAttentionFound, &kDecomposed},
         .only_when_fusing = true},
        {.name = "fuse_gemm", .run = fuse_gemm, .needs = {&kDecomposed}, .only_when_fusing = true},
        {.name = "fuse_custom",
         .run = fuse_custom,
         .needs = {&kDecomposed},
         .only_when_fusing = true},
        {.name = "fuse_collectives",
         .run = fuse_collectives,
         .needs = {&kDecomposed},
         .only_when_fusing = true,
         .on_bodies = false},
        {.name = "fuse_horizontal",
         .run = fuse_horizontal,
         .needs = {&kDecomposed},
         .only_when_fusing = true},
        {.name = "wrap_singletons",
         .run = wrap_singletons,
         .needs = {&kDecomposed},
         .establishes = {&kAllFused}},
    };
    check_order(all);
    return all;
  }();
  return passes;
}

void check_order(std::span<const Pass> passes) {
  std::set<const Fact*> established;
  std::set<std::string_view> names;
  for (const Pass& pass : passes) {
    if (!names.insert(pass.name).second)
      throw Error(ErrorCode::kInternal, fmt::format("two passes are named '{}'", pass.name));
    for (const Fact* fact : pass.needs)
      if (!established.contains(fact))
        throw Error(ErrorCode::kInternal,
                    fmt::format("pass '{}' needs '{}', which no pass in front of it establishes",
                                pass.name, fact->name));
    established.insert(pass.establishes.begin(), pass.establishes.end());
  }
}

std::string_view last_pass_of_model(const Context& context) {
  std::string_view last;
  for (const Pass& pass : pipeline())
    if (pass.of_model != nullptr && pass.of_model(context)) last = pass.name;
  return last;
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
/// True for a node that is imported with a body.
bool is_imported_with_body(const Node& node) { return node.body != nullptr; }

/// `graph` with every body of such nodes replaced, innermost first.
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

/// `body` with the ranges of the enclosing graph, which import may have narrowed.
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

/// Runs `pass` on a graph and, unless the pass does so itself, on the bodies of loops. Bodies have
/// no states or samples of the model.
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

/// Refusals between nodes that a later pass has put into one kernel after all.
void drop_superseded(std::vector<Decision>& decisions, const Graph& graph) {
  std::map<std::string_view, std::set<std::size_t>> kernels;  // by origin
  for (std::size_t n = 0; n < graph.nodes().size(); ++n)
    if (graph.nodes()[n].op->kind == OpKind::kFused)
      for (const Node& node : graph.nodes()[n].body->nodes())
        for (const std::string& origin : node.origins) kernels[origin].insert(n);
  const auto kernels_of = [&](const std::vector<std::string>& origins) {
    std::set<std::size_t> found;
    for (const std::string& origin : origins) found.merge(std::set(kernels[origin]));
    return found;
  };
  std::erase_if(decisions, [&](const Decision& decision) {
    if (decision.fused || decision.producer_origins == decision.consumer_origins) return false;
    const auto producer = kernels_of(decision.producer_origins);
    return std::ranges::any_of(kernels_of(decision.consumer_origins),
                               [&](std::size_t kernel) { return producer.contains(kernel); });
  });
}

/// Those of `pass`, and of passes before which last; those are added.
void check_facts(const Pass& pass, const Graph& graph, const Context& context,
                 std::vector<const Fact*>& lasting) {
  const auto check = [&](const Fact& fact) {
    if (const std::string violation = fact.violation(graph, context); !violation.empty())
      throw Error(ErrorCode::kInternal, fmt::format("behind pass '{}', '{}' does not hold: {}",
                                                    pass.name, fact.name, violation));
  };
  for (const Fact* fact : lasting) check(*fact);
  for (const Fact* fact : pass.establishes) {
    check(*fact);
    if (fact->lasts) lasting.push_back(fact);
  }
}

}  // namespace

PipelineResult run_pipeline(const Graph& graph, Context& context, const PipelineOptions& options) {
  for (const std::string& name : options.disabled) check_name(name, "--disable-pass");
  if (!options.stop_after.empty()) check_name(options.stop_after, "--stop-after");

  PipelineResult result{
      change_bodies(graph, is_imported_with_body,
                    [&](const Graph& body) { return with_ranges(body, graph.ranges()); }),
      {}};
  std::vector<const Fact*> lasting;
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
      const bool changed = !ir::structurally_equal(result.graph, given);
      if (!result.graph.is_same(given))
        with_context(fmt::format("after pass '{}'", name), [&] { ir::verify(result.graph); });
      if (options.check_facts) check_facts(pass, result.graph, context, lasting);
      result.times.push_back({name, spent.count(), before, result.graph.nodes().size(), changed});
      if (options.observe) options.observe(pass.name, true, result.graph);
    }
    if (name == options.stop_after) break;
  }
  drop_superseded(context.decisions, result.graph);
  return result;
}

std::optional<Graph> separate(const Graph& graph, std::span<const std::size_t> nodes) {
  bool separated = false;
  const auto visit = [&](GraphBuilder& builder, const Graph&, const Node& node,
                         std::span<const ValueId> inputs) -> std::optional<std::vector<ValueId>> {
    const auto index = static_cast<std::size_t>(&node - graph.nodes().data());
    if (std::ranges::find(nodes, index) == nodes.end() || node.op->kind != OpKind::kFused ||
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
